"""How many threads compute at once, and which of them count."""

import asyncio
import threading
from collections.abc import Callable

import pytest

from server.slots import Slots, waiting
from tests.waiting import until


class Job:
    """Work that runs until it may end."""

    def __init__(self) -> None:
        self.began, self.may_end = threading.Event(), threading.Event()

    def __call__(self) -> int:
        self.began.set()
        assert self.may_end.wait(30)
        return threading.get_ident()

    def outside(self) -> int:
        """The same, without a slot."""
        with waiting():
            return self()


async def begun(slots: Slots, job: Callable[[], int]) -> "asyncio.Task[int]":
    """The task of a job that has been asked for."""
    task = asyncio.create_task(slots.run(job))
    await asyncio.sleep(0)
    return task


async def test_what_waits_for_a_slot_runs_in_turn() -> None:
    slots, jobs = Slots(1), [Job() for _ in range(3)]
    tasks = [await begun(slots, job) for job in jobs]
    for place, job in enumerate(jobs):
        await until(job.began.is_set)
        assert [each.began.is_set() for each in jobs[place + 1 :]] == [False] * (2 - place)
        job.may_end.set()
    assert threading.get_ident() not in await asyncio.gather(*tasks)


async def test_work_that_waits_leaves_its_slot() -> None:
    slots, first, second, third = Slots(1), Job(), Job(), Job()
    tasks = [await begun(slots, first.outside), await begun(slots, second)]
    await until(second.began.is_set)
    first.may_end.set()
    await tasks[0]
    tasks.append(await begun(slots, third))
    assert not third.began.is_set()
    second.may_end.set()
    third.may_end.set()
    await asyncio.gather(*tasks)


def test_who_has_no_slot_may_wait() -> None:
    with waiting():
        assert threading.active_count() > 0


async def test_an_error_frees_the_slot() -> None:
    def fail() -> None:
        raise ValueError("no")

    slots = Slots(1)
    for _ in range(3):
        with pytest.raises(ValueError, match="no"):
            await slots.run(fail)


async def test_cancelled_work_that_has_not_begun_is_dropped() -> None:
    slots, first, dropped, last = Slots(1), Job(), Job(), Job()
    running = await begun(slots, first)
    task = await begun(slots, dropped)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    first.may_end.set()
    last.may_end.set()
    await running
    await slots.run(last)
    assert not dropped.began.is_set()


async def test_a_slot_that_comes_with_a_cancellation_goes_on() -> None:
    slots, first, last = Slots(1), Job(), Job()
    running = await begun(slots, first)
    task = await begun(slots, Job())
    slots._give()  # the slot is on its way to the task
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    last.may_end.set()
    await slots.run(last)
    first.may_end.set()
    await running


def test_a_closed_event_loop_gets_no_slot() -> None:
    slots, first = Slots(1), Job()

    async def leave_one_waiting() -> None:
        asyncio.get_running_loop().create_task(slots.run(first))
        await until(first.began.is_set)
        slots._waiting.append(asyncio.get_running_loop().create_future())

    asyncio.run(leave_one_waiting())
    first.may_end.set()

    async def run() -> int:
        return await slots.run(lambda: 5)

    assert asyncio.run(run()) == 5
