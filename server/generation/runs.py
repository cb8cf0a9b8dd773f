"""Runs and their subscribers.

A run is a task that appends wire events to its ledger; HTTP streams and whole answers only read
it. A foreground run dies with its last subscriber, a background run does not. A journal, where
there is one, gets the events before any subscriber sees them.
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
Encode = Callable[[WireEvent], bytes]
"""One event as bytes of the answer."""

Emit = Callable[[Sequence[WireEvent]], Awaitable[None]]


Show = Callable[[Sequence[WireEvent]], None]
Wake = Callable[[], None]


class Journal(Protocol):
    """What keeps a run's events, and says when they may be seen."""

    async def begin(self) -> None:
        """Called once, before the run starts. What it raises keeps it from starting."""
        ...

    async def write(self, events: Sequence[WireEvent], show: Show) -> None:
        """Keep the next events of the run. What it raises ends the run.

        Events that come after it raised tell what went wrong: they are shown, though not kept.
        show: to be called, now or later, with all events in order as they may be seen.
        """
        ...


class Producer(Protocol):
    """What a run does: emits wire events until it returns.

    It is cancelled, at most once, when nobody wants the rest; it may emit its last events then.
    """

    def __call__(self, emit: Emit, /) -> Awaitable[None]:
        """Emit all events, then return. An APIError that it raises becomes `Run.error`."""
        ...


