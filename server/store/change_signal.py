"""How a reader learns that what it read has changed."""

import asyncio
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, suppress


class ChangeSignal:
    """Set when what was read may have changed; it may be set although nothing has.

    patience: seconds after which a wait ends all the same; with None it waits without end.
    """

    def __init__(self, patience: float | None) -> None:
        self._patience = patience
        self._notified = asyncio.Event()

    def notify(self) -> None:
        """There may be a change."""
        self._notified.set()

    async def wait(self, at_most: float | None = None) -> None:
        """Return once notified since the last call, or after `patience` or `at_most` seconds."""
        limits = [limit for limit in (self._patience, at_most) if limit is not None]
        with suppress(TimeoutError):
            await asyncio.wait_for(self._notified.wait(), min(limits, default=None))
        self._notified.clear()


class ChangeSignals:
    """The signals of one gateway, by topic.

    patience: seconds after which a reader looks again without a notification; None where every
    change notifies.
    """

    def __init__(self, patience: float | None = None) -> None:
        self._patience = patience
        self._signals: defaultdict[str, set[ChangeSignal]] = defaultdict(set)

    @contextmanager
    def listen(self, topic: str) -> Iterator[ChangeSignal]:
        """A signal for the topic, as long as the block lasts."""
        signal = ChangeSignal(self._patience)
        self._signals[topic].add(signal)
        try:
            yield signal
        finally:
            self._signals[topic].discard(signal)
            if not self._signals[topic]:
                del self._signals[topic]

    def notify(self, topic: str) -> None:
        """Notify all who listen to the topic."""
        for signal in self._signals.get(topic, ()):
            signal.notify()

    def notify_all(self) -> None:
        """Notify all, whatever they listen to."""
        for topic in self._signals:
            self.notify(topic)
