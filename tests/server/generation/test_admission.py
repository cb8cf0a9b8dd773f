import asyncio
import gc

import pytest

from server.errors import RateLimited
from server.generation.admission import Admission, NoSpareSlot, Ticket
from tests.waiting import settle


class Guest:
    """A request that keeps its slot until the test releases it."""

    def __init__(self, ticket: Ticket, *, returning: bool = False) -> None:
        self.inside = False
        self.go = asyncio.Event()
        self.task = asyncio.create_task(self._stay(ticket, returning))

    async def _stay(self, ticket: Ticket, returning: bool) -> None:
        try:
            async with ticket.slot(returning=returning):
                self.inside = True
                await self.go.wait()
        finally:
            ticket.leave()


def test_all_places_can_be_taken_and_no_more() -> None:
    admission = Admission(running=1, waiting=2)
    for _ in range(3):
        admission.enter()
    with pytest.raises(RateLimited) as refusal:
        admission.enter()
    assert refusal.value.headers == {"Retry-After": "1"}
    assert admission.admitted == 3


def test_a_place_that_is_left_is_free() -> None:
    admission = Admission(running=1, waiting=0)
    admission.enter().leave()
    assert admission.admitted == 0
    admission.enter()


def test_leaving_twice_gives_one_place_back() -> None:
    admission = Admission(running=2, waiting=0)
    admission.enter()
    ticket = admission.enter()
    ticket.leave()
    ticket.leave()
    assert admission.admitted == 1


async def test_a_request_runs_while_it_holds_a_slot() -> None:
    admission = Admission(running=2, waiting=8)
    ticket = admission.enter()
    async with admission.spare_slot():
        assert (admission.queued, admission.running) == (1, 0)
        async with ticket.slot():
            assert admission.running == 1
    assert (admission.queued, admission.running) == (1, 0)


async def test_no_more_requests_run_at_once_than_may() -> None:
    admission = Admission(running=2, waiting=8)
    guests = [Guest(admission.enter()) for _ in range(4)]
    await settle()
    assert [guest.inside for guest in guests] == [True, True, False, False]
    assert admission.waiting == 2
    for guest in guests:
        guest.go.set()
    await asyncio.gather(*(guest.task for guest in guests))
    assert admission.admitted == 0


async def test_who_waits_longest_is_next() -> None:
    admission = Admission(running=1, waiting=3)
    guests = [Guest(admission.enter()) for _ in range(4)]
    for position, guest in enumerate(guests):
        await settle()
        assert [other.inside for other in guests] == [n <= position for n in range(4)]
        guest.go.set()
    await asyncio.gather(*(guest.task for guest in guests))


async def test_a_lower_priority_is_next_before_those_who_wait_longer() -> None:
    admission = Admission(running=1, waiting=4)
    first, late, plain, other, early = (Guest(admission.enter(n)) for n in (0, 7, 0, 0, -7))
    order = [first, early, plain, other, late]
    for position, guest in enumerate(order):
        await settle()
        assert [each.inside for each in order] == [n <= position for n in range(5)]
        guest.go.set()
    await asyncio.gather(*(guest.task for guest in order))


async def test_one_who_stops_waiting_holds_nobody_up() -> None:
    admission = Admission(running=1, waiting=2)
    first, second, third = (Guest(admission.enter()) for _ in range(3))
    await settle()
    second.task.cancel()
    await settle()
    assert admission.admitted == 2
    first.go.set()
    await settle()
    assert third.inside
    third.go.set()
    await third.task


async def test_one_who_is_cancelled_as_its_turn_comes_passes_it_on() -> None:
    admission = Admission(running=1, waiting=2)
    first, second, third = (Guest(admission.enter()) for _ in range(3))
    await settle()
    first.go.set()
    await asyncio.sleep(0)
    second.task.cancel()
    await settle()
    assert (second.inside, third.inside) == (False, True)
    third.go.set()
    await asyncio.wait([first.task, second.task, third.task])
    assert admission.admitted == 0


async def test_one_who_is_cancelled_before_a_slot_is_free_gets_none() -> None:
    admission = Admission(running=1, waiting=2)
    first, second, third = (Guest(admission.enter()) for _ in range(3))
    await settle()
    first.go.set()
    second.task.cancel()
    await settle()
    assert (second.inside, third.inside) == (False, True)
    third.go.set()
    await asyncio.wait([first.task, second.task, third.task])
    assert admission.admitted == 0


def cancelled_futures() -> int:
    gc.collect()
    return sum(type(each) is asyncio.Future and each.cancelled() for each in gc.get_objects())


async def test_those_who_stop_waiting_are_forgotten() -> None:
    admission = Admission(running=1, waiting=100)
    before = cancelled_futures()
    first = Guest(admission.enter())
    for _ in range(100):
        guest = Guest(admission.enter())
        await settle()
        guest.task.cancel()
        await settle()
    del guest
    assert cancelled_futures() <= before
    first.go.set()
    await first.task


