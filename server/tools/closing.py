"""Closes the sessions of hosted tools, whatever these do."""

import asyncio
import logging
from collections.abc import Iterable

from server.tools.base import ToolSession

logger = logging.getLogger(__name__)

STOP_SECONDS = 1.0
"""How long a tool may take to end a call, or to close a session."""


async def close_sessions(sessions: Iterable[ToolSession], request_id: str) -> None:
    """Close sessions, each within `STOP_SECONDS`. Errors are logged, without their text, which may
    have content.

    request_id: for the log; the id of the answer where the request has no other.
    """
    closing = {asyncio.ensure_future(session.close()): session for session in sessions}
    if not closing:
        return
    done, late = await asyncio.wait(closing, timeout=STOP_SECONDS)
    for task in late:
        task.cancel()
        name = closing[task].declaration.name
        logger.error("request %s: the session of %s does not close", request_id, name)
    for task in done:
        if not task.cancelled() and (error := task.exception()) is not None:
            name, kind = closing[task].declaration.name, type(error).__name__
            logger.error("request %s: closing %s failed with %s", request_id, name, kind)
