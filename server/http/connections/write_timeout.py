"""Closes connections whose client does not read, after WRITE_SECONDS without progress."""

import asyncio
import logging
from typing import Any

logger = logging.getLogger(__name__)

WRITE_SECONDS = 120.0
"""How long a full write buffer may make no progress."""

CHECKS = 8
"""How often the buffer is checked in that time."""


class WriteDeadline(asyncio.Protocol):
    """A base for uvicorn's protocols, to be named before them.

    It aborts the connection, because closing it would wait for the client to read the buffer.
    Progress is any byte that the transport passes to the operating system.
    """

    loop: asyncio.AbstractEventLoop
    transport: Any
    _next_check: asyncio.TimerHandle | None = None
    _unsent = 0
    _checks_left = 0

    def pause_writing(self) -> None:
        """The buffer is full."""
        super().pause_writing()
        self._unsent = self.transport.get_write_buffer_size()
        self._checks_left = CHECKS
        self._schedule_check()

    def resume_writing(self) -> None:
        """The buffer has room again."""
        self._cancel_check()
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is closed."""
        self._cancel_check()
        super().connection_lost(exc)

    def _check(self) -> None:
        unsent = self.transport.get_write_buffer_size()
        self._checks_left = CHECKS if unsent < self._unsent else self._checks_left - 1
        self._unsent = unsent
        if self._checks_left > 0:
            self._schedule_check()
        else:
            logger.info("a client has read nothing for %g s: it is disconnected", WRITE_SECONDS)
            self.transport.abort()

    def _schedule_check(self) -> None:
        self._cancel_check()
        self._next_check = self.loop.call_later(WRITE_SECONDS / CHECKS, self._check)

    def _cancel_check(self) -> None:
        if self._next_check is not None:
            self._next_check.cancel()
            self._next_check = None
