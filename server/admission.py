"""How many requests run at once, how many wait, and who is told to come back later."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from heapq import heappop, heappush
from itertools import count

from server.errors import RateLimited


class Admission:
    """A bounded queue in front of the engine.

    Next is who has the lowest priority, and of those who waits longest. running: requests that
    sample at once, >= 1. waiting: requests that may wait for a slot, >= 0.
    """

    def __init__(self, running: int, waiting: int) -> None:
        self._slots = _Slots(running)
        self.limit = running + waiting
        """The most requests that run or wait at once."""
        self._admitted = 0

    @property
    def admitted(self) -> int:
        """Requests that run or wait now."""
        return self._admitted

    def enter(self, priority: int = 0) -> "Ticket":
        """A place in the queue. Raises RateLimited at once when there is none."""
        if self._admitted >= self.limit:
            raise RateLimited("The server is at capacity; please try again shortly.")
        self._admitted += 1
        return Ticket(lambda: self._slots.hold(priority), self._give_back)

    def _give_back(self) -> None:
        self._admitted -= 1


class Ticket:
    """A place in the queue; it must be left, in whatever way the request ends."""

    def __init__(
        self, hold: Callable[[], AbstractAsyncContextManager[None]], give_back: Callable[[], None]
    ) -> None:
        self._hold = hold
        self._give_back = give_back
        self._left = False

    def slot(self) -> AbstractAsyncContextManager[None]:
        """Wait for a slot, hold it for the block."""
        return self._hold()

    def leave(self) -> None:
        """Give the place back; safe to call twice."""
        if not self._left:
            self._left = True
            self._give_back()


class _Slots:
    """A semaphore with priorities. While a slot is free nobody waits."""

    def __init__(self, free: int) -> None:
        self._free = free
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._arrivals = count()

    @asynccontextmanager
    async def hold(self, priority: int) -> AsyncIterator[None]:
        """Wait for a slot, hold it for the block."""
        if self._free:
            self._free -= 1
        else:
            await self._wait(priority)
        try:
            yield
        finally:
            self._pass_on()

    async def _wait(self, priority: int) -> None:
        turn = asyncio.get_running_loop().create_future()
        heappush(self._waiting, (priority, next(self._arrivals), turn))
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():
                self._pass_on()
            raise

    def _pass_on(self) -> None:
        """A slot goes to the next who still waits for one."""
        while self._waiting:
            _, _, turn = heappop(self._waiting)
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1