async def test_a_lower_priority_takes_the_place_of_the_last_who_would_be_next() -> None:
    admission = Admission(running=1, waiting=3)
    first, middle, early, late = (Guest(admission.enter(n)) for n in (0, 1, 2, 2))
    await settle()
    better = Guest(admission.enter(1))
    assert admission.admitted == 4
    await settle()
    with pytest.raises(RateLimited):
        await late.task
    assert admission.admitted == 4
    order = [first, middle, better, early]
    for position, guest in enumerate(order):
        await settle()
        assert [each.inside for each in order] == [n <= position for n in range(4)]
        guest.go.set()
    await asyncio.gather(*(guest.task for guest in order))
    assert admission.admitted == 0


async def test_a_place_is_taken_from_none_of_the_same_priority_and_none_that_samples() -> None:
    admission = Admission(running=1, waiting=1)
    guests = [Guest(admission.enter(9)), Guest(admission.enter(0))]
    await settle()
    with pytest.raises(RateLimited):
        admission.enter(0)
    assert admission.admitted == 2
    for guest in guests:
        guest.go.set()
    await asyncio.gather(*(guest.task for guest in guests))


async def test_one_who_is_cancelled_as_it_is_sent_away_passes_nothing_on() -> None:
    admission = Admission(running=1, waiting=1)
    first, second = Guest(admission.enter()), Guest(admission.enter(5))
    await settle()
    third = Guest(admission.enter())
    second.task.cancel()
    await settle()
    assert (third.inside, admission.admitted) == (False, 2)
    first.go.set()
    third.go.set()
    await asyncio.wait([first.task, second.task, third.task])
    assert (second.inside, third.inside, admission.admitted) == (False, True, 0)


async def test_one_who_is_cancelled_at_the_same_time_is_neither_next_nor_sent_away() -> None:
    admission = Admission(running=1, waiting=2)
    first, second, third = (Guest(admission.enter(n)) for n in (0, 1, 2))
    await settle()
    third.task.cancel()
    with pytest.raises(RateLimited):
        admission.enter(1)
    second.task.cancel()
    first.go.set()
    await asyncio.wait([first.task, second.task, third.task])
    assert (second.inside, third.inside, admission.admitted) == (False, False, 0)
    again = Guest(admission.enter())
    await settle()
    assert again.inside
    again.go.set()
    await again.task


async def test_who_had_a_slot_is_next_among_its_priority() -> None:
    admission = Admission(running=1, waiting=4)
    first = Guest(admission.enter())
    await settle()
    waiting, urgent = Guest(admission.enter()), Guest(admission.enter(-1))
    back = [Guest(admission.enter(), returning=True) for _ in range(2)]
    await settle()
    order = [first, urgent, *back, waiting]
    for position, guest in enumerate(order):
        assert [other.inside for other in order] == [n <= position for n in range(5)]
        guest.go.set()
        await settle()


async def test_who_has_a_slot_or_was_evicted_waits_no_more() -> None:
    admission = Admission(running=1, waiting=1)
    first, evicted = Guest(admission.enter()), Guest(admission.enter(5))
    await settle()
    second = Guest(admission.enter())
    await settle()
    assert (evicted.task.done(), admission.waiting) == (True, 1)
    first.go.set()
    await settle()
    assert (second.inside, admission.waiting) == (True, 0)
    second.go.set()
    await asyncio.gather(*(each.task for each in (first, second, evicted)), return_exceptions=True)


async def test_who_had_a_slot_is_not_evicted() -> None:
    admission = Admission(running=1, waiting=1)
    guests = [Guest(admission.enter()), Guest(admission.enter(5), returning=True)]
    await settle()
    with pytest.raises(RateLimited):
        admission.enter(0)
    for guest in guests:
        guest.go.set()
    await asyncio.gather(*(guest.task for guest in guests))


async def test_one_outside_has_no_place() -> None:
    admission = Admission(running=1, waiting=0)
    ticket = admission.enter(hosted=True)
    with ticket.outside():
        assert (admission.queued, admission.admitted) == (0, 1)
        other = admission.enter()
    assert (admission.queued, admission.admitted) == (2, 2)
    with pytest.raises(RateLimited):
        admission.enter()
    for each in (ticket, other):
        each.leave()
    assert (admission.queued, admission.admitted) == (0, 0)


async def test_requests_with_hosted_tools_are_limited_wherever_they_are() -> None:
    admission = Admission(running=1, waiting=1)
    tickets = [admission.enter(hosted=True) for _ in range(2)]
    with tickets[0].outside(), tickets[1].outside():
        with pytest.raises(RateLimited):
            admission.enter(-1, hosted=True)
        admission.enter().leave()
        tickets[0].leave()
        admission.enter(hosted=True)


