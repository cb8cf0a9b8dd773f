"""Conversations, in memory and in databases alike."""

import asyncio
from dataclasses import replace

from server.store.conversations.base import Conversation, ConversationSize
from server.store.lists import ListQuery
from server.store.responses.base import Store
from tests.server.store.conftest import Database
from tests.server.store.test_contract import THOUGHT, first_of, item, numbered, running, turn
from tests.stored import put

TALK = Conversation("a", "conv", 1_700_000_000, "2026-01-31", {"topic": "é"})


async def ids(store: Store, name: str = "conv") -> list[str]:
    read = await store.conversations.read("a", name)
    assert read is not None
    return [entry.item["id"] for entry in read.items]


async def test_what_is_created_is_read(store: Store) -> None:
    input_items = (item("one"), item("two", THOUGHT))
    await store.conversations.create(TALK, input_items)
    assert await store.conversations.get("a", "conv") == TALK
    read = await store.conversations.read("a", "conv")
    assert read is not None
    assert (read.conversation, read.items) == (TALK, input_items)


async def test_a_conversation_is_measured(store: Store) -> None:
    await store.conversations.create(TALK, [])
    assert await store.conversations.size("a", "conv") == ConversationSize(0, 0)
    await store.conversations.add("a", "conv", [item("one"), item("two", text="x" * 5000)])
    size = await store.conversations.size("a", "conv")
    assert size is not None
    assert (size.items, 5000 < size.bytes < 9000) == (2, True)
    assert await store.conversations.size("b", "conv") is None


async def test_items_are_found_by_their_ids_and_calls(store: Store) -> None:
    odd = 'c"\\é' + "x" * 60_000
    added = (
        item("one"),
        item("two", THOUGHT, call_id="c1"),
        item("three", call_id=odd),
        item("y" * 500),
    )
    await store.conversations.create(TALK, added)
    find = store.conversations.find
    assert [*(await find("a", "conv", [], ["c1", "lost"]) or ())] == [added[1]]
    assert [*(await find("a", "conv", ["one", "lost"], [odd]) or ())] == [added[0], added[2]]
    assert [*(await find("a", "conv", ["y" * 500], []) or ())] == [added[3]]
    assert [*(await find("a", "conv", [], []) or ())] == []
    assert await find("b", "conv", ["one"], []) is None


async def test_another_owner_finds_none(store: Store) -> None:
    conversations = store.conversations
    await conversations.create(TALK, [item("one")])
    assert await conversations.get("b", "conv") is None
    assert await conversations.read("b", "conv") is None
    assert await conversations.annotate("b", "conv", {}) is None
    assert not await conversations.add("b", "conv", [item("two")])
    assert not await conversations.remove("b", "conv", "one")
    assert not await conversations.delete("b", "conv")
    assert await ids(store) == ["one"]


async def test_metadata_is_replaced(store: Store) -> None:
    await store.conversations.create(TALK, [])
    changed = await store.conversations.annotate("a", "conv", {"other": "1"})
    assert changed == replace(TALK, metadata={"other": "1"})
    assert await store.conversations.get("a", "conv") == changed


async def test_items_are_added_in_order_and_taken_out(store: Store) -> None:
    await store.conversations.create(TALK, [item("one")])
    assert await store.conversations.add("a", "conv", [item("two"), item("x" * 500)])
    assert await ids(store) == ["one", "two", "x" * 500]
    assert await store.conversations.remove("a", "conv", "x" * 500)
    assert await store.conversations.remove("a", "conv", "one")
    assert not await store.conversations.remove("a", "conv", "one")
    assert await ids(store) == ["two"]


async def test_what_is_deleted_is_gone(store: Store) -> None:
    await store.conversations.create(TALK, [item("one")])
    assert await store.conversations.delete("a", "conv")
    assert await store.conversations.read("a", "conv") is None
    assert not await store.conversations.delete("a", "conv")
    assert not await store.conversations.add("a", "conv", [item("two")])


async def test_a_response_that_ends_well_is_added_to_its_conversation(store: Store) -> None:
    await store.conversations.create(TALK, [])
    for name, status in (("one", "completed"), ("two", "failed"), ("three", "incomplete")):
        response = running(name, conversation={"id": "conv"})
        await store.begin(response)
        ended = turn(name, conversation={"id": "conv"}, status=status)
        await store.end(ended, numbered(0))
    assert await ids(store) == ["in_one", "out_one", "in_three", "out_three"]


async def test_a_response_outlives_its_conversation(store: Store) -> None:
    await store.conversations.create(TALK, [])
    await store.begin(running("one", conversation={"id": "conv"}))
    await store.conversations.delete("a", "conv")
    ended = turn("one", conversation={"id": "conv"}, status="completed")
    await store.end(ended, numbered(0))
    assert await store.get("a", "one") == ended


async def test_turns_that_end_at_once_stay_together(store: Store) -> None:
    await store.conversations.create(TALK, [])
    names = [f"r{number}" for number in range(12)]

    async def make(name: str) -> None:
        await store.begin(running(name, conversation={"id": "conv"}))
        ended = turn(name, conversation={"id": "conv"}, status="completed")
        await store.end(ended, numbered(0))

    await asyncio.gather(*map(make, names))
    found = await ids(store)
    assert sorted(found) == sorted(f"{side}_{name}" for name in names for side in ("in", "out"))
    for first, second in zip(found[::2], found[1::2], strict=True):
        assert (first.removeprefix("in_"), first[:2]) == (second.removeprefix("out_"), "in")


async def test_a_chain_knows_what_its_first_response_had_read(database: Database) -> None:
    store = await database.open()
    await store.conversations.create(TALK, [item("before")])
    one = await first_of(store, "conv")
    await put(store, one)
    await store.conversations.add("a", "conv", [item("later")])
    two = turn("two", previous=one)
    await put(store, two)
    assert await store.get("a", "one") == one
    assert await store.get("a", "two") == two


async def test_a_chain_knows_what_a_first_response_without_items_had_read(
    database: Database,
) -> None:
    store = await database.open()
    await store.conversations.create(TALK, [item("before")])
    one = await first_of(store, "conv", input_items=(), made=())
    two = turn("two", previous=one)
    three = turn("three", previous=two)
    for response in (one, two, three):
        await put(store, response)
        assert await store.get("a", response.id) == response
        page = await store.input_items("a", response.id, ListQuery(9, "asc"))
        assert page is not None
        assert [*page.entries] == [each.item for each in (*response.history, *response.input)]


async def test_conversations_that_nothing_is_added_to_are_forgotten(database: Database) -> None:
    store = await database.open()
    await store.conversations.create(TALK, [item("one")])
    assert await store.sweep(3600) == 0
    assert await store.sweep(-1.0) == 1
    assert await store.conversations.get("a", "conv") is None
