import asyncio
import threading
from typing import NoReturn

import pytest

from adapters.daemon_thread import run_in_daemon_thread


async def test_what_work_returns_comes_back() -> None:
    here = threading.get_ident()
    assert await run_in_daemon_thread(threading.get_ident) != here


async def test_what_work_raises_is_raised() -> None:
    def fail() -> NoReturn:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await run_in_daemon_thread(fail)


def test_work_is_not_waited_for_once_nobody_wants_it() -> None:
    proceed, ended = threading.Event(), threading.Event()

    def work() -> None:
        proceed.wait()
        ended.set()

    async def cancelled() -> None:
        task = asyncio.ensure_future(run_in_daemon_thread(work))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())
    assert not ended.is_set()
    proceed.set()
    assert ended.wait(60)


async def test_work_that_ends_after_it_was_cancelled_reports_nothing() -> None:
    proceed, notified = threading.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def work() -> None:
        proceed.wait()
        loop.call_soon_threadsafe(notified.set)

    task = asyncio.ensure_future(run_in_daemon_thread(work))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    proceed.set()
    await notified.wait()
    await asyncio.sleep(0)
