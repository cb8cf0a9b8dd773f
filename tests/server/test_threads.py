import asyncio
import contextvars
import sys
import threading
from collections.abc import Callable
from functools import partial
from io import BytesIO
from typing import Any

import pytest

from server import threads
from server.encoding.json_pieces import EncodedArray
from server.threads import (
    LARGE,
    MOST_SMALL,
    SWITCH_SECONDS,
    Size,
    Slots,
    _wake_later,
    closed_on_a_thread,
    cost,
    run,
    size_of,
    waiting,
)
from tests.waiting import until


@pytest.mark.parametrize("size", Size)
async def test_only_small_work_is_done_on_the_event_loop(size: Size) -> None:
    done_by = await run(threading.get_ident, size)
    assert (done_by == threading.get_ident()) is (size is Size.SMALL)


@pytest.mark.parametrize("size", Size)
async def test_what_the_work_raises_is_raised(size: Size) -> None:
    def fail() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await run(fail, size)


async def test_large_work_is_done_one_at_a_time() -> None:
    began, may_end, second = threading.Event(), threading.Event(), threading.Event()

    def wait() -> bool:
        began.set()
        may_end.wait()
        return second.is_set()

    first = asyncio.create_task(run(wait, Size.LARGE))
    await asyncio.to_thread(began.wait)
    other = asyncio.create_task(run(second.set, Size.LARGE))
    await asyncio.sleep(0)
    may_end.set()
    assert await first is False
    await other
    assert second.is_set()


async def test_large_work_that_was_cancelled_before_it_began_is_not_done() -> None:
    began, may_end, done = threading.Event(), threading.Event(), threading.Event()

    def wait() -> None:
        began.set()
        may_end.wait()

    first = asyncio.create_task(run(wait, Size.LARGE))
    await asyncio.to_thread(began.wait)
    cancelled = asyncio.create_task(run(done.set, Size.LARGE))
    await asyncio.sleep(0)
    cancelled.cancel()
    with pytest.raises(asyncio.CancelledError):
        await cancelled
    may_end.set()
    await first
    await run(lambda: None, Size.LARGE)
    assert not done.is_set()


async def test_large_work_has_the_context_of_its_caller() -> None:
    variable = contextvars.ContextVar[int]("variable")
    variable.set(1)
    assert await run(variable.get, Size.LARGE) == 1


async def test_threads_switch_more_often_during_large_work() -> None:
    def fail() -> None:
        raise ValueError("no")

    before = sys.getswitchinterval()
    assert before > SWITCH_SECONDS
    assert await run(sys.getswitchinterval, Size.LARGE) == pytest.approx(SWITCH_SECONDS)
    with pytest.raises(ValueError, match="no"):
        await run(fail, Size.LARGE)
    assert sys.getswitchinterval() == pytest.approx(before)


@pytest.mark.parametrize(
    "value",
    [None, True, 7, 1.5, "", "hi", [], {}, [None] * 100, {"a": {"b": ["c", {"d": [1]}]}}],
)
def test_little_json_is_small(value: Any) -> None:
    assert size_of(value) is Size.SMALL


