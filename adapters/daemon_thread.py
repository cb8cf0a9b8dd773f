"""Long work that an interrupt need not wait for."""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

Result = TypeVar("Result")


async def run_in_daemon_thread(work: Callable[[], Result]) -> Result:
    """What `work` returns or raises, on a thread of its own.

    Cancelled, it leaves the thread to itself: the event loop can be closed and the process can end
    though it still works. asyncio's own threads are waited for, by both.
    """
    loop = asyncio.get_running_loop()
    outcome: asyncio.Future[Result] = loop.create_future()

    def tell(settle: Callable[[], None]) -> None:
        # A closed loop has nobody left who waits.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(lambda: None if outcome.done() else settle())

    def run() -> None:
        try:
            result = work()
        except BaseException as error:
            failure = error
            tell(lambda: outcome.set_exception(failure))
        else:
            tell(lambda: outcome.set_result(result))

    threading.Thread(target=run, name="apart", daemon=True).start()
    return await outcome
