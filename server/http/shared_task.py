"""One task for all requests that need its result at about the same time."""

import asyncio
import math
import time
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

Result = TypeVar("Result")


class SharedTask(Generic[Result]):
    """A task that several requests wait for, and whose result is used again.

    seconds: how long a result is used again. That of a task that failed never is.
    """

    def __init__(self, seconds: float = math.inf) -> None:
        self._seconds = seconds
        self._task: asyncio.Task[Result] | None = None
        self._ended = 0.0

    def get(self, make: Callable[[], Awaitable[Result]]) -> asyncio.Task[Result]:
        """The task that runs, or whose result is fresh; else a new one, with the result of `make`.

        Others may wait for it, too: a caller that can be cancelled has to shield it.
        """
        if self._task is None or (self._task.done() and not self._is_fresh(self._task)):
            self._task = asyncio.create_task(self._run(make))
        return self._task

    def _is_fresh(self, done: asyncio.Task[Result]) -> bool:
        failed = done.cancelled() or done.exception() is not None
        return not failed and time.monotonic() - self._ended < self._seconds

    async def _run(self, make: Callable[[], Awaitable[Result]]) -> Result:
        try:
            return await make()
        finally:
            self._ended = time.monotonic()
