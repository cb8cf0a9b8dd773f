"""Signals that notify readers of changes in the store."""

import asyncio
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, suppress


class ChangeSignal:
    """Set when a topic may have changed. It may be set without a change.

    poll_seconds: the longest duration of a wait without a notification; None sets no limit.
    """

    def __init__(self, poll_seconds: float | None) -> None:
        self._poll_seconds = poll_seconds
        self._notified = asyncio.Event()

    def notify(self) -> None:
        """End the current wait, or else the next one."""
        self._notified.set()

    async def wait(self) -> None:
        """Wait for a notification since the last call, or `poll_seconds`."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._notified.wait(), self._poll_seconds)
        self._notified.clear()


class ChangeSignals:
    """The signals of one gateway, by topic.

    poll_seconds: as for each ChangeSignal; None if every change is notified.
    """

    def __init__(self, poll_seconds: float | None = None) -> None:
        self._poll_seconds = poll_seconds
        self._signals: defaultdict[str, set[ChangeSignal]] = defaultdict(set)

    @contextmanager
    def listen(self, topic: str) -> Iterator[ChangeSignal]:
        """Provide a signal for the topic for the duration of the block."""
        signal = ChangeSignal(self._poll_seconds)
        self._signals[topic].add(signal)
        try:
            yield signal
        finally:
            self._signals[topic].discard(signal)
            if not self._signals[topic]:
                del self._signals[topic]

    def notify(self, topic: str) -> None:
        """Set the signals of the topic."""
        for signal in self._signals.get(topic, ()):
            signal.notify()

    def notify_all(self) -> None:
        """Set the signals of all topics."""
        for topic in self._signals:
            self.notify(topic)
