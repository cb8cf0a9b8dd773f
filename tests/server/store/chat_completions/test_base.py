"""What holds for chat completions in every kind of store."""

from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import delete

from harmony.messages import Author, Channel, Message, Role
from server.store import lists
from server.store.chat_completions.base import StoredChatCompletion
from server.store.items import SampledTurn
from server.store.lists import ListQuery
from server.store.responses.base import Store
from server.store.tables import chat_completions
from tests.server.store.conftest import Database, until_blocked

ASSISTANT = Author(Role.ASSISTANT)
SAMPLED = (
    Message(ASSISTANT, "Hm.", Channel.ANALYSIS, tokens=(1, 200_000)),
    Message(ASSISTANT, "{}", Channel.COMMENTARY, "functions.f", "json"),
)
EVERYTHING = ListQuery(9, "asc")
MESSAGES = ({"id": "c-0", "role": "user", "content": "café 😀"},)


def stored(name: str, owner: str = "ann", **fields: Any) -> StoredChatCompletion:
    completion = {"id": name, "model": "m", "metadata": {}, "choices": []} | fields
    return StoredChatCompletion(
        owner, completion, MESSAGES, (SampledTurn(SAMPLED, {f"call_of_{name}": 2}),)
    )


def after(name: str) -> ListQuery:
    return replace(EVERYTHING, after=name)


async def listed(store: Store, query: ListQuery = EVERYTHING, **filters: Any) -> list[str]:
    found = await store.chat_completions.list("ann", query, **filters)
    return [completion["id"] for completion in found.entries]


async def test_a_completion_comes_back_as_it_was(store: Store) -> None:
    await store.chat_completions.put(stored("a", metadata={"k": "v"}))
    found = await store.chat_completions.get("ann", "a")
    assert found == stored("a", metadata={"k": "v"}).completion
    assert [*(await store.chat_completions.messages("ann", "a") or ())] == [*MESSAGES]
    for owner, name in (("ann", "b"), ("bob", "a")):
        assert await store.chat_completions.get(owner, name) is None
        assert await store.chat_completions.messages(owner, name) is None


async def test_messages_are_found_by_their_calls(store: Store) -> None:
    for name in "ab":
        await store.chat_completions.put(stored(name))
    ids = ["call_of_a", "call_of_b", "call_of_c"]
    assert await store.chat_completions.messages_up_to_call("ann", ids) == {
        "call_of_a": SAMPLED,
        "call_of_b": SAMPLED,
    }
    assert await store.chat_completions.messages_up_to_call("bob", ids) == {}
    assert await store.chat_completions.messages_up_to_call("ann", []) == {}


async def test_the_calls_of_a_turn_share_its_messages(store: Store) -> None:
    count = 200
    turn = SampledTurn(SAMPLED * count, {f"call_{n}": 2 * n + 2 for n in range(count)})
    await store.chat_completions.put(replace(stored("a"), turns=(turn,)))
    found = await store.chat_completions.messages_up_to_call("ann", turn.ends)
    assert found == {f"call_{n}": SAMPLED * (n + 1) for n in range(count)}


async def test_calls_may_be_more_than_a_statement_takes(store: Store) -> None:
    await store.chat_completions.put(stored("a"))
    ids = [*map(str, range(70_000)), "call_of_a"]
    assert await store.chat_completions.messages_up_to_call("ann", ids) == {"call_of_a": SAMPLED}


async def test_completions_are_listed_page_by_page(store: Store) -> None:
    for name in "abc":
        await store.chat_completions.put(stored(name))
    await store.chat_completions.put(stored("other", owner="bob"))
    assert await listed(store) == ["a", "b", "c"]
    assert await listed(store, ListQuery(2, "asc")) == ["a", "b"]
    assert await listed(store, after("b")) == ["c"]
    assert await listed(store, ListQuery(9, "desc", "b")) == ["a"]
    assert await listed(store, after("lost")) == []
    assert await listed(store, after("other")) == []
    assert (await store.chat_completions.list("ann", ListQuery(2, "asc"))).has_more
    assert not (await store.chat_completions.list("ann", ListQuery(3, "asc"))).has_more


