"""Pages after entries that are deleted while they are listed, in memory and in databases alike."""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import pytest

from server.ids import new_id
from server.store.conversations.base import Conversation
from server.store.files.base import StoredFile
from server.store.lists import ListQuery
from server.store.responses.base import Store
from tests.server.store.chat_completions.test_base import stored
from tests.server.store.containers.test_base import BOX
from tests.server.store.test_contract import item, turn
from tests.stored import put

Order = Literal["asc", "desc"]
NOW = 1_700_000_000
FILE = StoredFile("a", "file-1", "x.csv", "user_data", 5, NOW, None)


@dataclass
class Listed:
    """One kind of what a store lists, for the owner "a"."""

    store: Store
    kind: str

    async def add(self, name: str) -> None:
        store = self.store
        match self.kind:
            case "cntr":
                await store.containers.create(replace(BOX, id=name))
            case "chatcmpl":
                await store.chat_completions.put(stored(name, owner="a"))
            case "conv":
                talk = Conversation("a", name, NOW, "2026-01-31", {})
                await store.conversations.create(talk, [])
            case "file":
                await store.files.put(replace(FILE, id=name))
            case _:
                await put(store, turn(name, created_at=NOW))

    async def delete(self, name: str) -> bool:
        store = self.store
        match self.kind:
            case "cntr":
                return await store.containers.delete("a", name)
            case "chatcmpl":
                return await store.chat_completions.delete("a", name)
            case "conv":
                return await store.conversations.delete("a", name)
            case "file":
                return await store.files.delete("a", name)
            case _:
                return await store.delete("a", name)

    async def page(self, order: Order, after: str | None = None, limit: int = 2) -> Sequence[str]:
        store, query = self.store, ListQuery(limit, order, after)
        match self.kind:
            case "cntr":
                boxes = await store.containers.list("a", query, NOW)
                return [each.id for each in boxes.entries]
            case "chatcmpl":
                found = await store.chat_completions.list("a", query)
                return [each["id"] for each in found.entries]
            case "conv":
                talks = await store.conversations.list("a", query)
                return [each.object["id"] for each in talks.entries]
            case "file":
                files = await store.files.list("a", query, NOW)
                return [each.id for each in files.entries]
            case _:
                return [each.object["id"] for each in (await store.list("a", query)).entries]


@pytest.fixture(params=["cntr", "chatcmpl", "conv", "file", "resp"])
def listed(request: pytest.FixtureRequest, store: Store) -> Listed:
    return Listed(store, request.param)


@pytest.mark.parametrize("order", ["asc", "desc"])
async def test_all_are_listed_while_they_are_deleted(listed: Listed, order: Order) -> None:
    names = [new_id(listed.kind) for _ in range(5)]
    for name in names:
        await listed.add(name)
    found: list[str] = []
    while page := await listed.page(order, found[-1] if found else None):
        for name in page:
            assert await listed.delete(name)
        found += page
    assert found == (names if order == "asc" else names[::-1])


@pytest.mark.parametrize("order", ["asc", "desc"])
async def test_a_page_begins_where_a_deleted_entry_was(listed: Listed, order: Order) -> None:
    # Ids of an earlier version have no time: as texts they may be anywhere.
    names = [f"{listed.kind}_{secrets.token_hex(24)}"] if listed.kind in ("cntr", "file") else []
    names += [new_id(listed.kind) for _ in range(4)]
    for name in names:
        await listed.add(name)
    *before, deleted, last = names
    assert await listed.delete(deleted)
    followed_by = [last] if order == "asc" else before[::-1]
    assert await listed.page(order, deleted, limit=9) == followed_by


@pytest.mark.parametrize("order", ["asc", "desc"])
async def test_an_id_of_another_kind_begins_no_page(listed: Listed, order: Order) -> None:
    before, other, after = (new_id(kind) for kind in (listed.kind, "other", listed.kind))
    await listed.add(before)
    await listed.add(after)
    assert await listed.page(order, other) == []
    assert await listed.page(order, "msg_1") == []


@pytest.mark.parametrize("order", ["asc", "desc"])
async def test_a_page_of_items_begins_where_an_item_of_another_kind_was(
    store: Store, order: Order
) -> None:
    before, deleted, after = (new_id(kind) for kind in ("msg", "rs", "fc"))
    talk, items = store.conversations, [item(name) for name in (before, deleted, after)]
    await talk.create(Conversation("a", "conv", NOW, "2026-01-31", {}), items)
    assert await talk.remove("a", "conv", deleted)
    page = await talk.page_of_items("a", "conv", ListQuery(9, order, deleted))
    assert page is not None
    assert [each["id"] for each in page.entries] == [after if order == "asc" else before]
