"""Lists of conversations and responses, in memory and in databases alike."""

import tracemalloc
from dataclasses import replace
from functools import partial

import pytest
from sqlalchemy import update

from server.store import codec, lists
from server.store.conversations.base import Conversation
from server.store.lists import MAX_FIRST_ITEM, ListPage, ListQuery, Page, fitting
from server.store.responses.base import Store
from server.store.tables import conversations
from tests.server.store import test_contract
from tests.server.store.conftest import Database
from tests.server.store.test_contract import item
from tests.stored import put

EVERYTHING = ListQuery(100, "asc")


def ids(page: ListPage) -> list[str]:
    return [entry.object["id"] for entry in page.entries]


turn = partial(test_contract.turn, created_at=1_700_000_000)


def conversation(name: str, second: int, owner: str = "a") -> Conversation:
    return Conversation(owner, name, 1_700_000_000 + second, "2026-01-31", {"topic": name})


async def test_conversations_are_listed_by_time_for_their_owner(store: Store) -> None:
    talks = store.conversations
    await talks.create(conversation("newer", 2), [item("one"), item("two")])
    await talks.create(conversation("older", 1), [])
    await talks.create(conversation("other", 3, owner="b"), [])
    page = await talks.list("a", EVERYTHING)
    assert ids(page) == ["older", "newer"]
    assert not page.has_more
    assert page.entries[1].object == conversation("newer", 2).to_api()
    assert page.entries[1].first_item == item("one").item
    assert page.entries[0].first_item is None
    assert ids(await talks.list("a", ListQuery(100, "desc"))) == ["newer", "older"]


async def test_a_list_of_conversations_reads_no_state_of_tools(database: Database) -> None:
    store = await database.open()
    for number in range(20):
        await store.conversations.create(conversation(f"conv_{number}", number), [])
    await store.database.change(update(conversations).values(tool_state="x" * 500_000))
    tracemalloc.start()
    try:
        assert len(ids(await store.conversations.list("a", EVERYTHING))) == 20
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 5_000_000


@pytest.mark.parametrize("order", ["asc", "desc"])
async def test_pages_follow_each_other(store: Store, order: str) -> None:
    for second, name in enumerate(["a", "b", "c", "d", "e"]):
        # Two of each second: the id decides.
        await store.conversations.create(conversation(name, second // 2), [])
    found: list[str] = []
    query = ListQuery(2, "asc" if order == "asc" else "desc")
    while True:
        page = await store.conversations.list("a", query)
        found += ids(page)
        if not page.has_more:
            break
        query = replace(query, after=found[-1])
    assert found == (["a", "b", "c", "d", "e"] if order == "asc" else ["e", "d", "c", "b", "a"])


async def test_an_unknown_entry_or_one_of_others_begins_no_page(store: Store) -> None:
    await store.conversations.create(conversation("mine", 1), [])
    await store.conversations.create(conversation("theirs", 0, owner="b"), [])
    await put(store, turn("a"))
    for after in ("none", "theirs"):
        query = ListQuery(5, "asc", after)
        assert ids(await store.conversations.list("a", query)) == []
        assert ids(await store.list("a", query)) == []


async def test_responses_are_listed_unless_others_continue_them(store: Store) -> None:
    first = turn("first")
    await put(store, first)
    await put(store, turn("second", previous=first))
    await put(store, turn("alone"))
    assert sorted(ids(await store.list("a", EVERYTHING))) == ["alone", "second"]
    assert ids(await store.list("b", EVERYTHING)) == []
    await store.delete("a", "second")
    assert sorted(ids(await store.list("a", EVERYTHING))) == ["alone", "first"]


async def test_what_a_detached_response_continues_is_listed(store: Store) -> None:
    first = turn("first", previous=turn("lost"), detached=True)
    await put(store, first)
    await put(store, turn("second", previous=first, detached=True))
    assert sorted(ids(await store.list("a", EVERYTHING))) == ["first", "second"]


async def test_pages_of_responses_follow_each_other(store: Store) -> None:
    for name in ("one", "two", "three"):
        await put(store, turn(name))
    first = await store.list("a", ListQuery(2, "desc"))
    rest = await store.list("a", ListQuery(2, "desc", ids(first)[-1]))
    assert (first.has_more, rest.has_more) == (True, False)
    assert sorted([*ids(first), *ids(rest)]) == ["one", "three", "two"]


async def test_a_page_of_responses_ends_before_it_is_large(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lists, "MOST_PAGE_BYTES", 5000)
    store = await database.open()
    for name in ("one", "two", "three"):
        await put(store, turn(name, instructions="x" * 2000))
    found: list[str] = []
    for count, has_more in ((2, True), (1, False)):
        page = await store.list("a", ListQuery(9, "desc", found[-1] if found else None))
        assert (len(page.entries), page.has_more) == (count, has_more)
        found += ids(page)
    assert sorted(found) == ["one", "three", "two"]


@pytest.mark.parametrize(
    ("sizes", "count"),
    [([0.5, 0.5], 2), ([0.5, 0.5, 0.1], 2), ([0.5, 0.6], 1), ([1.5], 1), ([1.5, 0.1], 1)],
)
def test_a_page_has_what_there_is_room_for_and_one_entry_at_least(
    sizes: list[float], count: int
) -> None:
    page = fitting(Page(sizes, has_more=False), lambda size: int(size * lists.MOST_PAGE_BYTES))
    assert (page.entries, page.has_more) == (sizes[:count], count < len(sizes))


async def test_a_response_has_its_first_input_item(store: Store) -> None:
    await put(store, turn("response"))
    (entry,) = (await store.list("a", EVERYTHING)).entries
    assert entry.first_item == turn("response").input[0].item


async def test_responses_of_conversations_are_not_listed(store: Store) -> None:
    await store.conversations.create(conversation("conv", 1), [])
    await put(store, turn("response", status="completed", conversation={"id": "conv"}))
    assert ids(await store.list("a", EVERYTHING)) == []


@pytest.mark.parametrize("excess", [0, 1])
async def test_large_first_items_are_left_out(store: Store, excess: int) -> None:
    """What is measured is the JSON in characters, of which one may be several bytes."""
    first = item("first")
    room = MAX_FIRST_ITEM - len(codec.dump({**first.item, "content": ""}))
    first = replace(first, item={**first.item, "content": "é" * (room + excess)})
    await store.conversations.create(conversation("conv", 1), [first])
    await put(store, replace(turn("response"), input=(first,)))
    for page in (
        await store.conversations.list("a", EVERYTHING),
        await store.list("a", EVERYTHING),
    ):
        (entry,) = page.entries
        assert entry.first_item == (None if excess else first.item)
