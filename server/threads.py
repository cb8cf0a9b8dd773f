"""Decides whether work runs on the event loop or on a thread.

Small work takes less time than the switch to a thread and back, especially on a busy machine. Large
work would block all other answers.

The event loop needs the GIL after each system call. Each thread that computes may get it first, and
keeps it for the switch interval. Therefore few threads compute at once, with a shorter interval:
two for most work, and one for the largest, so that it does not delay the rest. Work that mostly
waits for something else has the threads of `asyncio.to_thread`.
"""

import asyncio
import contextvars
import sys
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from enum import IntEnum
from functools import partial
from typing import Any, BinaryIO, TypeVar

from server.encoding.json_pieces import EncodedArray

T = TypeVar("T")

LARGE = 1 << 18
"""Bytes or characters from which on work with them is among the largest."""

SWITCH_SECONDS = 0.001
"""The switch interval of the interpreter while large work runs."""

CHUNK = 1 << 16
"""The most bytes of a file that a thread reads at once."""

MOST_SMALL = 4096
"""Characters that take about a millisecond to tokenize or to parse."""

MOST_EVENTS = 500
"""Events that take about a millisecond to fold into an answer."""

_VALUE = 32  # what a value in a list or an object costs beside its text, in characters

_THREADS = 84
"""The most threads, with those that wait for a grammar: up to 12 for its compilation, 64 for one of
the same text. The others compute. Threads are made when they are needed."""

_pool = ThreadPoolExecutor(_THREADS, "compute")
_here = threading.local()


class Size(IntEnum):
    """How much time work takes, which decides where it runs."""

    SMALL = 0
    """On the event loop."""
    MEDIUM = 1
    """On one of two threads."""
    LARGE = 2
    """On the thread of the largest work."""


class Slots:
    """Lets `count` threads compute at once; further work begins in the order of its calls."""

    def __init__(self, count: int) -> None:
        self._lock = threading.Lock()
        self._free = count
        self._waiting: deque[Callable[[], bool]] = deque()
        """For each that waits a call that gives it a slot; False if it is gone."""

    async def run(self, work: Callable[[], T]) -> T:
        """The result of `work`, which runs on a thread once a slot is free.

        Work that has not begun is dropped if the caller is cancelled.
        """
        await self._take_in_turn()
        # The slot is given back once, by who gets the ticket: the thread, or `give_unused` if no
        # thread does the work. A job stays in the pool's queue even if no thread could be started.
        ticket = threading.Lock()

        def give_unused() -> None:
            if ticket.acquire(blocking=False):
                self._give()

        context = contextvars.copy_context()
        try:
            job = _pool.submit(self._run, ticket, partial(context.run, work))
        except BaseException:
            give_unused()
            raise
        job.add_done_callback(lambda _: give_unused())
        return await asyncio.wrap_future(job)

    def _run(self, ticket: threading.Lock, work: Callable[[], T]) -> T:
        if not ticket.acquire(blocking=False):
            raise RuntimeError("the caller has given up")
        _here.slots = self
        try:
            return work()
        finally:
            _here.slots = None
            self._give()

    async def _take_in_turn(self) -> None:
        with self._lock:
            if self._free > 0:
                self._free -= 1
                return
            turn = asyncio.get_running_loop().create_future()
            wake = partial(_wake_later, turn)
            self._waiting.append(wake)
        try:
            await turn
        except asyncio.CancelledError:
            with self._lock:
                has_slot = wake not in self._waiting
                if not has_slot:
                    self._waiting.remove(wake)
            if has_slot:
                self._give()
            raise

    def _give(self) -> None:
        """Give a slot to who waits longest, or keep it for the next. Any thread may call it."""
        with self._lock:
            while self._waiting:
                if self._waiting.popleft()():
                    return
            self._free += 1

    def _take_back(self) -> None:
        """Wait for a slot, before all who have not begun."""
        with self._lock:
            if self._free > 0:
                self._free -= 1
                return
            turn = threading.Event()
            self._waiting.appendleft(partial(_wake_thread, turn))
        turn.wait()

    @contextmanager
    def left(self) -> Iterator[None]:
        """Let another thread compute during the block, and wait for a slot after it."""
        self._give()
        try:
            yield
        finally:
            self._take_back()


def _wake_thread(turn: threading.Event) -> bool:
    turn.set()
    return True


def _wake_later(turn: "asyncio.Future[None]") -> bool:
    """Let the task of the turn go on, unless its event loop is closed."""
    try:
        turn.get_loop().call_soon_threadsafe(_wake, turn)
    except RuntimeError:
        return False
    return True


@contextmanager
def waiting() -> Iterator[None]:
    """The block waits for something else than the interpreter: its thread leaves its slot."""
    slots: Slots | None = getattr(_here, "slots", None)
    if slots is None:
        yield
    else:
        with slots.left():
            yield


def _wake(turn: "asyncio.Future[None]") -> None:
    if not turn.done():
        turn.set_result(None)


_computing = {Size.MEDIUM: Slots(2), Size.LARGE: Slots(1)}


async def run(work: Callable[[], T], size: Size) -> T:
    """The result of `work`, which runs on the event loop if it is small, else on a thread.

    Where `work` waits for something, it does so inside `waiting`. Work that has not begun is
    dropped if the caller is cancelled.
    """
    if size is Size.SMALL:
        return work()
    return await _computing[size].run(partial(_with_short_interval, work))


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
    with _short_interval:
        return work()


class _ShortInterval:
    """Shortens the interpreter's switch interval while any thread is inside."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._usual = 0.0

    def __enter__(self) -> None:
        with self._lock:
            if not self._inside:
                self._usual = sys.getswitchinterval()
                sys.setswitchinterval(SWITCH_SECONDS)
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                sys.setswitchinterval(self._usual)


_short_interval = _ShortInterval()


def size_of(value: Any) -> Size:
    """The size of work with a JSON value."""
    characters = cost(value, LARGE)
    return Size.LARGE if characters > LARGE else counted(characters, MOST_SMALL)


def counted(count: int, most: int) -> Size:
    """The size of work with `count` parts, which is small for up to `most` of them, else medium."""
    return Size.SMALL if count <= most else Size.MEDIUM


def cost(value: Any, most: int, each: int = _VALUE) -> int:
    """The characters of a JSON value; no more is counted once they are more than `most`.

    each: what a value in a list or an object, or a member's name with its value, costs beside text.
    """
    characters, pending = 0, [value]
    while pending and characters <= most:
        item = pending.pop()
        if isinstance(item, str):
            characters += len(item)
        elif isinstance(item, EncodedArray):
            characters += item.size
        elif isinstance(item, dict | list):
            # Charged before they are visited: there may be millions.
            characters += each * len(item)
            if characters <= most:
                pending.extend(item)  # an object's names
                pending.extend(item.values() if isinstance(item, dict) else ())
    return characters