async def test_a_request_with_hosted_tools_takes_the_place_of_such_a_one() -> None:
    admission = Admission(running=1, waiting=2)
    first, second = Guest(admission.enter()), admission.enter(hosted=True)
    away = [admission.enter(hosted=True), second]
    with away[0].outside(), away[1].outside():
        late, plain = Guest(admission.enter(5, hosted=True)), Guest(admission.enter(6))
        await settle()
        better = Guest(admission.enter(1, hosted=True))
        with pytest.raises(RateLimited):
            await late.task
        assert admission.queued == 3
    for guest in (first, plain, better):
        guest.go.set()
    await asyncio.gather(first.task, plain.task, better.task)


class Borrower:
    """Work in a spare slot, until the test releases it or the slot is taken back."""

    def __init__(self, admission: Admission) -> None:
        self.go = asyncio.Event()
        self.closing = asyncio.Event()
        self.closing.set()
        self.task = asyncio.create_task(self._stay(admission))

    async def _stay(self, admission: Admission) -> None:
        async with admission.spare_slot():
            try:
                await self.go.wait()
            finally:
                # As an engine that needs a step to end a generation.
                await self.closing.wait()


async def late_borrower(admission: Admission) -> Borrower:
    """One whose work ends only when `closing` is set."""
    borrower = Borrower(admission)
    await settle()
    borrower.closing.clear()
    return borrower


async def test_a_free_slot_is_lent_and_comes_back() -> None:
    admission = Admission(running=1, waiting=0)
    borrower = Borrower(admission)
    await settle()
    assert admission.admitted == 0
    borrower.go.set()
    await borrower.task
    guest = Guest(admission.enter())
    await settle()
    assert guest.inside
    guest.go.set()
    await guest.task


async def test_without_a_free_slot_none_is_lent() -> None:
    admission = Admission(running=1, waiting=0)
    guest = Guest(admission.enter())
    await settle()
    with pytest.raises(NoSpareSlot):
        await Borrower(admission).task
    guest.go.set()
    await guest.task


async def test_one_slot_in_four_is_lent() -> None:
    admission = Admission(running=8, waiting=0)
    borrowers = [Borrower(admission) for _ in range(3)]
    await settle()
    assert [each.task.done() for each in borrowers] == [False, False, True]
    with pytest.raises(NoSpareSlot):
        await borrowers.pop().task
    for each in borrowers:
        each.go.set()
        await each.task


async def test_a_request_takes_a_slot_that_is_lent() -> None:
    admission = Admission(running=1, waiting=1)
    borrower = await late_borrower(admission)
    first = Guest(admission.enter())
    await settle()
    # The slot is free when the work has ended, and not before.
    assert not first.inside
    with pytest.raises(NoSpareSlot):
        async with admission.spare_slot():
            raise AssertionError("lent while it is awaited")
    borrower.closing.set()
    with pytest.raises(NoSpareSlot):
        await borrower.task
    await settle()
    assert first.inside
    second = Guest(admission.enter())
    await settle()
    assert not second.inside
    for guest in (first, second):
        guest.go.set()
        await guest.task


async def test_a_slot_that_is_awaited_counts_as_lent() -> None:
    admission = Admission(running=2, waiting=1)
    guest = Guest(admission.enter())
    await settle()
    borrower = await late_borrower(admission)
    other = Guest(admission.enter())
    await settle()
    for each in (guest, other):
        each.go.set()
        await each.task
    with pytest.raises(NoSpareSlot):
        async with admission.spare_slot():
            raise AssertionError("lent beside one that is awaited")
    borrower.closing.set()
    with pytest.raises(NoSpareSlot):
        await borrower.task


async def test_who_awaits_a_slot_that_is_lent_does_not_run() -> None:
    admission = Admission(running=1, waiting=0)
    borrower = await late_borrower(admission)
    guest = Guest(admission.enter())
    await settle()
    assert (admission.running, admission.waiting) == (0, 1)
    borrower.closing.set()
    guest.go.set()
    await asyncio.gather(borrower.task, guest.task, return_exceptions=True)


async def test_each_request_takes_one_slot() -> None:
    admission = Admission(running=8, waiting=8)
    guests = [Guest(admission.enter()) for _ in range(6)]
    await settle()
    borrowers = [Borrower(admission) for _ in range(2)]
    await settle()
    guests.append(Guest(admission.enter()))
    await settle()
    assert [each.task.done() for each in borrowers] == [False, True]
    assert all(guest.inside for guest in guests)
    borrowers[0].go.set()
    await asyncio.gather(*(each.task for each in borrowers), return_exceptions=True)
    for guest in guests:
        guest.go.set()
        await guest.task


async def test_a_borrower_that_is_cancelled_ends_as_cancelled() -> None:
    admission = Admission(running=1, waiting=0)
    borrower = Borrower(admission)
    await settle()
    borrower.task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await borrower.task


async def test_a_borrower_that_is_cancelled_while_its_slot_is_awaited_ends_as_cancelled() -> None:
    admission = Admission(running=1, waiting=1)
    borrower = await late_borrower(admission)
    guest = Guest(admission.enter())
    await settle()
    borrower.task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await borrower.task
    await settle()
    assert guest.inside
    guest.go.set()
    await guest.task
