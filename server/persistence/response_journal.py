"""Writes a response to the store while it is made: its start, its events and its end."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from server.generation.runs import Show, WireEvent
from server.outbound.responses.fold import TERMINAL_EVENTS
from server.persistence.retrying import NO_RETRY, Retries, RetryPolicy
from server.store.errors import StoreUnavailable
from server.store.responses.base import Store, StoredResponse

BATCH_SECONDS = 0.2
"""Seconds for which events are collected before they are written together."""

BATCH_EVENTS = 1000
"""The most events in one write."""

MOST_WAITING = 8192
"""The most events of a run that may wait for the store. With more, `ResponseJournal.write` blocks,
and with it the run and the engine's stream."""

Ended = Callable[[dict[str, Any]], StoredResponse]
"""The stored form of a response, from its object as the terminal event has it."""


class ResponseJournal:
    """Stores one response. Its terminal event is stored before it is shown.

    started: the response before the first token. ended: called with the object of the terminal
    event; returns what is stored then. store_first: every event is stored before it is shown, so
    that no client sees an event that a crash can lose.
    retry: how long a failed write is repeated. delay: seconds for which events are collected
    before they are written together.
    """

    def __init__(
        self,
        store: Store,
        started: StoredResponse,
        ended: Ended,
        *,
        store_first: bool = False,
        retry: RetryPolicy = NO_RETRY,
        delay: float = BATCH_SECONDS,
    ) -> None:
        self._store = store
        self._started = started
        writer = _Writer(store, started, ended, Retries(retry), delay)
        self._state: _Recording | _Failed = _Recording(writer, store_first=store_first)

    async def begin(self) -> None:
        """Store the response as it starts. Raises StoreUnavailable and PreviousNotFound."""
        await self._store.begin(self._started)

    async def write(self, events: Sequence[WireEvent], show: Show) -> None:
        """Store the next events, not empty. Raises StoreUnavailable once retries have failed.

        Blocks while more than MOST_WAITING events wait for the store, and until the terminal event
        is stored. show: called with the events that clients may see, all of them in order. Events
        written after a failure are shown but not stored. Those that waited for the store come
        before them: they begin what the later ones end. Their numbers continue those shown.
        A terminal event that is not stored is shown only if it says that the response failed or was
        cancelled.
        """
        state = self._state
        if isinstance(state, _Failed):
            state.show(events, show)
            return
        try:
            if state.record(events, show):
                await state.catch_up(events, show)
        except BaseException:
            self._state = failed = state.fail()
            if failed.has_ended:
                failed.show((), show)
            raise


@dataclass(slots=True)
class _Failed:
    """A write has failed: nothing more is stored.

    shown: how many events were shown. waiting: those after them, which the next events follow.
    """

    shown: int
    waiting: Sequence[WireEvent]

    @property
    def has_ended(self) -> bool:
        """Whether no other events follow."""
        return bool(self.waiting) and self.waiting[-1]["type"] in TERMINAL_EVENTS

    def show(self, events: Sequence[WireEvent], show: Show) -> None:
        later = [*self.waiting, *events]
        numbered = [{**event, "sequence_number": n} for n, event in enumerate(later, self.shown)]
        self.shown, self.waiting = self.shown + len(later), ()
        show(numbered)


@dataclass(slots=True)
class _EventLog:
    """The response's events.

    stored, shown: how many of them, from the first on, are stored and were shown.
    """

    events: list[WireEvent] = field(default_factory=list)
    stored: int = 0
    shown: int = 0

    @property
    def waiting(self) -> int:
        """How many events wait for the store."""
        return len(self.events) - self.stored

    def next_batch(self) -> list[WireEvent]:
        """The events of the next write; empty where none wait."""
        return self.events[self.stored : self.stored + BATCH_EVENTS]

    def show_to(self, stop: int, show: Show) -> None:
        """Show the events before position `stop` that were not shown."""
        events = self.events[self.shown : stop]
        self.shown = stop
        show(events)


@dataclass(frozen=True, slots=True)
class _Writer:
    """The store's operations on one response."""

    store: Store
    started: StoredResponse
    ended: Ended
    retries: Retries
    delay: float

    async def append(self, batch: Sequence[WireEvent]) -> None:
        await self.store.append(self.started.id, batch)

    async def end(self, response: dict[str, Any], events: Sequence[WireEvent]) -> None:
        ended = self.ended(response)
        await self.retries.until_written(lambda: self.store.end(ended, events))


