"""Readiness: checks of the engine and the store, in bounded time."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial

from adapters.base import Backend
from adapters.errors import BackendError
from server.http.shared_task import SharedTask
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
        self._checks = {"engine": self._check_engine, "store": self._check_store}
        self._problems = {part: SharedTask[str | None](FRESH_SECONDS) for part in self._checks}

    async def reasons(self) -> Sequence[str]:
        """Why the server cannot take requests; empty if it can. Names no address and no file."""
        problems = await self.problems()
        return [f"{part}: {reason}" for part, reason in problems.items() if reason]

    async def problems(self) -> Mapping[str, str | None]:
        """Why `engine` and `store` cannot serve, each None if it can."""
        tasks = {
            part: self._problems[part].get(partial(_problem, check))
            for part, check in self._checks.items()
        }
        await asyncio.wait(tasks.values(), timeout=CHECK_SECONDS)
        late = "it does not answer in time"
        return {part: task.result() if task.done() else late for part, task in tasks.items()}

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


async def _problem(check: Check) -> str | None:
    try:
        return await check()
    except Exception:
        logger.exception("a check of readiness failed")
        return "its check failed"
