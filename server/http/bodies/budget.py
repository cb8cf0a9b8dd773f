"""Limits the memory of all request bodies together.

Each body has a limit of its own. Without a limit on their sum, many concurrent requests could take
any amount of memory.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from server.errors import BodyMemoryExhausted


class Budget:
    """The number of body bytes that this process may have in memory at once."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0

    @property
    def free(self) -> int:
        """Bytes that can still be charged."""
        return self.limit - self.used


class Lease:
    """One request's part of a budget."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._charged = 0
        self.most = 0
        """The most bytes that were charged at a time."""
        self._work: asyncio.Future[None] | None = None

    def require(self, size: int) -> None:
        """Raises BodyMemoryExhausted unless `size` bytes can be charged now."""
        if size > self._budget.free:
            raise BodyMemoryExhausted(
                "The server has too many large request bodies in memory. Try again in a moment."
            )

    def charge(self, size: int) -> None:
        """Charge `size` bytes. Raises BodyMemoryExhausted, and charges nothing, if too many."""
        self.require(size)
        self._budget.used += size
        self._charged += size
        self.most = max(self.most, self._charged)

    def refund(self, size: int) -> None:
        """Release `size` of the charged bytes."""
        self._budget.used -= size
        self._charged -= size

    def resize(self, size: int) -> None:
        """Charge or release until `size` bytes are charged. Raises as `charge` does."""
        if size > self._charged:
            self.charge(size - self._charged)
        else:
            self.refund(self._charged - size)

    @contextmanager
    def charged(self, size: int) -> Iterator[None]:
        """Charge `size` bytes until it is left. Raises BodyMemoryExhausted as `charge` does."""
        self.charge(size)
        try:
            yield
        finally:
            self.refund(size)

    def release(self) -> None:
        """Release all charged bytes."""
        self.refund(self._charged)

    def extend_until(self, work: "asyncio.Future[None]") -> None:
        """Release only after `work`, which needs the body even if the client disconnects."""
        self._work = work

    def end(self) -> None:
        """The request has ended: release now, or after the work of `extend_until`."""
        if self._work is None:
            self.release()
        else:
            self._work.add_done_callback(lambda _: self.release())