async def test_a_page_ends_before_it_is_large(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lists, "MOST_PAGE_BYTES", 3000)
    for name in "abc":
        await store.chat_completions.put(stored(name, text="x" * 2000))
    assert await listed(store) == ["a"]
    assert await listed(store, after("a")) == ["b"]
    assert (await store.chat_completions.list("ann", ListQuery(2, "asc", "a"))).has_more
    assert not (await store.chat_completions.list("ann", ListQuery(2, "asc", "b"))).has_more


async def test_completions_are_listed_by_model_and_all_of_their_metadata(store: Store) -> None:
    await store.chat_completions.put(stored("a", metadata={"k": "1", "l": "2"}))
    await store.chat_completions.put(stored("b", metadata={"k": "1"}, model="n"))
    await store.chat_completions.put(stored("c", metadata={"k": "2", "l": "2"}))
    assert await listed(store, model="m") == ["a", "c"]
    assert await listed(store, metadata={"k": "1"}) == ["a", "b"]
    assert await listed(store, metadata={"k": "1", "l": "2"}) == ["a"]
    assert await listed(store, after("a"), metadata={"k": "1"}) == ["b"]


async def test_other_metadata_takes_the_place_of_the_old(store: Store) -> None:
    for name in "ab":
        await store.chat_completions.put(stored(name, metadata={"k": "1"}))
    changed = await store.chat_completions.annotate("ann", "a", {"l": "2"})
    assert changed is not None
    assert changed["metadata"] == {"l": "2"}
    assert await store.chat_completions.get("ann", "a") == changed
    assert await listed(store, metadata={"k": "1"}) == ["b"]
    assert await listed(store, metadata={"l": "2"}) == ["a"]
    assert await listed(store) == ["a", "b"]
    assert await store.chat_completions.annotate("bob", "a", {}) is None
    assert await store.chat_completions.annotate("ann", "lost", {}) is None


async def test_metadata_for_a_completion_that_another_gateway_deletes(
    on_postgres: Database,
) -> None:
    store, other = await on_postgres.open(), await on_postgres.open()
    await store.chat_completions.put(stored("a"))
    async with other.database.writing() as connection:
        await connection.execute(delete(chat_completions))
        annotate = store.chat_completions.annotate("ann", "a", {"k": "v"})
        annotating = await until_blocked(other, annotate)
        assert not annotating.done()
    assert await annotating is None


async def test_a_deleted_completion_is_gone_with_its_calls(store: Store) -> None:
    await store.chat_completions.put(stored("a", metadata={"k": "1"}))
    assert not await store.chat_completions.delete("bob", "a")
    assert await store.chat_completions.delete("ann", "a")
    assert not await store.chat_completions.delete("ann", "a")
    assert await store.chat_completions.get("ann", "a") is None
    assert await store.chat_completions.messages_up_to_call("ann", ["call_of_a"]) == {}
    assert await listed(store, metadata={"k": "1"}) == []


async def test_what_is_old_is_swept(store: Store) -> None:
    await store.chat_completions.put(stored("a"))
    await store.sweep(3600)
    assert await listed(store) == ["a"]
    swept = await store.sweep(-1)
    remaining = await listed(store)
    assert (swept, remaining) in ((1, []), (0, ["a"]))


async def test_a_completion_that_is_put_again_is_stored_once(store: Store) -> None:
    for _ in range(2):
        await store.chat_completions.put(stored("a", metadata={"k": "v"}))
    assert await listed(store) == ["a"]
    assert await store.chat_completions.messages_up_to_call("ann", ["call_of_a"]) == {
        "call_of_a": SAMPLED
    }
