"""The memory of all request bodies together.

Each body is bounded by a limit of its own; without a bound on their sum, many at once take as much
memory as their clients like.
"""

import asyncio

from server.errors import BodyMemoryExhausted


class Budget:
    """How many bytes of bodies this process may have in memory at once."""

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
        """The most bytes that it had charged at a time."""
        self._work: asyncio.Future[None] | None = None

    def require(self, size: int) -> None:
        """Raises BodyMemoryExhausted unless `size` bytes could be charged now."""
        if size > self._budget.free:
            raise BodyMemoryExhausted(
                "The server has too many large request bodies in memory. Try again in a moment."
            )

    def charge(self, size: int) -> None:
        """Add `size` bytes. Raises BodyMemoryExhausted, and adds nothing, where they do not fit."""
        self.require(size)
        self._budget.used += size
        self._charged += size
        self.most = max(self.most, self._charged)

    def refund(self, size: int) -> None:
        """Take back `size` of the bytes that were charged."""
        self._budget.used -= size
        self._charged -= size

    def release(self) -> None:
        """Take back all that was charged."""
        self.refund(self._charged)

    def outlast(self, work: "asyncio.Future[None]") -> None:
        """Release no sooner than `work` is done: it uses the body longer than its client waits."""
        self._work = work

    def end(self) -> None:
        """The request has ended: release, at once or when the work that outlasts it is done."""
        if self._work is None:
            self.release()
        else:
            self._work.add_done_callback(lambda _: self.release())
