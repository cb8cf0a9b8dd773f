"""Runs and their readers.

A run is a task that appends wire events to its ledger. HTTP streams and whole answers read the
ledger. A foreground run is cancelled when its last reader leaves; a background run is not. A
journal, if there is one, gets the events before any reader.
"""

import asyncio
import logging
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Protocol

from server.errors import APIError, ServerFailed

logger = logging.getLogger(__name__)

WireEvent = dict[str, Any]
Encode = Callable[[WireEvent], Sequence[bytes]]
"""One event as bytes of the answer: in one piece or, if it is large, in several."""

Emit = Callable[[Sequence[WireEvent]], Awaitable[None]]


Show = Callable[[Sequence[WireEvent]], None]
Wake = Callable[[], None]


class Journal(Protocol):
    """Stores a run's events, and decides when readers get them."""

    async def begin(self) -> None:
        """Called once, before the run starts. If it raises, the run does not start."""
        ...

    async def write(self, events: Sequence[WireEvent], show: Show) -> None:
        """Store the next events of the run. An error that it raises ends the run.

        Events after an error describe that error: they are shown, but not stored.
        show: to be called, now or later, with all events in order; readers get them then.
        """
        ...


class Producer(Protocol):
    """The work of a run: emits wire events until it returns.

    It is cancelled at most once, when no reader needs the rest; it may emit last events then.
    """

    def __call__(self, emit: Emit, /) -> Awaitable[None]:
        """Emit all events, then return. An APIError that it raises becomes `Run.error`."""
        ...


class Run:
    """One producer's events, append-only, with any number of readers.

    events: the ledger without dropped events. error: the error that ended the run, None if it did
    not fail. reason: the error with which the server cancelled the run, None if it did not.

    Events are dropped once all readers have taken them, unless another reader may still come: a run
    with a journal can be joined until it is done.
    """

    def __init__(
        self, produce: Producer, *, journal: Journal | None = None, background: bool = False
    ) -> None:
        self.events: list[WireEvent] = []
        self.error: APIError | None = None
        self.reason: APIError | None = None
        self.done = False
        """True when no further event will come."""
        self.has_journal = journal is not None
        """True if a journal gets the events."""
        self._journal = journal
        self.dropped = 0
        """How many events were dropped from the start of the ledger."""
        self._background = background
        self._readers: dict[Reader, Wake] = {}
        self._cancel_wanted = False
        self._cancelled = False
        # While True a cancel has to wait: a task that is cancelled before its first step never
        # runs at all, and a journal must not be interrupted while it writes.
        self._busy = True
        self._task = asyncio.ensure_future(self._run(produce))
        self._task.add_done_callback(lambda _: self._finish())

    @property
    def may_be_joined(self) -> bool:
        """True while other readers can come."""
        return self.has_journal and not self.done

    def cancel(self, reason: APIError | None = None) -> None:
        """Cancel the run; the producer may emit last events. Safe to call twice.

        reason: the error to end with; None if no reader needs the rest.
        """
        self.reason = self.reason or reason
        self._cancel_wanted = True
        self._deliver_cancel()

    def when_done(self, callback: Callable[[], None]) -> None:
        """Call `callback` once, soon after the run is done, even if it already is."""
        self._task.add_done_callback(lambda _: callback())

    async def wait(self) -> None:
        """Return when the run is done, even if it failed."""
        await asyncio.wait([self._task])

    @contextmanager
    def read(self, wake: Wake, start: int = 0) -> Iterator["Reader"]:
        """A reader of the events from position `start` on.

        wake: called when there are more, in the step that makes them, and once the run is done.
        Leaving it as the last reader cancels a foreground run.
        """
        reader = Reader(self, start)
        self._readers[reader] = wake
        try:
            yield reader
        finally:
            del self._readers[reader]
            if not self._readers and not self._background:
                self.cancel()

    async def follow(self) -> AsyncGenerator[Sequence[WireEvent], None]:
        """All events, each batch with those since the last one.

        Closing the generator removes this reader.
        """
        has_events = asyncio.Event()
        with self.read(has_events.set) as reader:
            while True:
                has_events.clear()
                if batch := reader.take():
                    yield batch
                elif self.done:
                    return
                else:
                    await has_events.wait()

    async def _run(self, produce: Producer) -> None:
        self._busy = False
        self._deliver_cancel()
        try:
            await produce(self._emit if self._journal is None else self._write)
        except asyncio.CancelledError:
            pass  # Raising it again would make a reference cycle with the task.
        except APIError as error:
            self.error = error.without_frames()  # they hold all that the producer made
        except Exception:
            logger.exception("a run failed")
            self.error = ServerFailed()

    async def _emit(self, events: Sequence[WireEvent]) -> None:
        self._show(events)

    async def _write(self, events: Sequence[WireEvent]) -> None:
        assert self._journal is not None
        self._busy = True
        try:
            await self._journal.write(events, self._show)
        finally:
            self._busy = False
            if self._cancel_wanted:
                self._deliver_cancel()

    def _show(self, events: Sequence[WireEvent]) -> None:
        self.events += events
        for wake in self._readers.values():
            wake()

    def _deliver_cancel(self) -> None:
        if self._cancel_wanted and not self._cancelled and not self._busy:
            self._cancelled = True
            self._task.cancel()

    def _finish(self) -> None:
        self.done = True
        # The journal has references to all events.
        self._journal = None
        self._show(())
        if self._readers:
            self.discard_taken_events()

    def take_all(self, reader: "Reader", most: int | None) -> Sequence[WireEvent] | None:
        """All events for `reader` if it is the only reader and takes from the start; else None.

        This is the common case; it copies no list.
        """
        events = self.events
        if not events:
            return ()
        if (
            len(self._readers) != 1
            or reader.position != self.dropped
            or (most is not None and len(events) > most)
        ):
            return None
        self.events = []
        self.dropped = reader.position = self.dropped + len(events)
        return events

    def discard_taken_events(self) -> None:
        """Drop the events that no reader needs. Call it only if no other reader can join."""
        end = self.dropped + len(self.events)
        needed_from = min([end, *(reader.position for reader in self._readers)])
        if needed_from > self.dropped:
            del self.events[: needed_from - self.dropped]
            self.dropped = needed_from


