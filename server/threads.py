"""Decides whether work runs on the event loop or on a thread.

Small work takes less time than the switch to a thread and back, especially on a busy machine. Large
work would block all other answers.

The event loop needs the GIL after each system call. Each thread that computes may get it first, and
keeps it for the switch interval. Large computations therefore run one at a time, with a shorter
interval.
"""

import asyncio
import contextvars
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any, BinaryIO, TypeVar

T = TypeVar("T")

LARGE = 1 << 18
"""Bytes or characters of a request from which on work with it runs alone."""

SWITCH_SECONDS = 0.001
"""The switch interval of the interpreter while large work runs."""

CHUNK = 1 << 16
"""The most bytes of a file that a thread reads at once."""

_one_at_a_time = ThreadPoolExecutor(1, thread_name_prefix="large")

MOST_SMALL = 4096
"""Characters that take about a millisecond to tokenize or to parse."""

MOST_EVENTS = 500
"""Events that take about a millisecond to fold into an answer."""

_VALUE = 16  # the cost of a value without text, in characters


async def run(work: Callable[[], T], *, small: bool) -> T:
    """The result of `work`, which runs on the event loop if `small`, else on a thread."""
    return work() if small else await asyncio.to_thread(work)


async def run_alone(work: Callable[[], T]) -> T:
    """The result of large `work`, which runs on a thread, after the large work before it.

    It must not wait for anything. Work that has not begun is dropped if the caller is cancelled.
    """
    context = contextvars.copy_context()
    job = partial(context.run, _with_short_interval, work)
    return await asyncio.get_running_loop().run_in_executor(_one_at_a_time, job)


async def completed(work: Awaitable[T]) -> T:
    """The result of `work`, whose end is waited for even if the caller is cancelled meanwhile.

    Cancellations, however many, are raised as one when the work has ended, in place of its result
    or error. A thread cannot be ended: what it uses may be freed after this alone. The work must
    end by itself.
    """
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is None:
        return task.result()
    if not task.cancelled():
        task.exception()  # else asyncio reports an error that nobody asked for
    raise cancelled


async def read(file: BinaryIO, most: int = sys.maxsize) -> AsyncIterator[bytes]:
    """The next bytes of an open file, in pieces that are read on threads. most: how many in all."""
    left = most
    while left and (piece := await asyncio.to_thread(file.read, min(left, CHUNK))):
        left -= len(piece)
        yield piece


@contextmanager
def closed_on_a_thread(content: BinaryIO) -> Iterator[BinaryIO]:
    """Close a file after the block, without waiting for it.

    The caller may be cancelled while a thread reads. To close the file waits for that read.
    """
    try:
        yield content
    finally:
        asyncio.get_running_loop().run_in_executor(None, content.close)


def _with_short_interval(work: Callable[[], T]) -> T:
    interval = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_SECONDS)
    try:
        return work()
    finally:
        sys.setswitchinterval(interval)


def is_small(value: Any, most: int = MOST_SMALL) -> bool:
    """Whether a JSON value has little text and few values. The time for large values is bounded.

    most: the limit in characters; each value counts as 16 beside its text.
    """
    budget, pending = most, [value]
    while pending and budget >= 0:
        item = pending.pop()
        budget -= _VALUE
        if isinstance(item, str):
            budget -= len(item)
        elif isinstance(item, dict | list):
            # Charged before they are visited: there may be millions.
            budget -= _VALUE * len(item)
            if budget >= 0:
                pending.extend(item)  # an object's names
                pending.extend(item.values() if isinstance(item, dict) else ())
    return budget >= 0
