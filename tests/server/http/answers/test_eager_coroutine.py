import asyncio
from collections.abc import Awaitable
from contextlib import suppress

import pytest

from server.http.answers.eager_coroutine import Suspended, run_until_suspended
from tests.waiting import settle


class Steps:
    """Work that waits for one future after another, and tells how far it is."""

    def __init__(self) -> None:
        self.log: list[object] = []
        self.futures = [asyncio.get_running_loop().create_future() for _ in range(2)]

    async def __call__(self) -> None:
        self.log.append("started")
        try:
            for future in self.futures:
                self.log.append(await future)
        finally:
            self.log.append("ended")


@pytest.fixture
async def steps() -> Steps:
    return Steps()


def suspended(work: Awaitable[None]) -> Suspended:
    waiting = run_until_suspended(work)
    assert waiting is not None
    return waiting


async def test_work_that_never_waits_is_done_at_once() -> None:
    done: list[int] = []

    async def work() -> None:
        done.append(1)

    assert run_until_suspended(work()) is None
    assert done == [1]


async def test_what_is_there_already_is_not_waited_for(steps: Steps) -> None:
    for number, future in enumerate(steps.futures):
        future.set_result(number)
    assert run_until_suspended(steps()) is None
    assert steps.log == ["started", 0, 1, "ended"]


async def test_a_task_goes_on_with_work_that_waits(steps: Steps) -> None:
    resumed = asyncio.ensure_future(suspended(steps()))
    for number, future in enumerate(steps.futures):
        await settle()
        assert steps.log == ["started", *range(number)]
        future.set_result(number)
    await resumed
    assert steps.log == ["started", 0, 1, "ended"]


async def test_what_is_waited_for_may_come_before_a_task_does(steps: Steps) -> None:
    waiting = suspended(steps())
    for number, future in enumerate(steps.futures):
        future.set_result(number)
    await settle()
    assert steps.log == ["started"]
    await waiting
    assert steps.log == ["started", 0, 1, "ended"]


async def test_work_may_wait_for_nothing_but_the_next_step() -> None:
    done: list[int] = []

    async def work() -> None:
        for number in range(3):
            done.append(number)
            await asyncio.sleep(0)

    waiting = suspended(work())
    assert done == [0]
    await waiting
    assert done == [0, 1, 2]


async def test_what_is_raised_before_a_wait_is_raised_at_once() -> None:
    async def work() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        run_until_suspended(work())


async def test_what_is_raised_after_a_wait_is_raised_to_who_went_on() -> None:
    async def work() -> None:
        await asyncio.sleep(0)
        raise ValueError("no")

    waiting = suspended(work())
    with pytest.raises(ValueError, match="no"):
        await waiting


async def test_what_is_waited_for_may_fail(steps: Steps) -> None:
    waiting = suspended(steps())
    steps.futures[0].set_exception(ValueError("no"))
    with pytest.raises(ValueError, match="no"):
        await waiting
    assert steps.log == ["started", "ended"]


@pytest.mark.parametrize("waits", [0, 1])
async def test_cancelling_who_went_on_closes_the_work(steps: Steps, waits: int) -> None:
    resumed = asyncio.ensure_future(suspended(steps()))
    for number in range(waits):
        steps.futures[number].set_result(number)
    await settle()
    resumed.cancel()
    await asyncio.wait([resumed])
    assert resumed.cancelled()
    assert steps.futures[waits].cancelled()
    assert steps.log == ["started", *range(waits), "ended"]


async def test_giving_up_who_went_on_closes_the_work(steps: Steps) -> None:
    resumed = suspended(steps()).__await__()
    next(resumed)
    resumed.close()
    assert steps.log == ["started", "ended"]


async def test_work_that_nobody_goes_on_with_can_be_closed(steps: Steps) -> None:
    waiting = suspended(steps())
    waiting.close()
    assert steps.log == ["started", "ended"]


async def test_closing_work_that_has_ended_changes_nothing(steps: Steps) -> None:
    waiting = suspended(steps())
    for future in steps.futures:
        future.set_result(None)
    await waiting
    waiting.close()
    assert steps.log == ["started", None, None, "ended"]


async def test_work_may_continue_after_a_wait_that_failed() -> None:
    failing = asyncio.get_running_loop().create_future()
    after = asyncio.get_running_loop().create_future()
    log: list[str] = []

    async def work() -> None:
        try:
            await failing
        except OSError:
            log.append("failed")
        log.append(await after)

    resumed = asyncio.ensure_future(suspended(work()))
    failing.set_exception(OSError("gone"))
    await settle()
    assert log == ["failed"]
    after.set_result("ended")
    await resumed
    assert log == ["failed", "ended"]


async def test_work_may_end_with_a_wait_that_failed() -> None:
    failing = asyncio.get_running_loop().create_future()

    async def work() -> None:
        with suppress(OSError):
            await failing

    waiting = suspended(work())
    failing.set_exception(OSError("gone"))
    await waiting
