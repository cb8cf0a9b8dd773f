"""When a response's events are kept, and when they may be seen."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from server.persistence.response_journal import BATCH_EVENTS, MOST_WAITING, ResponseJournal
from server.persistence.retrying import RetryPolicy
from server.store.responses.base import Event, RunLost, StoredResponse, StoreUnavailable
from server.store.responses.memory import MemoryStore
from tests.server.store.test_contract import THOUGHT, running

LAST = {
    "type": "response.completed",
    "sequence_number": 3,
    "response": {"id": "one", "status": "completed", "output": [{"id": "out"}]},
}


class Watched(MemoryStore):
    """Says what is appended to it, and fails when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.appended = asyncio.Event()
        self.failure: Exception | None = None

    async def append(self, response_id: str, events: Sequence[Event]) -> None:
        try:
            if self.failure is not None:
                raise self.failure
            await super().append(response_id, events)
        finally:
            self.appended.set()


def delta(number: int) -> Event:
    return {"type": "delta", "sequence_number": number}


async def journal(
    store: MemoryStore, *, store_first: bool = False, delay: float = 0.0, patience: float = 0.0
) -> Any:
    retry = RetryPolicy(patience)
    made = ResponseJournal(
        store, running("one"), {"out": THOUGHT}, store_first=store_first, retry=retry, delay=delay
    )
    await made.begin()
    return made


async def kept(store: MemoryStore) -> list[Event]:
    ledger = await store.ledger("a", "one")
    assert ledger is not None
    return list(ledger.events)


async def test_events_are_seen_at_once_and_kept_together() -> None:
    store, seen = Watched(), list[Event]()
    writer = await journal(store)
    await writer.write([delta(0)], seen.extend)
    await writer.write([delta(1)], seen.extend)
    assert (seen, await kept(store)) == ([delta(0), delta(1)], [])
    await store.appended.wait()
    assert await kept(store) == seen


async def test_held_events_are_seen_when_they_are_kept() -> None:
    store, seen = Watched(), list[Event]()
    writer = await journal(store, store_first=True)
    await writer.write([delta(0)], seen.extend)
    await writer.write([delta(1)], seen.extend)
    assert seen == []
    await store.appended.wait()
    await asyncio.sleep(0)
    assert seen == await kept(store) == [delta(0), delta(1)]


@pytest.mark.parametrize("store_first", [False, True])
async def test_the_end_is_kept_with_all_events_before_it_is_seen(store_first: bool) -> None:
    store, seen = Watched(), list[Event]()
    writer = await journal(store, store_first=store_first, delay=3600)
    await writer.write([delta(0), delta(1)], seen.extend)
    await writer.write([delta(2), LAST], seen.extend)
    assert seen == await kept(store) == [delta(0), delta(1), delta(2), LAST]
    stored = await store.get("a", "one")
    assert stored is not None
    assert stored.response == LAST["response"]
    assert stored.output[0].message == THOUGHT
    assert not store.appended.is_set()


async def test_an_end_that_cannot_be_kept_is_not_seen() -> None:
    class Full(MemoryStore):
        async def end(self, stored: StoredResponse, events: Sequence[Event]) -> None:
            raise StoreUnavailable("full")

    seen = list[Event]()
    writer = await journal(Full())
    with pytest.raises(StoreUnavailable):
        await writer.write([LAST], seen.extend)
    assert seen == []


async def test_an_end_waits_for_a_store_that_is_away() -> None:
    class Away(MemoryStore):
        failures = 3

        async def end(self, stored: StoredResponse, events: Sequence[Event]) -> None:
            if self.failures:
                self.failures -= 1
                raise StoreUnavailable("away")
            await super().end(stored, events)

    store, seen = Away(), list[Event]()
    writer = await journal(store, patience=60)
    await writer.write([LAST], seen.extend)
    assert seen == await kept(store) == [LAST]


async def test_held_events_wait_for_a_store_that_is_away() -> None:
    store, seen = Watched(), list[Event]()
    writer = await journal(store, store_first=True, patience=60)
    store.failure = StoreUnavailable("away")
    await writer.write([delta(0)], seen.extend)
    await store.appended.wait()
    await writer.write([delta(1)], seen.extend)
    assert seen == []
    store.failure = None
    await writer.write([delta(2), LAST], seen.extend)
    assert seen == await kept(store) == [delta(0), delta(1), delta(2), LAST]


