import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from server.generation.runs import Emit, Runs
from server.outbound.responses.interrupted import end_interrupted
from server.persistence.stored_stream import (
    BATCH_EVENTS,
    current_response,
    current_status,
    follow_stored,
    stream_stored,
    wait_until_ended,
)
from server.store.change_signal import ChangeSignal
from server.store.errors import StoreUnavailable
from server.store.responses.base import Ledger, StoredResponse
from server.store.responses.memory import MemoryStore
from tests.waiting import settle

RESPONSE = {"id": "r", "status": "in_progress", "output": []}
STORED = StoredResponse("a", RESPONSE, "2026-01-31", (), (), ())


def events(*numbers: int) -> list[dict[str, Any]]:
    return [{"type": "x", "sequence_number": number} for number in numbers]


@pytest.fixture
async def store() -> MemoryStore:
    """A store with a response that another gateway makes."""
    store = MemoryStore()
    await store.begin(STORED)
    return store


async def end(store: MemoryStore, *numbers: int) -> None:
    response = {**RESPONSE, "status": "completed"}
    await store.end(StoredResponse("a", response, "2026-01-31", (), (), ()), events(*numbers))


async def read_events(
    store: MemoryStore, start: int = 0, follow: Any = follow_stored
) -> list[dict[str, Any]]:
    return [event async for batch in follow(store, "a", "r", start) for event in batch]


@pytest.mark.parametrize("start", [0, 1, 3])
async def test_events_are_yielded_as_they_are_stored(store: MemoryStore, start: int) -> None:
    await store.append("r", events(0))
    following = asyncio.ensure_future(read_events(store, start))
    await settle()
    await store.append("r", events(1, 2))
    await settle()
    assert not following.done()
    await end(store, 0, 1, 2, 3)
    assert await following == events(0, 1, 2, 3)[start:]


async def test_events_of_an_ended_response_are_those_stored(
    store: MemoryStore,
) -> None:
    await end(store, 0, 1)
    assert await read_events(store, 1) == events(1)


async def test_stored_events_of_several_batches_are_read_without_a_wait() -> None:
    class NeverChanging(ChangeSignal):
        async def wait(self) -> None:
            raise AssertionError("all events are stored")

    class Stored(MemoryStore):
        @contextmanager
        def listen(self, topic: str) -> Iterator[ChangeSignal]:
            yield NeverChanging(None)

    store = Stored()
    await store.begin(STORED)
    numbers = range(2 * BATCH_EVENTS + 1)
    await end(store, *numbers)
    assert await read_events(store) == events(*numbers)


@pytest.mark.parametrize("start", [0, 1])
async def test_a_stream_whose_response_is_deleted_ends_with_an_error_event(
    store: MemoryStore, start: int
) -> None:
    await store.append("r", events(0))
    following = asyncio.ensure_future(read_events(store, start, stream_stored))
    await settle()
    await store.delete("a", "r")
    await end(store, 0)
    *received, last = await following
    assert received == events(0)[start:]
    assert (last["type"], last["code"], last["sequence_number"]) == ("error", "not_found", 0)


async def test_waiting_for_a_response_ends_when_it_is_deleted(store: MemoryStore) -> None:
    finishing = asyncio.ensure_future(wait_until_ended(store, Runs(), "a", "r"))
    await settle()
    await store.delete("a", "r")
    await end(store, 0)
    await finishing


async def test_waiting_for_a_response_of_another_gateway_ends_with_it(
    store: MemoryStore,
) -> None:
    finishing = asyncio.ensure_future(wait_until_ended(store, Runs(), "a", "r"))
    await settle()
    assert not finishing.done()
    await end(store, 0)
    await finishing


async def test_waiting_for_a_response_of_this_gateway_ends_with_its_run(store: MemoryStore) -> None:
    release = asyncio.Event()

    async def produce(_: Emit) -> None:
        await release.wait()

    runs = Runs()
    run = runs.start(produce, "r")
    finishing = asyncio.ensure_future(wait_until_ended(store, runs, "a", "r"))
    await settle()
    assert not finishing.done()
    release.set()
    await finishing
    assert run.done


async def test_a_cancelled_wait_does_not_end_the_run(store: MemoryStore) -> None:
    async def produce(_: Emit) -> None:
        await asyncio.Event().wait()

    runs = Runs()
    run = runs.start(produce, "r")
    finishing = asyncio.ensure_future(wait_until_ended(store, runs, "a", "r"))
    await settle()
    finishing.cancel()
    await settle()
    assert not run.done
    await runs.close()


