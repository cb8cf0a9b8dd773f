"""How many requests run at once, how many wait, and who is told to come back later."""

import asyncio
from bisect import insort
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from itertools import count

from server.errors import RateLimited


class Admission:
    """A bounded queue in front of the engine.

    Next is who has the lowest priority, and of those who waits longest. Where the queue is full, a
    request takes the place of one that waits with a higher priority, the last that would be next.
    running: requests that sample at once, >= 1. waiting: requests that may wait for a slot, >= 0.
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
        if self._admitted >= self.limit and not self._slots.send_away(priority):
            raise _full()
        self._admitted += 1
        return Ticket(self._slots, priority, self._give_back)

    def _give_back(self) -> None:
        self._admitted -= 1


class Ticket:
    """A place in the queue; it must be left, in whatever way the request ends."""

    def __init__(self, slots: "_Slots", priority: int, give_back: Callable[[], None]) -> None:
        self._slots = slots
        self._priority = priority
        self._give_back = give_back
        self._left = False

    def slot(self) -> AbstractAsyncContextManager[None]:
        """Wait for a slot, hold it for the block.

        Raises RateLimited where another request takes the place; it is left then.
        """
        return self._slots.hold(self._priority, self.leave)

    def leave(self) -> None:
        """Give the place back; safe to call twice."""
        if not self._left:
            self._left = True
            self._give_back()


@dataclass(frozen=True, slots=True, order=True)
class _Waiter:
    """One that waits. arrival: a number of its own. leave: gives its place back."""

    priority: int
    arrival: int
    turn: asyncio.Future[None] = field(compare=False)
    leave: Callable[[], None] = field(compare=False)


class _Slots:
    """A semaphore with priorities. While a slot is free nobody waits."""

    def __init__(self, free: int) -> None:
        self._free = free
        # In the order of their turns; who is cancelled takes itself out.
        self._waiting: list[_Waiter] = []
        self._arrivals = count()

    @asynccontextmanager
    async def hold(self, priority: int, leave: Callable[[], None]) -> AsyncIterator[None]:
        """Wait for a slot, hold it for the block. Raises RateLimited for one that is sent away."""
        if self._free:
            self._free -= 1
        else:
            await self._wait(priority, leave)
        try:
            yield
        finally:
            self._pass_on()

    def send_away(self, priority: int) -> bool:
        """Whether one that waits with a higher priority could be made to leave: the last of all."""
        last = next((each for each in reversed(self._waiting) if not each.turn.done()), None)
        if last is None or last.priority <= priority:
            return False
        self._waiting.remove(last)
        last.turn.set_exception(_full())
        last.leave()
        return True

    async def _wait(self, priority: int, leave: Callable[[], None]) -> None:
        turn = asyncio.get_running_loop().create_future()
        waiter = _Waiter(priority, next(self._arrivals), turn, leave)
        insort(self._waiting, waiter)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                self._waiting.remove(waiter)
            elif turn.exception() is None:
                self._pass_on()
            raise

    def _pass_on(self) -> None:
        """A slot goes to the next who still waits for one."""
        following = next((each for each in self._waiting if not each.turn.done()), None)
        if following is None:
            self._free += 1
        else:
            self._waiting.remove(following)
            following.turn.set_result(None)


def _full() -> RateLimited:
    return RateLimited("The server is at capacity; please try again shortly.")
