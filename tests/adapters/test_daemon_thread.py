import asyncio
import threading
from typing import Any, NoReturn

import pytest

from adapters.daemon_thread import is_at_work, run_in_daemon_thread
from tests.waiting import until


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
    proceed, threads = threading.Event(), list[threading.Thread]()
    reports: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, report: reports.append(report))

    def work() -> None:
        threads.append(threading.current_thread())
        proceed.wait()

    task = asyncio.ensure_future(run_in_daemon_thread(work))
    await until(lambda: bool(threads))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    proceed.set()
    await asyncio.to_thread(threads[0].join)
    await asyncio.sleep(0)
    assert reports == []


async def test_the_end_of_the_process_does_not_wait_for_work() -> None:
    assert await run_in_daemon_thread(lambda: threading.current_thread().daemon)


async def test_it_is_known_whether_work_still_runs() -> None:
    """Also of work that nobody waits for any more."""
    proceed = threading.Event()
    await until(lambda: not is_at_work())
    task = asyncio.ensure_future(run_in_daemon_thread(proceed.wait))
    await until(is_at_work)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert is_at_work()
    proceed.set()
    await until(lambda: not is_at_work())