@pytest.mark.parametrize("store_first", [False, True])
async def test_a_run_waits_with_too_many_events_for_a_store_that_is_away(store_first: bool) -> None:
    store, seen = Watched(), list[Event]()
    writer = await journal(store, store_first=store_first, patience=60)
    store.failure = StoreUnavailable("away")
    await writer.write([delta(number) for number in range(MOST_WAITING)], seen.extend)
    waiting = asyncio.ensure_future(writer.write([delta(MOST_WAITING)], seen.extend))
    await store.appended.wait()
    assert not waiting.done()
    store.failure = None
    await waiting
    assert len(await kept(store)) >= BATCH_EVENTS


async def test_a_run_that_waits_with_too_many_events_ends_with_the_patience() -> None:
    store = Watched()
    writer = await journal(store, patience=0.01)
    store.failure = StoreUnavailable("away")
    with pytest.raises(StoreUnavailable):
        await writer.write([delta(number) for number in range(MOST_WAITING + 1)], lambda _: None)


@pytest.mark.parametrize("failure", [StoreUnavailable("away"), ValueError("a bug")])
async def test_an_end_after_the_patience_fails(failure: Exception) -> None:
    store, seen = Watched(), list[Event]()
    writer = await journal(store)
    store.failure = failure
    await writer.write([delta(0)], seen.extend)
    await store.appended.wait()
    await asyncio.sleep(0)
    with pytest.raises(type(failure)):
        await writer.write([LAST], seen.extend)
    assert seen == [delta(0)]


async def test_what_cannot_be_kept_for_a_while_is_kept_with_the_end() -> None:
    store, seen = Watched(), list[Event]()
    writer = await journal(store, patience=60)
    store.failure = StoreUnavailable("away")
    await writer.write([delta(0)], seen.extend)
    await store.appended.wait()
    await writer.write([delta(1), LAST], seen.extend)
    assert seen == await kept(store) == [delta(0), delta(1), LAST]


async def test_the_end_waits_for_one_append_of_a_store_that_hangs() -> None:
    class Hanging(MemoryStore):
        def __init__(self) -> None:
            super().__init__()
            self.appends = 0
            self.asked, self.released = asyncio.Event(), asyncio.Event()

        async def append(self, response_id: str, events: Sequence[Event]) -> None:
            self.appends += 1
            self.asked.set()
            await self.released.wait()
            raise StoreUnavailable("hangs")

    store, seen = Hanging(), list[Event]()
    writer = await journal(store, patience=60)
    await writer.write([delta(0)], seen.extend)
    await store.asked.wait()
    for number in range(1, 5):
        await writer.write([delta(number)], seen.extend)
        for _ in range(5):  # an append's turn, were there one
            await asyncio.sleep(0)
    asyncio.get_running_loop().call_soon(store.released.set)
    await writer.write([LAST], seen.extend)
    assert store.appends == 1
    assert seen == await kept(store)


async def test_what_was_not_kept_is_tried_again_though_nothing_follows() -> None:
    store, seen = Watched(), list[Event]()
    writer = await journal(store, patience=60)
    store.failure = StoreUnavailable("away")
    await writer.write([delta(0)], seen.extend)
    await store.appended.wait()
    store.failure = None
    store.appended.clear()
    await store.appended.wait()
    assert await kept(store) == [delta(0)]


@pytest.mark.parametrize(
    ("store_first", "failure"),
    [(True, StoreUnavailable("away")), (True, RunLost("lost")), (False, RunLost("lost"))],
)
async def test_a_run_that_nobody_can_keep_ends(store_first: bool, failure: Exception) -> None:
    store, seen = Watched(), list[Event]()
    writer = await journal(
        store, store_first=store_first, patience=60 if isinstance(failure, RunLost) else 0
    )
    store.failure = failure
    await writer.write([delta(0)], seen.extend)
    await store.appended.wait()
    await asyncio.sleep(0)
    with pytest.raises(type(failure)):
        await writer.write([delta(1)], seen.extend)
    assert delta(1) not in seen
