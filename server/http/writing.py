"""Connections whose client does not read: closed after WRITE_SECONDS without progress."""

import asyncio
import logging
from typing import Any

logger = logging.getLogger(__name__)

WRITE_SECONDS = 120.0
"""How long a full write buffer may stay as it is."""

LOOKS = 8
"""How often in that time the buffer is looked at."""


class WriteDeadline(asyncio.Protocol):
    """A base for uvicorn's protocols, to stand before them.

    It aborts the connection: closing it would wait for the client to read what is in the buffer.
    Progress is any byte that the transport could hand to the operating system.
    """

    loop: asyncio.AbstractEventLoop
    transport: Any
    _next_look: asyncio.TimerHandle | None = None
    _unsent = 0
    _looks_left = 0

    def pause_writing(self) -> None:
        """The buffer is full."""
        super().pause_writing()
        self._unsent = self.transport.get_write_buffer_size()
        self._looks_left = LOOKS
        self._look_later()

    def resume_writing(self) -> None:
        """The buffer has room again."""
        self._stop_looking()
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is closed."""
        self._stop_looking()
        super().connection_lost(exc)

    def _look(self) -> None:
        unsent = self.transport.get_write_buffer_size()
        self._looks_left = LOOKS if unsent < self._unsent else self._looks_left - 1
        self._unsent = unsent
        if self._looks_left > 0:
            self._look_later()
        else:
            logger.info("a client has read nothing for %g s: it is disconnected", WRITE_SECONDS)
            self.transport.abort()

    def _look_later(self) -> None:
        self._stop_looking()
        self._next_look = self.loop.call_later(WRITE_SECONDS / LOOKS, self._look)

    def _stop_looking(self) -> None:
        if self._next_look is not None:
            self._next_look.cancel()
            self._next_look = None
