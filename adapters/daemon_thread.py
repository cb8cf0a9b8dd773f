"""Runs blocking functions on daemon threads, for which the end of the process does not wait."""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

Result = TypeVar("Result")

_NAME = "daemon-work"


def is_at_work() -> bool:
    """Whether a thread of `run_in_daemon_thread` still runs, as one that loads a model."""
    return any(thread.name == _NAME for thread in threading.enumerate())


async def run_in_daemon_thread(work: Callable[[], Result]) -> Result:
    """Run `work` on a new daemon thread; returns or raises what `work` returns or raises.

    After a cancellation the thread continues, but neither the event loop nor the process waits for
    it. Both wait for the threads of `asyncio.to_thread`.
    """
    loop = asyncio.get_running_loop()
    outcome: asyncio.Future[Result] = loop.create_future()

    def report(set_outcome: Callable[[], None]) -> None:
        # The loop raises RuntimeError if it is closed. Then nothing awaits the outcome.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(lambda: None if outcome.done() else set_outcome())

    def run() -> None:
        try:
            result = work()
        except BaseException as error:
            failure = error
            report(lambda: outcome.set_exception(failure))
        else:
            report(lambda: outcome.set_result(result))

    threading.Thread(target=run, name=_NAME, daemon=True).start()
    return await outcome