async def end_as(store: MemoryStore, *kinds: str) -> None:
    """End the response with events of these types, each of which has the response."""
    response = {**RESPONSE, "status": "x", "error": {"message": "It broke."}}
    await store.end(
        StoredResponse("a", response, "2026-01-31", (), (), ()),
        [
            {"type": kind, "response": response, "sequence_number": number}
            for number, kind in enumerate(kinds)
        ],
    )


@pytest.mark.parametrize("start", [4, 5, 60])
async def test_a_client_that_received_lost_events_gets_the_failure(
    store: MemoryStore, start: int
) -> None:
    await store.append("r", events(0, 1))
    streaming = asyncio.ensure_future(read_events(store, start, stream_stored))
    await settle()
    ended = end_interrupted(RESPONSE, [])
    failed = ended[-1]["response"]
    await store.end(StoredResponse("a", failed, "2026-01-31", (), (), ()), ended)
    assert await streaming == [
        {**event, "sequence_number": start + n} for n, event in enumerate(ended[-2:])
    ]


async def test_a_failure_that_was_streamed_is_not_repeated(store: MemoryStore) -> None:
    kinds = ("response.created", "response.in_progress", "error", "response.failed")
    await end_as(store, *kinds)
    for start in range(5):
        streamed = await read_events(store, start, stream_stored)
        assert [event["type"] for event in streamed] == [*kinds[start:]]


@pytest.mark.parametrize(("start", "types"), [(2, []), (3, ["response.completed"])])
async def test_a_client_beyond_the_last_event_gets_the_terminal_event(
    store: MemoryStore, start: int, types: list[str]
) -> None:
    await end_as(store, "response.created", "response.completed")
    streamed = await read_events(store, start, stream_stored)
    assert [event["type"] for event in streamed] == types


async def test_an_error_event_before_all_others_has_no_number(store: MemoryStore) -> None:
    await store.delete("a", "r")
    (error,) = await read_events(store, 0, stream_stored)
    assert error["code"] == "not_found"
    assert "sequence_number" not in error


class Failing(MemoryStore):
    """A store that becomes unavailable after three events."""

    async def ledger(
        self, owner: str, response_id: str, start: int = 0, *, most: int | None = None
    ) -> Ledger | None:
        if start == 3:
            raise StoreUnavailable("unavailable")
        return await super().ledger(owner, response_id, start, most=most)


@pytest.mark.parametrize("start", [0, 1])
async def test_an_unavailable_store_ends_a_stream_with_an_error_event(start: int) -> None:
    store = Failing()
    await store.begin(STORED)
    await store.append("r", events(0, 1, 2))
    streaming = asyncio.ensure_future(read_events(store, start, stream_stored))
    await settle()
    await store.append("r", events(3))
    *received, last = await streaming
    assert received == events(0, 1, 2)[start:]
    flat = {"code": "store_unavailable", "message": "unavailable", "param": None}
    assert last == {
        "type": "error",
        **flat,
        "error": {"type": "server_error", **flat},
        "sequence_number": 2,
    }


async def test_an_unavailable_store_ends_a_wait_with_its_error() -> None:
    store = Failing()
    await store.begin(STORED)
    await store.append("r", events(0, 1, 2))
    finishing = asyncio.ensure_future(wait_until_ended(store, Runs(), "a", "r"))
    await settle()
    await store.append("r", events(3))
    with pytest.raises(StoreUnavailable):
        await finishing


async def test_a_running_response_is_folded_from_its_stored_events(store: MemoryStore) -> None:
    assert await current_response(store, "a", "r") == RESPONSE
    queued = {**RESPONSE, "status": "queued"}
    await store.append("r", [{"type": "response.queued", "response": queued, "sequence_number": 0}])
    assert await current_response(store, "a", "r") == queued
    assert await current_response(store, "b", "r") is None


async def test_a_status_is_that_of_the_stored_events_or_else_as_it_was_read(
    store: MemoryStore,
) -> None:
    queued = {**RESPONSE, "status": "queued"}
    assert await current_status(store, "a", queued) == "queued"
    started = {"type": "response.in_progress", "response": RESPONSE, "sequence_number": 0}
    await store.append("r", [started])
    assert await current_status(store, "a", queued) == "in_progress"
    # The first events of one that has ended do not tell how it ended.
    assert await current_status(store, "a", {**RESPONSE, "status": "completed"}) == "completed"
    await store.delete("a", "r")
    assert await current_status(store, "a", queued) == "queued"