class Run:
    """One producer's events, append-only, with any number of readers.

    events: the ledger without what was dropped. error: what ended the run early, None if nothing
    did. reason: the error with which the server asked the run to end, None if it did not.

    Events are dropped once all readers have taken them, unless a reader needs them again or
    another reader may still come: a run with a journal can be joined until it is done.
    """

    def __init__(
        self, produce: Producer, *, journal: Journal | None = None, background: bool = False
    ) -> None:
        self.events: list[WireEvent] = []
        self.error: APIError | None = None
        self.reason: APIError | None = None
        self.has_journal = journal is not None
        """True where a journal gets the events."""
        self.may_be_joined = self.has_journal
        """True while other readers can come."""
        self._journal = journal
        self.dropped = 0
        """How many events were dropped; they were the first."""
        self._background = background
        self._readers: dict[Reader, Wake] = {}
        self._cancel_wanted = False
        self._cancelled = False
        # While True a cancel has to wait: a task that is cancelled before its first step never
        # runs at all, and events that a journal is writing must not be torn off.
        self._busy = True
        self._task = asyncio.ensure_future(self._run(produce))
        self._task.add_done_callback(lambda _: self._finish())

    @property
    def done(self) -> bool:
        """True when no further event will come."""
        return self._task.done()

    def cancel(self, reason: APIError | None = None) -> None:
        """End the run; the producer gets its chance to emit last events. Safe to call twice.

        reason: the error to end with, None where nobody wants the rest.
        """
        self.reason = self.reason or reason
        self._cancel_wanted = True
        self._deliver_cancel()

    def when_done(self, callback: Callable[[], None]) -> None:
        """Call back once, soon after the run is done (also when it is already)."""
        self._task.add_done_callback(lambda _: callback())

    async def wait(self) -> None:
        """Return when the run is done, however it ended."""
        await asyncio.wait([self._task])

    @contextmanager
    def read(
        self, wake: Wake, start: int = 0, *, discard_taken: bool = False
    ) -> Iterator["Reader"]:
        """A reader of the events from position `start` on.

        wake: called when there are more, in the step that makes them, and once the run is done.
        discard_taken: the events that were taken are not needed again.
        Leaving it as the last reader cancels a foreground run.
        """
        reader = Reader(self, start, discard_taken=discard_taken)
        self._readers[reader] = wake
        try:
            yield reader
        finally:
            del self._readers[reader]
            if not self._readers and not self._background:
                self.cancel()

    async def follow(
        self, start: int = 0, *, discard_taken: bool = False
    ) -> AsyncGenerator[Sequence[WireEvent], None]:
        """All events from position `start` on, in batches of what has come since the last.

        discard_taken: as in `read`. Closing the generator leaves the run, as a reader does.
        """
        news = asyncio.Event()
        with self.read(news.set, start, discard_taken=discard_taken) as reader:
            while True:
                news.clear()
                if batch := reader.take():
                    yield batch
                elif self.done:
                    return
                else:
                    await news.wait()

    async def _run(self, produce: Producer) -> None:
        self._busy = False
        self._deliver_cancel()
        try:
            await produce(self._emit)
        except asyncio.CancelledError:
            # Raised on, it would hold the task, and the task it, until a garbage collection.
            if not self._cancelled:
                raise
        except APIError as error:
            self.error = _without_frames(error)
        except Exception:
            logger.exception("a run failed")
            self.error = ServerFailed("The server had an error while processing the request.")

    async def _emit(self, events: Sequence[WireEvent]) -> None:
        if self._journal is None:
            self._show(events)
        else:
            await self._write(self._journal, events)

    async def _write(self, journal: Journal, events: Sequence[WireEvent]) -> None:
        self._busy = True
        try:
            await journal.write(events, self._show)
        finally:
            self._busy = False
            self._deliver_cancel()

    def _show(self, events: Sequence[WireEvent]) -> None:
        self.events.extend(events)
        self._wake()

    def _deliver_cancel(self) -> None:
        if self._cancel_wanted and not self._cancelled and not self._busy:
            self._cancelled = True
            self._task.cancel()

    def _wake(self) -> None:
        for wake in self._readers.values():
            wake()

    def _finish(self) -> None:
        # The journal holds all events too.
        self._journal = None
        self.may_be_joined = False
        self._wake()
        if self._readers:
            self.discard_taken_events()

    def take_all(self, reader: "Reader", most: int | None) -> Sequence[WireEvent] | None:
        """All events to a reader that is the only one there can be, and None to any other.

        That is the usual case: no list is copied.
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
        """Drop the events that no reader needs. To be called where no other reader can come."""
        kept_from = self.dropped + len(self.events)
        for reader in self._readers:
            if not reader.discard_taken:
                return
            kept_from = min(kept_from, reader.position)
        if kept_from > self.dropped:
            del self.events[: kept_from - self.dropped]
            self.dropped = kept_from


def _without_frames(error: APIError) -> APIError:
    """The error alone: its traceback would keep all that the producer made, and the run itself."""
    error.__traceback__ = error.__cause__ = error.__context__ = None
    return error


class Reader:
    """A place in a run's events; `Run.read` makes it.

    position: of the event that is taken next. discard_taken: taken events are not needed again.
    """

    def __init__(self, run: Run, start: int, *, discard_taken: bool) -> None:
        self.position = start
        self.discard_taken = discard_taken
        self._run = run

    @property
    def waiting(self) -> int:
        """How many events can be taken."""
        return max(0, self._run.dropped + len(self._run.events) - self.position)

    @property
    def is_late(self) -> bool:
        """True if events that it has not taken were dropped."""
        return self.position < self._run.dropped

    def take(self, most: int | None = None) -> Sequence[WireEvent]:
        """What has come since the last time, at most `most` events; empty where nothing has."""
        run = self._run
        drops = self.discard_taken and not run.may_be_joined
        if drops and (all_events := run.take_all(self, most)) is not None:
            return all_events
        begin = max(0, self.position - run.dropped)
        taken = run.events[begin : None if most is None else begin + most]
        self.position += len(taken)
        if drops:
            run.discard_taken_events()
        return taken

    def skip(self) -> None:
        """Never take another event."""
        self.position = sys.maxsize
        if not self._run.may_be_joined:
            self._run.discard_taken_events()


class Runs:
    """All runs of this process by their requests' ids, so that each can be found and ended."""

    def __init__(self) -> None:
        self._ids: dict[Run, str] = {}
        self._any_journaled = asyncio.Event()
        self.ending = False
        """True once all runs are ended because the server is."""

    @property
    def journaled_ids(self) -> list[str]:
        """Of what still runs and has a journal."""
        return [request_id for run, request_id in self._ids.items() if run.has_journal]

    async def wait_for_journaled(self) -> None:
        """Return when something runs here that has a journal."""
        await self._any_journaled.wait()

    def start(
        self,
        produce: Producer,
        request_id: str,
        *,
        journal: Journal | None = None,
        background: bool = False,
    ) -> Run:
        """Start a run; it is remembered until it is done."""
        run = Run(produce, journal=journal, background=background)
        self._ids[run] = request_id
        if run.has_journal:
            self._any_journaled.set()
        run.when_done(partial(self._forget, run))
        return run

    def find(self, request_id: str) -> Run | None:
        """The run, None where it is done or not of this process."""
        return next((run for run, name in self._ids.items() if name == request_id), None)

    def reason(self, request_id: str) -> APIError | None:
        """The error with which the server asked the run to end, None if it did not."""
        run = self.find(request_id)
        return None if run is None else run.reason

    def cancel(self) -> None:
        """Cancel what still runs, since the server stops."""
        self.ending = True
        for run in self._ids:
            run.cancel()

    async def close(self) -> None:
        """Cancel what still runs and wait for it."""
        self.cancel()
        await self.wait()

    async def wait(self) -> None:
        """Return when all that runs now is done."""
        await asyncio.gather(*(run.wait() for run in self._ids))

    def _forget(self, run: Run) -> None:
        del self._ids[run]
        if run.has_journal and not any(other.has_journal for other in self._ids):
            self._any_journaled.clear()
