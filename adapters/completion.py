"""Waits for the end of work, whatever happens to the caller."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")


async def completed(work: Awaitable[T], cancel: Callable[[], object] = lambda: None) -> T:
    """The result of `work`, whose end is waited for even if the caller is cancelled meanwhile.

    Cancellations, however many, are raised as one when the work has ended, in place of its result
    or error. cancel: called with each of them, to end the work early. Other work must end by
    itself: a thread, for one, cannot be ended, and what it uses may be freed after its end alone.
    """
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cancelled = error
            cancel()
    if cancelled is None:
        return task.result()
    if not task.cancelled():
        task.exception()  # else asyncio reports an error that nobody asked for
    raise cancelled
