"""Work whose end is waited for."""

import asyncio

import pytest

from adapters.completion import completed


async def test_completed_work_has_its_result_or_its_error() -> None:
    async def fail() -> None:
        raise ValueError("no")

    assert await completed(asyncio.to_thread(lambda: 1)) == 1
    with pytest.raises(ValueError, match="no"):
        await completed(fail())


@pytest.mark.parametrize("error", [None, OSError("no")])
async def test_cancellations_wait_until_the_work_has_ended(error: OSError | None) -> None:
    began, may_end, ended = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def work() -> None:
        began.set()
        await may_end.wait()
        ended.set()
        if error is not None:
            raise error

    waiting = asyncio.create_task(completed(work()))
    await began.wait()
    for _ in range(2):
        waiting.cancel()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert not waiting.done()
    may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert ended.is_set()
