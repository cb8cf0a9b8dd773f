"""Limits how many threads compute at once; those that wait for something else do not count."""

import asyncio
import contextvars
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import TypeVar

T = TypeVar("T")

_THREADS = 128
"""The most threads, with those that wait. Threads are made when they are needed."""

_pool = ThreadPoolExecutor(_THREADS, "compute")
_here = threading.local()


class Slots:
    """Lets `count` threads compute at once; further work begins in the order of its calls."""

    def __init__(self, count: int) -> None:
        self._lock = threading.Lock()
        self._free = count
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def run(self, work: Callable[[], T]) -> T:
        """The result of `work`, which runs on a thread once a slot is free.

        Work that has not begun is dropped if the caller is cancelled.
        """
        await self._take_in_turn()
        context = contextvars.copy_context()
        try:
            job = _pool.submit(self._run, context, work)
        except BaseException:
            self._give()
            raise
        job.add_done_callback(self._give_of_cancelled)
        return await asyncio.wrap_future(job)

    def _run(self, context: contextvars.Context, work: Callable[[], T]) -> T:
        _here.slots = self
        try:
            return context.run(work)
        finally:
            _here.slots = None
            self._give()

    def _give_of_cancelled(self, job: "Future[T]") -> None:
        if job.cancelled():  # it never ran
            self._give()

    async def _take_in_turn(self) -> None:
        with self._lock:
            if self._free > 0:
                self._free -= 1
                return
            turn = asyncio.get_running_loop().create_future()
            self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            with self._lock:
                has_slot = turn not in self._waiting
                if not has_slot:
                    self._waiting.remove(turn)
            if has_slot:
                self._give()
            raise

    def _give(self) -> None:
        """Give a slot to who waits longest, or to whoever comes. Any thread may call it."""
        with self._lock:
            self._free += 1
            while self._free > 0 and self._waiting:
                turn = self._waiting.popleft()
                with suppress(RuntimeError):  # its event loop is closed
                    turn.get_loop().call_soon_threadsafe(_wake, turn)
                    self._free -= 1

    @contextmanager
    def left(self) -> Iterator[None]:
        """Let another thread compute during the block.

        It does not wait for a slot afterwards, so that for a moment there may be one thread more.
        """
        self._give()
        try:
            yield
        finally:
            with self._lock:
                self._free -= 1


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
