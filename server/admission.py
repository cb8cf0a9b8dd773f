"""How many requests run at once, how many wait, and who is told to come back later."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

from server.errors import RateLimited


class Admission:
    """A bounded queue in front of the engine; who waits longest is next.

    running: requests that sample at once, >= 1. waiting: requests that may wait for a slot, >= 0.
    """

    def __init__(self, running: int, waiting: int) -> None:
        self._slots = asyncio.Semaphore(running)
        self.limit = running + waiting
        """The most requests that run or wait at once."""
        self._admitted = 0

    @property
    def admitted(self) -> int:
        """Requests that run or wait now."""
        return self._admitted

    def enter(self) -> "Ticket":
        """A place in the queue. Raises RateLimited at once when there is none."""
        if self._admitted >= self.limit:
            raise RateLimited("The server is at capacity; please try again shortly.")
        self._admitted += 1
        return Ticket(self._slots, self._give_back)

    def _give_back(self) -> None:
        self._admitted -= 1


class Ticket:
    """A place in the queue; it must be left, in whatever way the request ends."""

    def __init__(self, slots: asyncio.Semaphore, give_back: Callable[[], None]) -> None:
        self._slots = slots
        self._give_back = give_back
        self._left = False

    def slot(self) -> AbstractAsyncContextManager[None]:
        """Wait for a slot, hold it for the block."""
        return self._slots

    def leave(self) -> None:
        """Give the place back; safe to call twice."""
        if not self._left:
            self._left = True
            self._give_back()
