"""What waits for one reader: how much, and where it goes on."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractContextManager
from itertools import chain
from typing import Any

import pytest

from server.errors import ClientTooSlow
from server.generation.runs import Emit, Run, WireEvent
from server.http.answers import backlog
from server.http.answers.backlog import Backlog, Feed, Stored, open_backlog


def encode(event: WireEvent) -> Sequence[bytes]:
    if event["n"] == "bad":
        raise ValueError("no JSON")
    if isinstance(event["n"], list):
        return encoded(*event["n"])
    return (b"%02d" % event["n"],)


def encoded(*numbers: int) -> list[bytes]:
    return [b"%02d" % number for number in numbers]


class Source:
    """A producer that emits the events of the test."""

    def __init__(self) -> None:
        self.emit: Emit
        self._begun = asyncio.Event()

    async def __call__(self, emit: Emit) -> None:
        self.emit = emit
        self._begun.set()
        await asyncio.Event().wait()

    async def say(self, *numbers: Any) -> None:
        await self._begun.wait()
        for number in numbers:
            await self.emit([{"n": number}])


async def stored(start: int) -> AsyncGenerator[Sequence[WireEvent], None]:
    yield [{"n": start}]


@pytest.fixture
async def source() -> Source:
    return Source()


@pytest.fixture
def in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three events make a block."""
    monkeypatch.setattr(backlog, "BYTES_AT_ONCE", 6)


def opened(
    run: Run, *, limit: int = 1_000_000, stored: Stored | None = None
) -> AbstractContextManager[Backlog]:
    return open_backlog(Feed(run, encode, limit, stored=stored), lambda: None)


def take_all(waiting: Backlog) -> list[bytes]:
    taken: list[bytes] = []
    while events := waiting.take():
        taken += events
    return taken


@pytest.mark.usefixtures("in_blocks")
async def test_events_come_in_their_order_whether_they_waited_or_not(source: Source) -> None:
    run = Run(source)
    with opened(run) as waiting:
        for first in range(0, 80, 8):
            await source.say(*range(first, first + 4))
            waiting.hold()
            await source.say(*range(first + 4, first + 8))
        assert take_all(waiting) == encoded(*range(80))
        assert waiting.take() == []
        assert run.events == []


@pytest.mark.usefixtures("in_blocks")
async def test_a_block_is_taken_at_a_time(source: Source) -> None:
    run = Run(source)
    with opened(run) as waiting:
        await source.say(*range(4))
        waiting.hold()
        await source.say(4)
        taken = [(len(waiting.take()), waiting.has_more) for _ in range(4)]
    assert taken == [(3, True), (1, True), (1, False), (0, False)]


@pytest.mark.usefixtures("in_blocks")
@pytest.mark.parametrize("taken", [0, 1, 2])
async def test_what_is_stored_is_read_from_the_first_event_that_was_not_taken(
    source: Source, taken: int
) -> None:
    run = Run(source)
    with opened(run, limit=20, stored=stored) as waiting:
        await source.say(*range(10))
        waiting.hold()
        for _ in range(taken):
            waiting.take()
        assert waiting.resume_at is None
        await source.say(*range(10, 20))
        waiting.hold()
        assert waiting.resume_at == 3 * taken
        assert waiting.take() == []
        assert [batch async for batch in waiting.rest()] == [[{"n": 3 * taken}]]
        await source.say(20)
        waiting.hold()
        assert waiting.take() == []
        assert waiting.resume_at == 3 * taken
        assert run.events == []


async def test_who_comes_late_reads_from_the_store_what_was_dropped(source: Source) -> None:
    run = Run(source)
    with opened(run) as waiting:
        await source.say(*range(5))
        take_all(waiting)
        with opened(run, stored=stored) as late:
            assert late.resume_at == 0
            assert late.take() == []


@pytest.mark.usefixtures("in_blocks")
async def test_what_was_taken_does_not_wait_any_more(source: Source) -> None:
    """A client that pauses now and then gets an answer that is longer than the limit."""
    run = Run(source)
    with opened(run, limit=20) as waiting:
        for _ in range(10):
            await source.say(*range(8))
            waiting.hold()
            assert take_all(waiting) == encoded(*range(8))
    assert run.reason is None


async def test_what_is_not_stored_ends_its_run_once(source: Source) -> None:
    run = Run(source)
    with opened(run, limit=4) as waiting:
        await source.say(1, 2)
        waiting.hold()
        assert run.reason is None
        await source.say(3)
        waiting.hold()
        reason = run.reason
        assert isinstance(reason, ClientTooSlow)
        waiting.hold()
        assert run.reason is reason
        assert take_all(waiting) == encoded(1, 2, 3)
        assert waiting.resume_at is None


async def test_what_cannot_be_encoded_is_raised_to_the_client_alone(source: Source) -> None:
    run = Run(source)
    with opened(run) as waiting:
        await source.say(1, "bad", 2)
        waiting.hold()
        with pytest.raises(ValueError, match="no JSON"):
            waiting.take()
        assert run.error is None


async def test_a_run_that_is_done_keeps_no_events_for_who_is_far_behind(
    source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backlog, "EVENTS_AT_ONCE", 5)
    run = Run(source, background=True)
    with opened(run, stored=stored) as waiting:
        await source.say(*range(30))
        run.cancel()
        await run.wait()
        waiting.hold()
        assert waiting.resume_at == 0
        await asyncio.sleep(0)
        assert run.events == []


@pytest.mark.usefixtures("in_blocks")
async def test_no_more_is_taken_at_once_than_a_write_has(source: Source) -> None:
    run = Run(source)
    with opened(run) as waiting:
        await source.say(0, [*range(1, 9)], 9)
        taken = [(waiting.take(), waiting.has_more) for _ in range(5)]
    assert [len(pieces) for pieces, _ in taken] == [3, 3, 3, 1, 0]
    assert [has_more for _, has_more in taken] == [True, True, True, False, False]
    assert [*chain.from_iterable(pieces for pieces, _ in taken)] == encoded(*range(10))


@pytest.mark.usefixtures("in_blocks")
async def test_a_large_event_waits_in_its_place_and_does_not_count(source: Source) -> None:
    run = Run(source)
    with opened(run, limit=6) as waiting:
        await source.say(0, [*range(1, 20)], 20)
        waiting.hold()
        assert run.reason is None
        assert take_all(waiting) == encoded(*range(21))


@pytest.mark.usefixtures("in_blocks")
async def test_a_large_event_that_was_begun_is_taken_to_its_end(source: Source) -> None:
    run = Run(source)
    with opened(run, limit=6, stored=stored) as waiting:
        await source.say([*range(10)])
        begun = [*waiting.take()]
        await source.say([*range(90, 95)], *range(10, 20))
        waiting.hold()
        assert waiting.resume_at == 1
        assert begun + take_all(waiting) == encoded(*range(10))
