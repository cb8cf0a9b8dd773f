"""The buffer of encoded events between a run and one client, of a limited size.

While a client does not read, its events are taken from the run, encoded, and buffered. Above the
limit they are dropped if the store has them, and the rest is read from the store once the client
reads again. An answer that is not stored ends with an error, which frees its slot; the client can
still read the buffered events.

An event in several pieces has an `EncodedArray`, which the run's other events share. It does not
count towards the limit, and is not copied.
"""

import logging
from array import array
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain

from server.errors import ClientTooSlow
from server.generation.runs import Encode, Reader, Run, Wake, WireEvent

logger = logging.getLogger(__name__)

Batches = AsyncGenerator[Sequence[WireEvent], None]
Stored = Callable[[int], Batches]
"""Reads the stored events of a run from a position on."""

EVENTS_AT_ONCE = 256
"""Events that are encoded in one step of the event loop: less than a millisecond."""
BYTES_AT_ONCE = 64 * 1024
"""Bytes of one write. The transport has it in memory until the client has read it."""


@dataclass(frozen=True, slots=True)
class Feed:
    """A run's events as one client gets them.

    limit: bytes of encoded events that may wait for the client. start: the position of its first
    event. stored: reads the same events from the store; None if the store has no events.
    """

    run: Run
    encode: Encode
    limit: int
    start: int = 0
    stored: Stored | None = None


class _Block:
    """Encoded events in one object.

    As separate objects they would take a fifth more memory, in small blocks that are seldom
    returned to the operating system.
    """

    def __init__(self, events: Sequence[bytes]) -> None:
        self._sizes = array("I", map(len, events))
        self._data = b"".join(events)
        self.size = len(self._data)

    def __len__(self) -> int:
        return len(self._sizes)

    def pieces(self) -> Iterator[bytes]:
        start = 0
        for size in self._sizes:
            yield self._data[start : start + size]
            start += size


class _LargeEvent:
    """An event in several pieces."""

    size = 0

    def __init__(self, pieces: Sequence[bytes]) -> None:
        self._pieces = pieces

    def __len__(self) -> int:
        return 1

    def pieces(self) -> Sequence[bytes]:
        return self._pieces


class Backlog:
    """The events of a feed, in order; made by `open_backlog`."""

    def __init__(self, feed: Feed, reader: Reader) -> None:
        self._feed = feed
        self._reader = reader
        self._begun: deque[bytes] = deque()  # pieces of events that are not waiting any more
        self._blocks: deque[_Block | _LargeEvent] = deque()
        self._last: list[bytes] = []
        self._last_size = 0
        self._size = 0
        self._failure: Exception | None = None
        self.has_more = False
        """True if more events can be taken after `take`."""
        self.resume_at: int | None = None
        """Position from which on events must be read from the store; None while not needed."""
        if reader.is_late:
            self._cut_off()

    def take(self) -> Sequence[bytes]:
        """The next pieces of encoded events; empty if there are none.

        Without `has_more`, the last of them ends an event. Raises errors of the encoding.
        """
        if self._failure is not None:
            raise self._failure
        if self._begun:
            return self._take_begun()
        if self._blocks or self._last:
            return self._take_waiting()
        taken = self._reader.take(EVENTS_AT_ONCE)
        if len(taken) == 1:
            pieces = self._feed.encode(taken[0])
            if len(pieces) == 1:
                # The common case, optimized.
                self.has_more = False
                return pieces
        else:
            pieces = [*chain.from_iterable(map(self._feed.encode, taken))]
            if sum(map(len, pieces)) < BYTES_AT_ONCE:
                self.has_more = len(taken) == EVENTS_AT_ONCE
                return pieces
        self._begun.extend(pieces)
        return self._take_begun()

    def hold(self) -> None:
        """Buffer new events for a client that does not read now. `take` raises errors of this."""
        try:
            for event in self._reader.take(EVENTS_AT_ONCE):
                self._append(self._feed.encode(event))
        except Exception as error:
            self._failure = error
        # A run that is done has its events only as long as a reader needs them.
        is_behind = self._feed.run.done and self._reader.waiting
        if self._size > self._feed.limit or is_behind:
            self._overflow()

    def rest(self) -> Batches:
        """The events from `resume_at` on, from the store."""
        assert self._feed.stored is not None
        assert self.resume_at is not None
        return self._feed.stored(self.resume_at)

    def _append(self, pieces: Sequence[bytes]) -> None:
        if len(pieces) > 1:
            self._end_block()
            self._blocks.append(_LargeEvent(pieces))
            return
        self._last += pieces
        self._last_size += len(pieces[0])
        self._size += len(pieces[0])
        if self._last_size >= BYTES_AT_ONCE:
            self._end_block()

    def _end_block(self) -> None:
        if self._last:
            self._blocks.append(_Block(self._last))
            self._last, self._last_size = [], 0

    def _take_waiting(self) -> Sequence[bytes]:
        self._end_block()
        block = self._blocks.popleft()
        self._size -= block.size
        self._begun.extend(block.pieces())
        return self._take_begun()

    def _take_begun(self) -> Sequence[bytes]:
        taken: list[bytes] = []
        size = 0
        while self._begun and size < BYTES_AT_ONCE:
            taken.append(self._begun.popleft())
            size += len(taken[-1])
        self.has_more = bool(self._begun or self._blocks or self._last or self._reader.waiting)
        return taken

    def _drop_waiting(self) -> None:
        self._blocks.clear()
        self._last, self._last_size = [], 0
        self._size = 0

    def _overflow(self) -> None:
        run = self._feed.run
        if self._feed.stored is not None:
            self._cut_off()
        elif run.reason is None and not run.done:
            logger.info("a client reads too slowly: its answer ends")
            run.cancel(ClientTooSlow(self._feed.limit))

    def _cut_off(self) -> None:
        waiting = len(self._last) + sum(map(len, self._blocks))
        self.resume_at = self._reader.position - waiting
        self._drop_waiting()
        self._reader.skip()


@contextmanager
def open_backlog(feed: Feed, wake: Wake) -> Iterator[Backlog]:
    """The backlog of the feed; a reader of its run until it is left. wake: as in `Run.read`."""
    with feed.run.read(wake, feed.start) as reader:
        yield Backlog(feed, reader)
