"""Writes what becomes of a response to the store: that it began, its events, and its end."""

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from harmony.messages import Message
from server.outbound.fold import ENDED
from server.runs import Show, WireEvent
from server.store.base import (
    RunLost,
    Store,
    StoredResponse,
    StoreUnavailable,
)

BATCH_SECONDS = 0.2
"""How long events may wait to be written with those that follow."""


class ResponseJournal:
    """Keeps one response. Its end is kept before it is shown, however it ended.

    started: as it is before the first token. spoken: what the model said by item id; it is filled
    while the response is made. holds: other events too are shown only when they are kept, so
    that nobody has seen what a crash can lose. delay: seconds until events are written together.
    """

    def __init__(
        self,
        store: Store,
        started: StoredResponse,
        spoken: Mapping[str, Message],
        *,
        holds: bool = False,
        delay: float = BATCH_SECONDS,
    ) -> None:
        self._store = store
        self._started = started
        self._spoken = spoken
        self._holds = holds
        self._delay = delay
        self._events: list[WireEvent] = []
        self._kept = 0
        self._writing = asyncio.Lock()
        self._later: asyncio.Task[None] | None = None
        self._failure: StoreUnavailable | None = None
        self._shown = 0
        self._failed = False

    async def begin(self) -> None:
        """Keep the response as it starts. Raises StoreUnavailable and PreviousNotFound."""
        await self._store.begin(self._started)

    async def write(self, events: Sequence[WireEvent], show: Show) -> None:
        """Keep events. Raises StoreUnavailable for the last ones, and once any can be held no more.

        show: called with the events that may be seen, all of them in order. Those that come after
        a failure go on in number from what was shown.
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
        if self._failure is not None:
            raise self._failure
        self._events += events
        if not self._holds:
            show(events[:-1] if _ends(events[-1]) else events)
        if _ends(events[-1]):
            await self._end(events[-1]["response"], show)
        elif self._later is None:
            self._later = asyncio.create_task(self._append_later(show))

    def _show(self, show: Show, events: Sequence[WireEvent]) -> None:
        self._shown += len(events)
        show(events)

    async def _append_later(self, show: Show) -> None:
        """Write until all is kept: one append at a time, however long the store takes."""
        try:
            while self._kept < len(self._events) and self._failure is None:
                await asyncio.sleep(self._delay)
                await self._try_to_append(show)
        finally:
            self._later = None

    async def _try_to_append(self, show: Show) -> None:
        try:
            await self._append(show)
        except RunLost as error:
            self._failure = error
        except StoreUnavailable as error:
            # Where nothing is held, the end is written with all events or fails in front of
            # whoever waits for it.
            self._failure = error if self._holds else None

    async def _append(self, show: Show) -> None:
        async with self._writing:
            if batch := self._events[self._kept :]:
                await self._store.append(self._started.id, batch)
                self._kept += len(batch)
                if self._holds:
                    show(batch)

    async def _end(self, response: dict[str, Any], show: Show) -> None:
        async with self._writing:
            if self._later is not None:  # it is between two appends
                self._later.cancel()
            await self._store.end(self._started.ended(response, self._spoken), self._events)
            show(self._events[self._shown :])


def _numbered(events: Sequence[WireEvent], first: int) -> list[WireEvent]:
    return [{**event, "sequence_number": n} for n, event in enumerate(events, first)]


def _ends(event: WireEvent) -> bool:
    return event["type"] in ENDED
