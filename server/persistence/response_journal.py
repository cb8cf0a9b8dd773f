"""Writes what becomes of a response to the store: that it began, its events, and its end."""

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from harmony.messages import Message
from server.generation.runs import Show, WireEvent
from server.outbound.fold import TERMINAL_EVENTS
from server.persistence.retrying import NO_RETRY, Retries, RetryPolicy
from server.store.responses.base import Store, StoredResponse, StoreUnavailable

BATCH_SECONDS = 0.2
"""How long events may wait to be written with those that follow."""

BATCH_EVENTS = 1000
"""How many events are written at once."""

MOST_WAITING = 8192
"""How many events of a run may wait for the store. Beyond it the run waits, too, and with it the
engine's stream."""


class ResponseJournal:
    """Keeps one response. Its end is kept before it is shown, however it ended.

    started: as it is before the first token. messages_by_item_id: what the model said, by the id of
    the output item; it is filled while the response is made. holds: other events too are shown
    only when they are kept, so that nobody has seen what a crash can lose. retry: what becomes
    of writes while the store is unavailable. delay: seconds until events are written together.
    """

    def __init__(
        self,
        store: Store,
        started: StoredResponse,
        messages_by_item_id: Mapping[str, Message],
        *,
        holds: bool = False,
        retry: RetryPolicy = NO_RETRY,
        delay: float = BATCH_SECONDS,
    ) -> None:
        self._store = store
        self._started = started
        self._messages_by_item_id = messages_by_item_id
        self._holds = holds
        self._retries = Retries(retry)
        self._delay = delay
        self._events: list[WireEvent] = []
        self._kept = 0
        self._writing = asyncio.Lock()
        self._later: asyncio.Task[None] | None = None
        self._tried = asyncio.Event()
        self._failure: Exception | None = None
        self._shown = 0
        self._failed = False

    async def begin(self) -> None:
        """Keep the response as it starts. Raises StoreUnavailable and PreviousNotFound."""
        await self._store.begin(self._started)

    async def write(self, events: Sequence[WireEvent], show: Show) -> None:
        """Keep events. Raises StoreUnavailable once the retries of an earlier write have failed.

        Waits for the store where the events are the last ones, or too many wait already. show:
        called with the events that may be seen, all of them in order. Those that come after a
        failure go on in number from what was shown.
        """
        show = partial(self._show, show)
        if self._failed:
            show(_numbered(events, self._shown))
            return
        try:
            await self._write(events, show)
        except BaseException:
            self._failed = True
            if self._later is not None:
                self._later.cancel()
            raise

    async def _write(self, events: Sequence[WireEvent], show: Show) -> None:
        self._check()
        self._events += events
        if not self._holds:
            show(events[:-1] if _ends(events[-1]) else events)
        if _ends(events[-1]):
            await self._end(events[-1]["response"], show)
            return
        if self._later is None:
            self._later = asyncio.create_task(self._append_later(show))
        while len(self._events) - self._kept > MOST_WAITING:
            self._tried.clear()
            await self._tried.wait()
            self._check()

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _show(self, show: Show, events: Sequence[WireEvent]) -> None:
        self._shown += len(events)
        show(events)

    async def _append_later(self, show: Show) -> None:
        """Write until all is kept: one append at a time, however long the store takes."""
        pause: float | None = self._delay
        try:
            while pause is not None and self._kept < len(self._events):
                await asyncio.sleep(pause)
                pause = await self._try_to_append(show)
                self._tried.set()
        finally:
            self._later = None

    async def _try_to_append(self, show: Show) -> float | None:
        """Seconds until the next append; None where none can follow."""
        try:
            await self._append(show)
        except StoreUnavailable as error:
            pause = self._retries.pause_after(error)
            if pause is None:
                self._failure = error
            return pause
        except Exception as error:
            self._failure = error
            return None
        self._retries.succeeded()
        return self._delay

    async def _append(self, show: Show) -> None:
        async with self._writing:
            if batch := self._events[self._kept : self._kept + BATCH_EVENTS]:
                await self._store.append(self._started.id, batch)
                self._kept += len(batch)
                if self._holds:
                    show(batch)

    async def _end(self, response: dict[str, Any], show: Show) -> None:
        async with self._writing:
            if self._later is not None:  # it is between two appends
                self._later.cancel()
            self._check()
            ended = self._started.ended(response, self._messages_by_item_id)
            await self._retries.until_written(lambda: self._store.end(ended, self._events))
            show(self._events[self._shown :])


def _numbered(events: Sequence[WireEvent], first: int) -> list[WireEvent]:
    return [{**event, "sequence_number": n} for n, event in enumerate(events, first)]


def _ends(event: WireEvent) -> bool:
    return event["type"] in TERMINAL_EVENTS
