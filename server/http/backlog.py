"""What waits for one reader of a run: encoded events, of a limited size.

While a client does not read, its events are taken from the run as they come, encoded, and kept.
Over the limit they are dropped if the store has them: when the client reads on, the rest is read
back from the store. An answer that is not stored ends with an error, which frees its slot; what
waits of it can still be read.
"""

import logging
from array import array
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import contextmanager

from server.errors import ClientTooSlow
from server.generation.runs import Encode, Reader, Run, Wake, WireEvent

logger = logging.getLogger(__name__)

Batches = AsyncGenerator[Sequence[WireEvent], None]
Stored = Callable[[int], Batches]
"""The stored events of a run from a position on."""

MAX_UNREAD = 8 * 1024 * 1024
EVENTS_AT_ONCE = 256
"""Events that are encoded in one step of the event loop, in less than a millisecond."""
BYTES_AT_ONCE = 64 * 1024
"""Size of a write: the transport holds it in memory until the client has read it."""


class _Block:
    """Encoded events as one object.

    As objects of their own they would take a fifth more, in memory that is seldom given back to
    the operating system.
    """

    def __init__(self, events: Sequence[bytes]) -> None:
        self._sizes = array("I", map(len, events))
        self._data = b"".join(events)

    def __len__(self) -> int:
        return len(self._sizes)

    def events(self) -> Iterator[bytes]:
        start = 0
        for size in self._sizes:
            yield self._data[start : start + size]
            start += size


class Backlog:
    """A run's events for one client, in order. `open_backlog` makes it.

    limit: bytes of encoded events that may wait. stored: None where the store has no events.
    """

    def __init__(
        self, run: Run, reader: Reader, encode: Encode, limit: int, stored: Stored | None
    ) -> None:
        self._run = run
        self._reader = reader
        self._encode = encode
        self._limit = limit
        self._stored = stored
        self._blocks: deque[_Block] = deque()
        self._last: list[bytes] = []
        self._last_size = 0
        self._size = 0
        self._failure: Exception | None = None
        self.has_more = False
        """True if `take` left something to take."""
        self.resume_at: int | None = None
        """Position from which on the events are to be read from the store; None if nowhere."""
        if reader.is_late:
            self._cut_off()

    def take(self) -> Sequence[bytes]:
        """The next events, encoded; empty where none has come. Raises what encoding does."""
        if self._failure is not None:
            raise self._failure
        if self._size:
            return self._take_waiting()
        taken = self._reader.take(EVENTS_AT_ONCE)
        if len(taken) == 1:
            # The usual case, made cheap.
            self.has_more = False
            return (self._encode(taken[0]),)
        self.has_more = len(taken) == EVENTS_AT_ONCE
        return [*map(self._encode, taken)]

    def hold(self) -> None:
        """Keep what has come for a client that does not read now. `take` raises what this meets."""
        try:
            for event in self._reader.take(EVENTS_AT_ONCE):
                self._append(self._encode(event))
        except Exception as error:
            self._failure = error
        # A run that is done keeps its events only for those who have not taken them.
        if self._size > self._limit or (self._run.done and self._reader.waiting):
            self._overflow()

    def rest(self) -> Batches:
        """The stored events of a reader that was cut off."""
        assert self._stored is not None
        assert self.resume_at is not None
        return self._stored(self.resume_at)

    def _append(self, encoded: bytes) -> None:
        self._last.append(encoded)
        self._last_size += len(encoded)
        self._size += len(encoded)
        if self._last_size >= BYTES_AT_ONCE:
            self._blocks.append(_Block(self._last))
            self._last, self._last_size = [], 0

    def _take_waiting(self) -> Sequence[bytes]:
        self.has_more = True
        if self._blocks:
            taken = [*self._blocks.popleft().events()]
            self._size -= sum(map(len, taken))
            return taken
        taken = self._last
        self._drop_waiting()
        return taken

    def _drop_waiting(self) -> None:
        self._blocks.clear()
        self._last, self._last_size = [], 0
        self._size = 0

    def _overflow(self) -> None:
        if self._stored is not None:
            self._cut_off()
        elif self._run.reason is None and not self._run.done:
            logger.info("a client reads too slowly: its answer ends")
            self._run.cancel(ClientTooSlow(self._limit))

    def _cut_off(self) -> None:
        waiting = len(self._last) + sum(map(len, self._blocks))
        self.resume_at = self._reader.position - waiting
        self._drop_waiting()
        self._reader.skip()


@contextmanager
def open_backlog(
    run: Run,
    encode: Encode,
    wake: Wake,
    start: int = 0,
    *,
    limit: int = MAX_UNREAD,
    stored: Stored | None = None,
) -> Iterator[Backlog]:
    """The events from position `start` on; leaving it leaves the run. wake: as in `Run.read`."""
    with run.read(wake, start, discard_taken=True) as reader:
        yield Backlog(run, reader, encode, limit, stored)
