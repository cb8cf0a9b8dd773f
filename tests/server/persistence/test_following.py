import asyncio
from typing import Any

import pytest

from server.generation.runs import Emit, Runs
from server.persistence.following import finished, follow_stored, shown, stream_stored
from server.store.responses.base import Ledger, StoredResponse, StoreUnavailable
from server.store.responses.memory import MemoryStore

RESPONSE = {"id": "r", "status": "in_progress", "output": []}
STORED = StoredResponse("a", RESPONSE, "2026-01-31", (), (), ())


def events(*numbers: int) -> list[dict[str, Any]]:
    return [{"type": "x", "sequence_number": number} for number in numbers]


@pytest.fixture
async def store() -> MemoryStore:
    """With a response that is made elsewhere."""
    store = MemoryStore()
    await store.begin(STORED)
    return store


async def end(store: MemoryStore, *numbers: int) -> None:
    response = {**RESPONSE, "status": "completed"}
    await store.end(StoredResponse("a", response, "2026-01-31", (), (), ()), events(*numbers))


async def followed(
    store: MemoryStore, start: int = 0, follow: Any = follow_stored
) -> list[dict[str, Any]]:
    return [event async for batch in follow(store, "a", "r", start) for event in batch]


async def settle() -> None:
    """Let every task run until it waits."""
    for _ in range(10):
        await asyncio.sleep(0)


@pytest.mark.parametrize("start", [0, 1, 3])
async def test_events_are_followed_as_they_are_kept(store: MemoryStore, start: int) -> None:
    await store.append("r", events(0))
    following = asyncio.ensure_future(followed(store, start))
    await settle()
    await store.append("r", events(1, 2))
    await settle()
    assert not following.done()
    await end(store, 0, 1, 2, 3)
    assert await following == events(0, 1, 2, 3)[start:]


async def test_events_of_a_response_that_has_ended_are_those_that_are_kept(
    store: MemoryStore,
) -> None:
    await end(store, 0, 1)
    assert await followed(store, 1) == events(1)


async def test_following_ends_with_a_response_that_is_deleted(store: MemoryStore) -> None:
    await store.append("r", events(0))
    following = asyncio.ensure_future(followed(store))
    await settle()
    await store.delete("a", "r")
    await end(store, 0)
    assert await following == events(0)


async def test_a_response_that_is_made_elsewhere_is_finished_when_it_has_ended(
    store: MemoryStore,
) -> None:
    finishing = asyncio.ensure_future(finished(store, Runs(), "a", "r"))
    await settle()
    assert not finishing.done()
    await end(store, 0)
    await finishing


async def test_a_response_that_is_made_here_is_finished_when_its_run_is(store: MemoryStore) -> None:
    over = asyncio.Event()

    async def produce(_: Emit) -> None:
        await over.wait()

    runs = Runs()
    run = runs.start(produce, "r")
    finishing = asyncio.ensure_future(finished(store, runs, "a", "r"))
    await settle()
    assert not finishing.done()
    over.set()
    await finishing
    assert run.done


async def test_who_waits_for_the_end_may_leave_a_run(store: MemoryStore) -> None:
    async def produce(_: Emit) -> None:
        await asyncio.Event().wait()

    runs = Runs()
    run = runs.start(produce, "r")
    finishing = asyncio.ensure_future(finished(store, runs, "a", "r"))
    await settle()
    finishing.cancel()
    await settle()
    assert not run.done
    await runs.close()


async def end_as(store: MemoryStore, *kinds: str) -> None:
    response = StoredResponse("a", {**RESPONSE, "status": "x"}, "2026-01-31", (), (), ())
    await store.end(
        response, [{"type": kind, "sequence_number": n} for n, kind in enumerate(kinds)]
    )


@pytest.mark.parametrize("start", [4, 5, 60])
async def test_who_saw_what_a_crash_took_is_told_of_the_failure(
    store: MemoryStore, start: int
) -> None:
    await store.append("r", events(0, 1))
    streaming = asyncio.ensure_future(followed(store, start, stream_stored))
    await settle()
    await end_as(store, "response.created", "response.in_progress", "error", "response.failed")
    assert await streaming == [
        {"type": "error", "sequence_number": start},
        {"type": "response.failed", "sequence_number": start + 1},
    ]


@pytest.mark.parametrize(("start", "told"), [(2, []), (3, ["response.completed"])])
async def test_who_saw_more_than_there_is_is_told_of_the_end(
    store: MemoryStore, start: int, told: list[str]
) -> None:
    await end_as(store, "response.created", "response.completed")
    streamed = await followed(store, start, stream_stored)
    assert [event["type"] for event in streamed] == told


async def test_nothing_is_told_of_a_response_that_is_deleted(store: MemoryStore) -> None:
    await store.delete("a", "r")
    assert await followed(store, 1, stream_stored) == []


class Lost(MemoryStore):
    """A store that can no more be reached once it has given three events."""

    async def ledger(
        self, owner: str, response_id: str, start: int = 0, *, most: int | None = None
    ) -> Ledger | None:
        if start == 3:
            raise StoreUnavailable("away")
        return await super().ledger(owner, response_id, start, most=most)


@pytest.mark.parametrize("start", [0, 1])
async def test_a_stream_tells_of_a_store_that_is_lost(start: int) -> None:
    store = Lost()
    await store.begin(STORED)
    await store.append("r", events(0, 1, 2))
    streaming = asyncio.ensure_future(followed(store, start, stream_stored))
    await settle()
    await store.append("r", events(3))
    *told, last = await streaming
    assert told == events(0, 1, 2)[start:]
    flat = {"code": "store_unavailable", "message": "away", "param": None}
    assert last == {
        "type": "error",
        **flat,
        "error": {"type": "server_error", **flat},
        "sequence_number": 3,
    }


async def test_who_waits_for_the_end_hears_of_a_store_that_is_lost() -> None:
    store = Lost()
    await store.begin(STORED)
    await store.append("r", events(0, 1, 2))
    finishing = asyncio.ensure_future(finished(store, Runs(), "a", "r"))
    await settle()
    await store.append("r", events(3))
    with pytest.raises(StoreUnavailable):
        await finishing


async def test_a_response_is_shown_as_far_as_its_events_are_kept(store: MemoryStore) -> None:
    assert await shown(store, "a", "r") == RESPONSE
    told = {**RESPONSE, "status": "queued"}
    await store.append("r", [{"type": "response.queued", "response": told, "sequence_number": 0}])
    assert await shown(store, "a", "r") == told
    assert await shown(store, "b", "r") is None
