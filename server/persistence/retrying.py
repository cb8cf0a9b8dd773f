"""Retries writes to an unavailable store."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from server.store.errors import RunLost, StoreDamaged, StoreUnavailable

FIRST_PAUSE = 0.1
LONGEST_PAUSE = 2.0
"""Seconds between two attempts, before jitter subtracts up to one half."""


def _never() -> bool:
    return False


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How long a failed write is retried.

    seconds: from the first failure on, >= 0. stopping: called after each failure; if it returns
    true, no further attempt is made. now: seconds of a monotonic clock.
    """

    seconds: float
    stopping: Callable[[], bool] = _never
    now: Callable[[], float] = time.monotonic


NO_RETRY = RetryPolicy(0.0)


class Retries:
    """The attempts of one writer. Failures without a success between them are one outage."""

    def __init__(self, policy: RetryPolicy) -> None:
        self._policy = policy
        self._outage_start: float | None = None
        self._pause = FIRST_PAUSE

    def succeeded(self) -> None:
        """Reset after a successful attempt."""
        self._outage_start, self._pause = None, FIRST_PAUSE

    def pause_after(self, error: StoreUnavailable) -> float | None:
        """Return the seconds until the next attempt; None if there is none."""
        if isinstance(error, RunLost | StoreDamaged) or self._policy.stopping():
            return None
        now = self._policy.now()
        if self._outage_start is None:
            self._outage_start = now
        remaining = self._outage_start + self._policy.seconds - now
        if remaining <= 0:
            return None
        pause = min(random.uniform(0.5, 1.0) * self._pause, remaining)
        self._pause = min(2 * self._pause, LONGEST_PAUSE)
        return pause

    async def until_written(self, write: Callable[[], Awaitable[None]]) -> None:
        """Retry `write`, which must be idempotent, until it succeeds.

        Raises its StoreUnavailable once the policy allows no further attempt.
        """
        while True:
            try:
                await write()
            except StoreUnavailable as error:
                if (pause := self.pause_after(error)) is None:
                    raise
                await asyncio.sleep(pause)
            else:
                self.succeeded()
                return
