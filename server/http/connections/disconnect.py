"""Waits for a client to disconnect, and works until it does."""

import asyncio
from collections.abc import Coroutine
from typing import Any

from starlette.types import Receive


async def wait_for_disconnect(receive: Receive) -> None:
    """Return when the client has disconnected. Messages before that are dropped."""
    while (await receive())["type"] != "http.disconnect":
        continue


async def until_disconnect(work: Coroutine[Any, Any, None], receive: Receive) -> bool:
    """Await `work`, which is cancelled when the client disconnects. Returns whether it ended.

    Raises the errors of `work`, also those of its cancellation.
    """
    working = asyncio.ensure_future(work)
    leaving = asyncio.ensure_future(wait_for_disconnect(receive))
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        has_ended = working.done()
    finally:
        working.cancel()
        leaving.cancel()
        await asyncio.wait({working, leaving})
    if has_ended or not working.cancelled():
        working.result()
    return has_ended
