"""How many requests run at once, how many wait, and who is told to come back later."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from server.errors import RateLimited


class Admission:
    """A bounded queue in front of the engine.

    running: requests that sample at once, >= 1. waiting: requests that may wait for a slot, >= 0.
    """

    def __init__(self, running: int, waiting: int) -> None:
        self._slots = asyncio.Semaphore(running)
        self._limit = running + waiting
        self._admitted = 0

    @property
    def admitted(self) -> int:
        """Requests that run or wait now."""
        return self._admitted

    def enter(self) -> "Ticket":
        """A place in the queue. Raises RateLimited at once when there is none."""
        if self._admitted >= self._limit:
            raise RateLimited("The server is at capacity; please try again shortly.")
        self._admitted += 1
        return Ticket(self)


class Ticket:
    """A place in the queue; it must be left, in whatever way the request ends."""

    def __init__(self, admission: Admission) -> None:
        self._admission = admission
        self._left = False

    @asynccontextmanager
    async def slot(self) -> AsyncGenerator[None, None]:
        """Wait for a slot, hold it for the block."""
        async with self._admission._slots:
            yield

    def leave(self) -> None:
        """Give the place back; safe to call twice."""
        if not self._left:
            self._left = True
            self._admission._admitted -= 1