class _Idle:
    """No event waits for the store."""


@dataclass(frozen=True, slots=True)
class _Appending:
    """A task writes the waiting events, in batches.

    attempted: set after each attempt, successful or not.
    """

    task: asyncio.Task[None]
    attempted: asyncio.Event


@dataclass(frozen=True, slots=True)
class _AppendFailed:
    """An attempt failed, and no other follows."""

    error: Exception


class _Recording:
    """Events are stored: those before the terminal one by a background task."""

    def __init__(self, writer: _Writer, *, store_first: bool) -> None:
        self._writer = writer
        self._store_first = store_first
        self._log = _EventLog()
        # Locked during a write: the terminal event waits for the append before it.
        self._writing = asyncio.Lock()
        self._background: _Idle | _Appending | _AppendFailed = _Idle()

    def record(self, events: Sequence[WireEvent], show: Show) -> bool:
        """Add the next events, and show those that may be shown before they are stored.

        Returns whether `catch_up` must be awaited, with the same arguments; usually it need not.
        Raises the error of the background task.
        """
        log = self._log
        is_last = events[-1]["type"] in TERMINAL_EVENTS
        log.events += events
        if not isinstance(self._background, _Appending):
            self._raise_failure()
            if not is_last:
                self._start_appending(show)
        if not self._store_first:
            log.show_to(len(log.events) - is_last, show)
        return is_last or log.waiting > MOST_WAITING

    async def catch_up(self, events: Sequence[WireEvent], show: Show) -> None:
        """Wait until few events wait for the store, or after the terminal one, until it is stored.

        events: those recorded last. Raises the errors of ResponseJournal.write.
        """
        log = self._log
        if events[-1]["type"] in TERMINAL_EVENTS:
            await self._end(events[-1]["response"], show)
            return
        while log.waiting > MOST_WAITING and isinstance(self._background, _Appending):
            self._background.attempted.clear()
            await self._background.attempted.wait()
            self._raise_failure()

    def fail(self) -> _Failed:
        """Write nothing more."""
        self._stop_appending()
        waiting = self._log.events[self._log.shown :]
        return _Failed(self._log.shown, [each for each in waiting if not _must_be_stored(each)])

    def _raise_failure(self) -> None:
        if isinstance(self._background, _AppendFailed):
            raise self._background.error

    def _start_appending(self, show: Show) -> None:
        attempted = asyncio.Event()
        task = asyncio.create_task(self._append_waiting(attempted, show))
        self._background = _Appending(task, attempted)

    def _stop_appending(self) -> None:
        if isinstance(self._background, _Appending):
            self._background.task.cancel()
            self._background = _Idle()

    async def _append_waiting(self, attempted: asyncio.Event, show: Show) -> None:
        """Append until no event waits: one batch at a time, however long the store takes."""
        pause = self._writer.delay
        while self._log.waiting:
            await asyncio.sleep(pause)
            result = await self._try_to_append(show)
            attempted.set()
            if isinstance(result, _AppendFailed):
                self._background = result
                return
            pause = result
        self._background = _Idle()

    async def _try_to_append(self, show: Show) -> float | _AppendFailed:
        """Append a batch. Returns the seconds until the next attempt, or why none follows."""
        retries = self._writer.retries
        try:
            await self._append(show)
        except StoreUnavailable as error:
            pause = retries.pause_after(error)
            return _AppendFailed(error) if pause is None else pause
        except Exception as error:
            return _AppendFailed(error)
        retries.succeeded()
        return self._writer.delay

    async def _append(self, show: Show) -> None:
        log = self._log
        async with self._writing:
            if batch := log.next_batch():
                await self._writer.append(batch)
                log.stored += len(batch)
                if self._store_first:
                    log.show_to(log.stored, show)

    async def _end(self, response: dict[str, Any], show: Show) -> None:
        async with self._writing:
            self._raise_failure()
            self._stop_appending()
            await self._writer.end(response, self._log.events)
            self._log.show_to(len(self._log.events), show)


def _must_be_stored(event: WireEvent) -> bool:
    """Whether it says that the response has ended well, which holds only once it is stored."""
    is_last = event["type"] in TERMINAL_EVENTS
    return is_last and event["response"]["status"] not in ("failed", "cancelled")
