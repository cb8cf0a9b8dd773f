"""Limits the requests that run and wait, and refuses the rest with a 429."""

import asyncio
from bisect import insort
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
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

    A request whose hosted tool runs has no place in the queue. Requests with hosted tools are
    therefore limited by themselves, too: there are at most as many as the queue has places.
    running: requests that sample at once, >= 1. waiting: requests that may wait for a slot, >= 0.
    """

    def __init__(self, running: int, waiting: int) -> None:
        self._slots = _Slots(running)
        self._places = _Places()
        self.refused = 0
        """Requests that found no place, since the start."""
        self.limit = running + waiting
        """The most requests that sample or wait at once."""

    @property
    def admitted(self) -> int:
        """Requests that have not ended."""
        return self._places.admitted

    @property
    def queued(self) -> int:
        """Requests that sample or wait now. Those that return from a tool may exceed the limit."""
        return self._places.queued

    @property
    def running(self) -> int:
        """Requests that hold a slot now. Those that are still prepared neither run nor wait."""
        return self._slots.held

    @property
    def waiting(self) -> int:
        """Requests that wait for a slot now."""
        return self._slots.waiting

    @property
    def evicted(self) -> int:
        """Requests that lost their place to one that goes first, since the start."""
        return self._slots.evicted

    def enter(self, priority: int = 0, *, hosted: bool = False) -> "Ticket":
        """A place in the queue. Raises RateLimited if there is none.

        hosted: whether the request has hosted tools.
        """
        full = hosted and self._places.hosted >= self.limit
        if full or self._places.queued >= self.limit:
            try:
                self._slots.evict(priority, hosted=full)
            except RateLimited:
                self.refused += 1
                raise
        return Ticket(self._slots, self._places, priority, hosted=hosted)

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


@dataclass(slots=True)
class _Places:
    """How many requests there are.

    admitted: that have not ended. queued: of these, how many sample or wait for a slot. hosted: of
    those admitted, how many have hosted tools.
    """

    admitted: int = 0
    queued: int = 0
    hosted: int = 0


class Ticket:
    """A place in the queue. Call `leave` however the request ends.

    hosted: whether the request has hosted tools.
    """

    def __init__(
        self, slots: "_Slots", places: _Places, priority: int, *, hosted: bool = False
    ) -> None:
        self.priority = priority
        self.hosted = hosted
        self._slots = slots
        self._places = places
        self._left = False
        places.admitted += 1
        places.queued += 1
        places.hosted += hosted

    def slot(self, *, returning: bool = False) -> AbstractAsyncContextManager[None]:
        """Wait for a slot, and hold it for the block.

        returning: the request had a slot, or ran a tool, before. It then precedes the other
        requests of its priority, and cannot be evicted.
        Raises RateLimited if another request evicts this one; the ticket is left then.
        """
        return self._slots.hold(self, returning=returning)

    @contextmanager
    def outside(self) -> Iterator[None]:
        """Have no place in the queue for the block, in which the request holds no slot."""
        self._places.queued -= 1
        try:
            yield
        finally:
            self._places.queued += 1

    def leave(self) -> None:
        """Give the place back; safe to call twice."""
        if not self._left:
            self._left = True
            self._places.admitted -= 1
            self._places.queued -= 1
            self._places.hosted -= self.hosted


@dataclass(frozen=True, slots=True, order=True)
class _Waiter:
    """A request that waits.

    is_new: whether it had no slot before. arrival: a unique, increasing number. granted: done when
    it gets a slot, or an error if it is evicted.
    """

    priority: int
    is_new: bool
    arrival: int
    granted: asyncio.Future[None] = field(compare=False)
    ticket: Ticket = field(compare=False)


class _Slots:
    """A semaphore with priorities. No request waits while a slot is free."""

    def __init__(self, free: int) -> None:
        self._all = free
        self._free = free
        self._most_lent = max(free // LENT_SHARE, 1)
        # The functions that reclaim the slots that are lent, and those whose slots are awaited.
        self._lent: list[Callable[[], None]] = []
        self._reclaimed: list[Callable[[], None]] = []
        # In the order in which they get slots; a cancelled waiter removes itself.
        self._waiting: list[_Waiter] = []
        self._arrivals = count()
        self.evicted = 0

    @property
    def held(self) -> int:
        """How many requests have a slot. Slots that are lent are none of theirs."""
        return self._all - self._free - len(self._lent) - len(self._reclaimed)

    @property
    def waiting(self) -> int:
        """How many requests wait."""
        return len(self._waiting)

    @asynccontextmanager
    async def hold(self, ticket: Ticket, *, returning: bool = False) -> AsyncIterator[None]:
        """Wait for a slot, and hold it for the block. Raises RateLimited if evicted."""
        if self._free:
            self._free -= 1
        else:
            if self._lent:
                reclaim = self._lent.pop()
                self._reclaimed.append(reclaim)
                reclaim()
            await self._wait(ticket, is_new=not returning)
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

    def evict(self, priority: int, *, hosted: bool) -> None:
        """Evict the last request that waits with a higher priority. Raises RateLimited without one.

        hosted: whether it must be one with hosted tools.
        """
        new = (each for each in reversed(self._waiting) if each.is_new and not each.granted.done())
        last = next((each for each in new if each.ticket.hosted or not hosted), None)
        if last is None or last.priority <= priority:
            raise _full()
        self._waiting.remove(last)
        self.evicted += 1
        last.granted.set_exception(_full())
        last.ticket.leave()

    async def _wait(self, ticket: Ticket, *, is_new: bool) -> None:
        granted = asyncio.get_running_loop().create_future()
        waiter = _Waiter(ticket.priority, is_new, next(self._arrivals), granted, ticket)
        insort(self._waiting, waiter)
        try:
            await granted
        except asyncio.CancelledError:
            if granted.cancelled():
                self._waiting.remove(waiter)
            elif granted.exception() is None:
                self._pass_on()
            raise

    def _pass_on(self) -> None:
        """Give a slot to the next waiter, or free it."""
        following = next((each for each in self._waiting if not each.granted.done()), None)
        if following is None:
            self._free += 1
        else:
            self._waiting.remove(following)
            following.granted.set_result(None)


def _full() -> RateLimited:
    return RateLimited("The server is at capacity; please try again shortly.")