class Reader:
    """A read position in a run's events; made by `Run.read`.

    position: that of the next event.
    """

    def __init__(self, run: Run, start: int) -> None:
        self.position = start
        self._run = run

    @property
    def waiting(self) -> int:
        """How many events can be taken."""
        return max(0, self._run.dropped + len(self._run.events) - self.position)

    @property
    def is_late(self) -> bool:
        """True if events were dropped before it took them."""
        return self.position < self._run.dropped

    def take(self, most: int | None = None) -> Sequence[WireEvent]:
        """The events since the last call, at most `most` of them; empty if there are none."""
        run = self._run
        drops = not run.may_be_joined
        if drops and (all_events := run.take_all(self, most)) is not None:
            return all_events
        begin = max(0, self.position - run.dropped)
        taken = run.events[begin : None if most is None else begin + most]
        self.position += len(taken)
        if drops:
            run.discard_taken_events()
        return taken

    def skip(self) -> None:
        """Take no further event."""
        self.position = sys.maxsize
        if not self._run.may_be_joined:
            self._run.discard_taken_events()


class Runs:
    """All runs of this process, by request id."""

    def __init__(self) -> None:
        self._runs: dict[str, Run] = {}
        self._any_journaled = asyncio.Event()
        self.ending = False
        """True once the server stops and has cancelled all runs."""

    @property
    def journaled_ids(self) -> list[str]:
        """The request ids of the runs that have a journal and are not done."""
        return [request_id for request_id, run in self._runs.items() if run.has_journal]

    async def wait_for_journaled(self) -> None:
        """Return when there is a run that has a journal."""
        await self._any_journaled.wait()

    def start(
        self,
        produce: Producer,
        request_id: str,
        *,
        journal: Journal | None = None,
        background: bool = False,
    ) -> Run:
        """Start a run and register it until it is done. After `cancel` it is cancelled, too.

        request_id: no other run that is not done has it.
        """
        assert request_id not in self._runs, f"two runs are named {request_id}"
        self._runs[request_id] = run = Run(produce, journal=journal, background=background)
        if self.ending:
            # Nobody else would cancel it, and the process would wait for its end.
            run.cancel()
        if run.has_journal:
            self._any_journaled.set()
        run.when_done(partial(self._forget, request_id))
        return run

    def find(self, request_id: str) -> Run | None:
        """The run; None if it is done or runs in another process."""
        return self._runs.get(request_id)

    def reason(self, request_id: str) -> APIError | None:
        """The error with which the server cancelled a run that is not done, None if it did not."""
        return self._runs[request_id].reason

    def cancel(self) -> None:
        """Cancel all runs, because the server stops."""
        self.ending = True
        for run in self._runs.values():
            run.cancel()

    async def close(self) -> None:
        """Cancel all runs and wait for them."""
        self.cancel()
        await self.wait()

    async def wait(self) -> None:
        """Return when all current runs are done."""
        await asyncio.gather(*(run.wait() for run in self._runs.values()))

    def _forget(self, request_id: str) -> None:
        del self._runs[request_id]
        if not any(run.has_journal for run in self._runs.values()):
            self._any_journaled.clear()
