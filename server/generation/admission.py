"""Limits the requests that run and wait, and refuses the rest with a 429."""

import asyncio
from bisect import insort
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from itertools import count

from server.errors import RateLimited

LENT_SHARE = 4
"""At most one slot in `LENT_SHARE` is lent to work that nobody waits for, and at least one."""


class NoSpareSlot(Exception):
    """No slot is free for work that nobody waits for, or a request took the slot back."""


class Admission:
    """A bounded priority queue in front of the engine.

    The request with the lowest priority value is next; among equals, one that had a slot before,
    and then the one that waits longest. If the queue is full, a request evicts the last one that
    waits with a higher value and had no slot before.
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
        """A place in the queue. Raises RateLimited if there is none."""
        if self._admitted >= self.limit and not self._slots.evict(priority):
            raise _full()
        self._admitted += 1
        return Ticket(self._slots, priority, self._release)

    @asynccontextmanager
    async def spare_slot(self) -> AsyncIterator[None]:
        """Hold a free slot for the block, at most one in four of all slots, without waiting.

        Requests come first: where one would wait for a slot, the task of the block is cancelled,
        and the slot is the request's. Raises NoSpareSlot then, and where there is no free slot.
        """
        task = asyncio.current_task()
        assert task is not None
        reclaimed, cancelling = False, task.cancelling()

        def reclaim() -> None:
            nonlocal reclaimed
            reclaimed = True
            task.cancel()

        self._slots.lend(reclaim)
        try:
            yield
        except asyncio.CancelledError:
            if reclaimed and task.uncancel() <= cancelling:
                raise NoSpareSlot from None
            raise
        finally:
            self._slots.take_back(reclaim)

    def _release(self) -> None:
        self._admitted -= 1


class Ticket:
    """A place in the queue. Call `leave` however the request ends."""

    def __init__(self, slots: "_Slots", priority: int, release: Callable[[], None]) -> None:
        self._slots = slots
        self._priority = priority
        self._release = release
        self._left = False

    def slot(self, *, returning: bool = False) -> AbstractAsyncContextManager[None]:
        """Wait for a slot, and hold it for the block.

        returning: the request had a slot before. It then precedes the other requests of its
        priority, and cannot be evicted.
        Raises RateLimited if another request evicts this one; the ticket is left then.
        """
        return self._slots.hold(self._priority, self.leave, returning=returning)

    def leave(self) -> None:
        """Give the place back; safe to call twice."""
        if not self._left:
            self._left = True
            self._release()


@dataclass(frozen=True, slots=True, order=True)
class _Waiter:
    """A request that waits.

    is_new: whether it had no slot before. arrival: a unique, increasing number. leave: releases its
    place.
    """

    priority: int
    is_new: bool
    arrival: int
    turn: asyncio.Future[None] = field(compare=False)
    leave: Callable[[], None] = field(compare=False)


class _Slots:
    """A semaphore with priorities. No request waits while a slot is free."""

    def __init__(self, free: int) -> None:
        self._free = free
        self._most_lent = max(free // LENT_SHARE, 1)
        # The functions that reclaim the slots that are lent, and those whose slots are awaited.
        self._lent: list[Callable[[], None]] = []
        self._reclaimed: list[Callable[[], None]] = []
        # In the order in which they get slots; a cancelled waiter removes itself.
        self._waiting: list[_Waiter] = []
        self._arrivals = count()

    @asynccontextmanager
    async def hold(
        self, priority: int, leave: Callable[[], None], *, returning: bool = False
    ) -> AsyncIterator[None]:
        """Wait for a slot, and hold it for the block. Raises RateLimited if evicted."""
        if self._free:
            self._free -= 1
        else:
            if self._lent:
                reclaim = self._lent.pop()
                self._reclaimed.append(reclaim)
                reclaim()
            await self._wait(priority, leave, is_new=not returning)
        try:
            yield
        finally:
            self._pass_on()

    def lend(self, reclaim: Callable[[], None]) -> None:
        """Lend a free slot. Raises NoSpareSlot. reclaim: called once, if a request needs it."""
        if not self._free or len(self._lent) + len(self._reclaimed) >= self._most_lent:
            raise NoSpareSlot
        self._free -= 1
        self._lent.append(reclaim)

    def take_back(self, reclaim: Callable[[], None]) -> None:
        """The slot that was lent is not needed any more."""
        (self._lent if reclaim in self._lent else self._reclaimed).remove(reclaim)
        self._pass_on()

    def evict(self, priority: int) -> bool:
        """Evict the last request if it waits with a higher priority; whether there was one."""
        new = (each for each in reversed(self._waiting) if each.is_new and not each.turn.done())
        last = next(new, None)
        if last is None or last.priority <= priority:
            return False
        self._waiting.remove(last)
        last.turn.set_exception(_full())
        last.leave()
        return True

    async def _wait(self, priority: int, leave: Callable[[], None], *, is_new: bool) -> None:
        turn = asyncio.get_running_loop().create_future()
        waiter = _Waiter(priority, is_new, next(self._arrivals), turn, leave)
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
        """Give a slot to the next waiter, or free it."""
        following = next((each for each in self._waiting if not each.turn.done()), None)
        if following is None:
            self._free += 1
        else:
            self._waiting.remove(following)
            following.turn.set_result(None)


def _full() -> RateLimited:
    return RateLimited("The server is at capacity; please try again shortly.")
