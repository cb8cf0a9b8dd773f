"""One task for several that wait."""

import asyncio
import time
from collections.abc import Awaitable, Callable

import pytest

from server.http.shared_task import SharedTask


class Work:
    """Counts how often it is done."""

    def __init__(self) -> None:
        self.count = 0
        self.may_end = asyncio.Event()
        self.error: Exception | None = None

    async def __call__(self) -> int:
        self.count += 1
        await self.may_end.wait()
        if self.error is not None:
            raise self.error
        return self.count


def unused() -> Awaitable[int]:
    raise AssertionError


async def test_all_that_wait_share_a_task_and_one_that_leaves_does_not_end_it() -> None:
    shared, work = SharedTask[int](), Work()

    async def wait(make: Callable[[], Awaitable[int]]) -> int:
        return await asyncio.shield(shared.get(make))

    leaving, *staying = [asyncio.create_task(wait(make)) for make in (work, unused, unused)]
    await asyncio.sleep(0)
    leaving.cancel()
    work.may_end.set()
    assert await asyncio.gather(*staying) == [1, 1]
    with pytest.raises(asyncio.CancelledError):
        await leaving
    assert await wait(unused) == 1


async def test_a_result_is_used_again_for_a_time_after_its_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    shared, work = SharedTask[int](5.0), Work()
    first = shared.get(work)
    now = 110.0
    assert shared.get(unused) is first
    work.may_end.set()
    assert await first == 1
    now = 114.9
    assert shared.get(unused) is first
    now = 115.0
    assert await shared.get(work) == 2


async def test_a_failure_is_not_used_again() -> None:
    shared, work = SharedTask[int](), Work()
    work.may_end.set()
    work.error = ValueError("a bug")
    with pytest.raises(ValueError, match="a bug"):
        await shared.get(work)
    work.error = None
    assert await shared.get(work) == 2
    shared = SharedTask()
    shared.get(work).cancel()
    await asyncio.sleep(0)
    assert await shared.get(work) == 3