@pytest.mark.parametrize(
    ("most", "more"),
    [
        # A value in a list takes 32 characters, and text as many as it has.
        ("a" * MOST_SMALL, "a"),
        ([0] * (MOST_SMALL // 32), [0]),
        (["a" * (MOST_SMALL // 2), "b" * (MOST_SMALL // 2 - 64)], ["c"]),
    ],
)
def test_small_ends_at_the_limit(most: Any, more: Any) -> None:
    assert size_of(most) is Size.SMALL
    assert size_of(most + more) is Size.MEDIUM


@pytest.mark.parametrize(("most", "more"), [("a" * LARGE, "a"), ([0] * (LARGE // 32), [0])])
def test_medium_ends_at_the_limit(most: Any, more: Any) -> None:
    assert size_of(most) is Size.MEDIUM
    assert size_of(most + more) is Size.LARGE


@pytest.mark.parametrize(
    "value",
    [
        {str(number): 1 for number in range(1000)},
        [[[{"a": {"b": ["c" * MOST_SMALL]}}]]],
        [{"text": "word " * 20} for _ in range(40)],
    ],
)
def test_many_values_and_much_text_are_not_small_at_any_depth(value: Any) -> None:
    assert size_of(value) is Size.MEDIUM


def test_encoded_arrays_are_as_large_as_their_bytes() -> None:
    values = EncodedArray()
    values.add(["x" * 100])
    assert size_of({"logprobs": values}) is Size.SMALL
    values.add(["x" * MOST_SMALL])
    assert size_of({"logprobs": values}) is Size.MEDIUM


def test_depth_is_no_matter() -> None:
    value: Any = "end"
    for _ in range(100_000):
        value = [value]
    assert size_of(value) is Size.LARGE


def test_a_cost_is_counted_up_to_the_limit() -> None:
    class Unlooked(list[Any]):
        def __iter__(self) -> Any:
            raise AssertionError("looked at")

    assert cost(Unlooked([0] * 100), 99, 1) == 100


def test_a_cost_is_that_of_texts_and_values() -> None:
    assert cost({"name": ["text", 1, None]}, 1000, 10) == 4 + 10 + 4 + 30


class SlowToClose(BytesIO):
    """Waits until it may be closed, as a file does for a read on another thread."""

    def __init__(self) -> None:
        super().__init__()
        self.may_close, self.is_closed = threading.Event(), threading.Event()

    def close(self) -> None:
        self.may_close.wait()
        super().close()
        self.is_closed.set()


async def test_the_event_loop_does_not_wait_until_a_file_is_closed() -> None:
    file = SlowToClose()
    with closed_on_a_thread(file):
        pass
    assert not file.is_closed.is_set()
    file.may_close.set()
    assert await asyncio.to_thread(file.is_closed.wait, 60)


async def test_two_computations_run_at_once_and_shorten_the_interval_together() -> None:
    before, began, go_on = sys.getswitchinterval(), threading.Semaphore(0), threading.Event()

    def wait() -> float:
        began.release()
        assert go_on.wait(30)
        return sys.getswitchinterval()

    running = [asyncio.create_task(run(wait, Size.MEDIUM)) for _ in range(3)]
    await asyncio.to_thread(lambda: [began.acquire(timeout=30) for _ in range(2)])
    assert not began.acquire(blocking=False)
    assert await run(sys.getswitchinterval, Size.LARGE) == pytest.approx(SWITCH_SECONDS)
    go_on.set()
    assert await asyncio.gather(*running) == pytest.approx([SWITCH_SECONDS] * 3)
    assert sys.getswitchinterval() == pytest.approx(before)


async def test_the_largest_work_does_not_wait_for_other_work() -> None:
    go_on = threading.Event()
    running = [asyncio.create_task(run(go_on.wait, Size.MEDIUM)) for _ in range(3)]
    await asyncio.sleep(0)
    assert await run(lambda: 5, Size.LARGE) == 5
    go_on.set()
    assert await asyncio.gather(*running) == [True] * 3


# Slots


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


async def test_work_that_waits_leaves_its_slot_and_returns_before_others() -> None:
    slots, first, second, third = Slots(1), Job(), Job(), Job()
    first_task = await begun(slots, first.outside)
    second_task = await begun(slots, second)
    await until(second.began.is_set)
    third_task = await begun(slots, third)
    first.may_end.set()
    await until(lambda: len(slots._waiting) == 2)  # the first one waits, too
    second.may_end.set()
    await asyncio.gather(first_task, second_task)
    third.may_end.set()
    await third_task
    assert slots._free == 1


async def test_threads_that_return_together_wait_for_slots() -> None:
    slots, all_left, most, computing = Slots(2), threading.Barrier(11), [0], [0]
    lock = threading.Lock()

    def leave_and_compute() -> None:
        with waiting():
            all_left.wait(30)
        with lock:
            computing[0] += 1
            most[0] = max(most[0], computing[0])
        threading.Event().wait(0.005)
        with lock:
            computing[0] -= 1

    tasks = [asyncio.create_task(slots.run(leave_and_compute)) for _ in range(10)]
    await asyncio.to_thread(all_left.wait, 30)
    await asyncio.gather(*tasks)
    assert (most[0], slots._free) == (2, 2)


async def test_work_without_a_thread_does_not_run_later(monkeypatch: pytest.MonkeyPatch) -> None:
    class Pool:
        """Queues the work although it cannot start a thread, as the standard library's does."""

        def submit(self, *job: Any) -> None:
            queued.append(job)
            raise RuntimeError("can't start new thread")

    queued: list[Any] = []
    slots, ran = Slots(1), []
    monkeypatch.setattr(threads, "_pool", Pool())
    with pytest.raises(RuntimeError, match="thread"):
        await slots.run(lambda: ran.append(1))
    ((run_it, *arguments),) = queued
    with pytest.raises(RuntimeError, match="given up"):
        run_it(*arguments)
    assert (ran, slots._free) == ([], 1)


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
        asyncio.get_running_loop().create_task(slots.run(Job()))
        await asyncio.sleep(0)
        slots._waiting.append(partial(_wake_later, asyncio.get_running_loop().create_future()))

    asyncio.run(leave_one_waiting())
    first.may_end.set()

    async def run() -> int:
        return await slots.run(lambda: 5)

    assert asyncio.run(run()) == 5
