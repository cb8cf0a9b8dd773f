"""The store in memory."""

import asyncio
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from server.store.conversations.base import Conversation
from server.store.items import StoredItem
from server.store.lists import ListQuery
from server.store.responses.base import Ledger, StoredResponse
from server.store.responses.memory import MemoryStore
from tests.server.store.test_contract import first_of, turn
from tests.stored import put


def stored(
    response_id: str, *, owner: str = "a", input_items: tuple[StoredItem, ...] = (), marker: int = 0
) -> StoredResponse:
    made = StoredItem({"id": f"msg_{response_id}", "type": "message"})
    response = {"id": response_id, "marker": marker}
    return StoredResponse(owner, response, "2026-01-31", (), input_items, (made,))


async def test_a_second_put_replaces() -> None:
    store = MemoryStore()
    await put(store, stored("one"))
    await put(store, stored("one", marker=2))
    got = await store.get("a", "one")
    assert got is not None
    assert got.response["marker"] == 2


async def test_the_least_recently_used_is_forgotten() -> None:
    store = MemoryStore(capacity=2)
    await put(store, stored("one"))
    await put(store, stored("two"))
    await store.get("a", "one")
    await put(store, stored("three"))
    assert [await store.get("a", name) is None for name in ("one", "two", "three")] == [
        False,
        True,
        False,
    ]
    assert list(await store.items("a", ["msg_one", "msg_two"])) == ["msg_one"]


async def test_a_response_that_is_being_made_is_not_forgotten() -> None:
    store = MemoryStore(capacity=1)
    await store.begin(stored("one"))
    for name in ("two", "three"):
        await put(store, stored(name))
    remaining = [name for name in ("one", "two", "three") if await store.show("a", name)]
    assert remaining == ["one", "three"]
    await store.end(stored("one", marker=2), [])
    assert (await store.show("a", "one") or {})["marker"] == 2


async def test_a_response_takes_the_room_of_another_when_it_begins() -> None:
    store = MemoryStore(capacity=1)
    await put(store, stored("one"))
    await store.begin(stored("two"))
    assert await store.show("a", "one") is None


async def test_responses_that_are_being_made_may_be_more_than_the_capacity() -> None:
    store = MemoryStore(capacity=1)
    for name in ("one", "two", "three"):
        await store.begin(stored(name))
    assert all([await store.show("a", name) for name in ("one", "two", "three")])


async def test_a_response_has_not_ended_before_it_is_in_its_conversation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = MemoryStore()
    add = store.conversations.add
    statuses: list[str] = []

    async def noted(*added: Any) -> bool:
        statuses.append((await store.show("a", "one") or {})["status"])
        return await add(*added)

    monkeypatch.setattr(store.conversations, "add", noted)
    await store.conversations.create(Conversation("a", "conv", 0, "2026-01-31"), ())
    begun = {"id": "one", "status": "in_progress", "conversation": {"id": "conv"}}
    started = StoredResponse("a", begun, "2026-01-31", (), (LONG,), ())
    await store.begin(started)
    await store.end(started.ended({**begun, "status": "completed", "output": []}, {}), [])
    conversation = await store.conversations.read("a", "conv")
    assert conversation is not None
    assert (statuses, conversation.items) == (["in_progress"], (LONG,))


LONG = StoredItem({"id": "long", "type": "message", "content": "x" * 10_000})


async def test_the_least_recently_used_is_forgotten_where_bytes_are_short() -> None:
    store = MemoryStore(most=30_000)
    for name in ("one", "two"):
        input_item = replace(LONG, item=LONG.item | {"id": f"in_{name}"})
        await put(store, stored(name, input_items=(input_item,)))
    await store.get("a", "one")
    await put(store, stored("three", input_items=(LONG,)))
    remaining = [name for name in ("one", "two", "three") if await store.get("a", name)]
    assert remaining == ["one", "three"]


async def test_what_a_chain_shares_weighs_once() -> None:
    store = MemoryStore(most=60_000)
    history: tuple[StoredItem, ...] = (LONG,)
    for number in range(10):
        response = replace(stored(f"r{number}"), history=history)
        await put(store, response)
        history = response.items
    assert await store.get("a", "r0") is not None


async def test_a_response_that_is_too_large_is_stored_until_the_next() -> None:
    store = MemoryStore(most=5_000)
    await put(store, stored("one", input_items=(LONG,)))
    assert await store.get("a", "one") is not None
    await put(store, stored("two"))
    assert await store.get("a", "one") is None
    assert await store.get("a", "two") is not None


NOISE = Random(0).randbytes(20_000).hex()


@pytest.mark.parametrize("heavy", ["one", "two"])
async def test_a_ledger_weighs_too(heavy: str) -> None:
    store = MemoryStore(most=20_000)
    for name in ("one", "two"):
        await put(store, stored(name), [{"type": "x", "delta": NOISE if name == heavy else ""}])
    assert [await store.get("a", name) is None for name in ("one", "two")] == [True, False]


async def test_a_deleted_ledger_weighs_nothing() -> None:
    store = MemoryStore(most=20_000)
    await put(store, stored("one"), [{"type": "x", "delta": NOISE}])
    await store.delete("a", "one")
    for name in ("two", "three"):
        await put(store, stored(name))
    assert await store.get("a", "two") is not None


async def test_a_response_is_still_made_while_its_long_end_is_packed() -> None:
    store = MemoryStore()
    await store.begin(stored("one"))
    events = [{"type": "x", "sequence_number": number, "text": 100 * "x"} for number in range(5000)]
    ending = asyncio.ensure_future(store.end(stored("one"), events))
    await asyncio.sleep(0)
    assert await store.ledger("a", "one") == Ledger((), ended=False)
    await ending
    assert await store.ledger("a", "one") == Ledger(tuple(events), ended=True)


async def test_what_is_deleted_weighs_nothing() -> None:
    store = MemoryStore(most=30_000)
    for number in range(10):
        await put(store, stored("big", input_items=(LONG,)), [{"type": "x"}])
        await put(store, stored(f"small_{number}"))
        await store.delete("a", "big")
    assert await store.get("a", "small_5") is not None


async def test_a_response_keeps_the_history_of_one_that_is_deleted_before_it_begins() -> None:
    store = MemoryStore()
    item = StoredItem({"id": "x", "type": "message"})
    await store.conversations.create(Conversation("a", "conv_1", 1, "2026-01-31"), [item])
    one = await first_of(store, "conv_1")
    await put(store, one)
    await store.delete("a", "one")
    two = turn("two", previous=one)
    await put(store, two)
    assert await store.get("a", "two") == two


async def test_a_response_that_is_deleted_while_its_items_are_listed_is_not_found() -> None:
    store = MemoryStore()
    items = [StoredItem({"id": f"x{number}", "type": "message"}) for number in range(2000)]
    await store.conversations.create(Conversation("a", "conv_1", 1, "2026-01-31"), items)
    await put(store, await first_of(store, "conv_1"))
    listing = asyncio.ensure_future(store.input_items("a", "one", ListQuery(20, "desc")))
    await asyncio.sleep(0)
    assert not listing.done()
    await store.delete("a", "one")
    await store.conversations.delete("a", "conv_1")
    assert await listing is None
