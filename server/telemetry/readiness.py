"""Whether this server can take requests: its engine and its store are asked, in bounded time."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence

from adapters.base import Backend
from adapters.errors import BackendError
from server.store.responses.base import Store, StoreUnavailable

logger = logging.getLogger(__name__)

FRESH_SECONDS = 1.0
"""How long a check's result is used again. `/ready` asks for no key: it must cost little."""

CHECK_SECONDS = 3.0
"""How long an answer waits for a check; a longer one goes on for the answers after it."""

Check = Callable[[], Awaitable[str | None]]


class Readiness:
    """Checks of the engine and the store, shared by all who ask at once."""

    def __init__(self, backend: Backend, store: Store) -> None:
        self._backend = backend
        self._store = store
        self._checks = {
            "engine": _Latest(self._check_engine),
            "store": _Latest(self._check_store),
        }

    async def reasons(self) -> Sequence[str]:
        """Why no request can be taken; empty where one can. Names no address and no file."""
        found = await asyncio.gather(*(check.result() for check in self._checks.values()))
        return [f"{part}: {why}" for part, why in zip(self._checks, found, strict=True) if why]

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
    """The latest result of a check, made anew when it is asked for and no longer fresh."""

    def __init__(self, check: Check) -> None:
        self._check = check
        self._task: asyncio.Task[str | None] | None = None
        self._made = 0.0

    async def result(self) -> str | None:
        """What the check returned, or that it takes too long."""
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
