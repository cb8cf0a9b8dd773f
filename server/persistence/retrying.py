"""Repeats writes to a store that is unavailable for a while."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from server.store.responses.base import RunLost, StoreDamaged, StoreUnavailable

FIRST_PAUSE = 0.1
LONGEST_PAUSE = 2.0
"""Seconds between two attempts, before a random part of up to a half is taken off."""


def _never() -> bool:
    return False


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How long a failed write is repeated.

    seconds: from the first failure on, >= 0. stopping: asked after each failure; where it is true,
    no further attempt is made. now: seconds of a monotonic clock.
    """

    seconds: float
    stopping: Callable[[], bool] = _never
    now: Callable[[], float] = time.monotonic


NO_RETRY = RetryPolicy(0.0)


class Retries:
    """The attempts of one writer. Its failures count as one outage until an attempt succeeds."""

    def __init__(self, policy: RetryPolicy) -> None:
        self._policy = policy
        self._since: float | None = None
        self._pause = FIRST_PAUSE

    def succeeded(self) -> None:
        """The last attempt wrote what it had to."""
        self._since, self._pause = None, FIRST_PAUSE

    def pause_after(self, error: StoreUnavailable) -> float | None:
        """Seconds until the next attempt; None where there is none."""
        if isinstance(error, RunLost | StoreDamaged) or self._policy.stopping():
            return None
        now = self._policy.now()
        if self._since is None:
            self._since = now
        left = self._since + self._policy.seconds - now
        if left <= 0:
            return None
        pause = min(random.uniform(0.5, 1.0) * self._pause, left)
        self._pause = min(2 * self._pause, LONGEST_PAUSE)
        return pause

    async def until_written(self, write: Callable[[], Awaitable[None]]) -> None:
        """Repeat `write` until it succeeds. It must be idempotent.

        Raises its StoreUnavailable where the policy allows no further attempt.
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
