"""Many rows are changed in short transactions."""

from collections.abc import Sequence
from typing import Any

import pytest
from sqlalchemy import Delete, delete, select

from server.store import batches
from server.store.conversations.base import Conversation
from server.store.tables import conversations
from tests.server.store.conftest import Database


async def test_all_rows_are_changed_a_few_in_each_transaction(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "_CHANGED_AT_ONCE", 2)
    monkeypatch.setattr(batches, "_FOUND_AT_ONCE", 3)
    store = await database.open()
    for name in "abcde":
        await store.conversations.create(Conversation("o", name, 1, "2026-01-31", {}), [])
    changed: list[list[str]] = []

    def deletion(names: Sequence[Any]) -> Delete:
        changed.append([*names])
        return delete(conversations).where(conversations.c.id.in_(names))

    find = select(conversations.c.id).order_by(conversations.c.id)
    assert await batches.change_in_batches(store.database, find, deletion) == 5
    assert changed == [["a", "b"], ["c"], ["d", "e"]]


async def test_rows_that_cannot_be_changed_are_not_tried_for_ever(database: Database) -> None:
    store = await database.open()
    await store.conversations.create(Conversation("o", "a", 1, "2026-01-31", {}), [])
    none = delete(conversations).where(conversations.c.id == "b")
    find = select(conversations.c.id)
    assert await batches.change_in_batches(store.database, find, lambda _: none) == 0
