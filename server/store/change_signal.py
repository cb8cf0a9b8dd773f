"""Bells: how a reader learns that what it read has changed."""

import asyncio
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, suppress


class Bell:
    """Rings when there may be news. It may ring for nothing, and `patience` bounds its silence."""

    def __init__(self, patience: float | None) -> None:
        self._patience = patience
        self._rung = asyncio.Event()

    def ring(self) -> None:
        """There may be news."""
        self._rung.set()

    async def wait(self, at_most: float | None = None) -> None:
        """Return when it has rung since the last call, or after `patience` or `at_most` seconds."""
        limits = [limit for limit in (self._patience, at_most) if limit is not None]
        with suppress(TimeoutError):
            await asyncio.wait_for(self._rung.wait(), min(limits, default=None))
        self._rung.clear()


class Bells:
    """The bells of one gateway, by topic.

    patience: seconds after which a reader looks again though no bell rang, None where every
    change rings.
    """

    def __init__(self, patience: float | None = None) -> None:
        self._patience = patience
        self._bells: defaultdict[str, set[Bell]] = defaultdict(set)

    @contextmanager
    def listen(self, topic: str) -> Iterator[Bell]:
        """A bell for the topic, as long as the block lasts."""
        bell = Bell(self._patience)
        self._bells[topic].add(bell)
        try:
            yield bell
        finally:
            self._bells[topic].discard(bell)
            if not self._bells[topic]:
                del self._bells[topic]

    def ring(self, topic: str) -> None:
        """Ring the topic's bells."""
        for bell in self._bells.get(topic, ()):
            bell.ring()

    def ring_all(self) -> None:
        """Ring every bell."""
        for topic in self._bells:
            self.ring(topic)
