"""Readiness: checks of the engine and the store, in bounded time."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence

from adapters.base import Backend
from adapters.errors import BackendError
from server.store.errors import StoreUnavailable
from server.store.responses.base import Store

logger = logging.getLogger(__name__)

FRESH_SECONDS = 1.0
"""How long the result of a check is reused. `/ready` needs no key, so it must be cheap."""

CHECK_SECONDS = 3.0
"""How long a request waits for a check. A slower check continues for later requests."""

Check = Callable[[], Awaitable[str | None]]


class Readiness:
    """Checks of the engine and the store, shared by concurrent requests."""

    def __init__(self, backend: Backend, store: Store) -> None:
        self._backend = backend
        self._store = store
        self._checks = {
            "engine": _Latest(self._check_engine),
            "store": _Latest(self._check_store),
        }

    async def reasons(self) -> Sequence[str]:
        """Why the server cannot take requests; empty if it can. Names no address and no file."""
        problems = await self.problems()
        return [f"{part}: {reason}" for part, reason in problems.items() if reason]

    async def problems(self) -> Mapping[str, str | None]:
        """Why `engine` and `store` cannot serve, each None if it can."""
        results = await asyncio.gather(*(check.result() for check in self._checks.values()))
        return dict(zip(self._checks, results, strict=True))

    async def _check_engine(self) -> str | None:
        try:
            await self._backend.check()
        except BackendError:
            return "it cannot generate now; `/health` has its error"
        return None

    async def _check_store(self) -> str | None:
        try:
            await self._store.check()
        except StoreUnavailable as error:
            return error.message
        return None


class _Latest:
    """The latest result of a check, renewed on demand once it is older than `FRESH_SECONDS`."""

    def __init__(self, check: Check) -> None:
        self._check = check
        self._task: asyncio.Task[str | None] | None = None
        self._made = 0.0

    async def result(self) -> str | None:
        """The result of the check, or a reason that says that it takes too long."""
        task = self._task
        if task is None or (task.done() and time.monotonic() - self._made > FRESH_SECONDS):
            task = self._task = asyncio.create_task(self._make())
        await asyncio.wait([task], timeout=CHECK_SECONDS)
        return task.result() if task.done() else "it does not answer in time"

    async def _make(self) -> str | None:
        try:
            return await self._check()
        except Exception:
            logger.exception("a check of readiness failed")
            return "its check failed"
        finally:
            self._made = time.monotonic()
