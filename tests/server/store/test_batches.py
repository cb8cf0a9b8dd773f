"""Many rows are changed in short transactions."""

import math
from collections.abc import Sequence
from typing import Any

import pytest
from sqlalchemy import Delete, delete, select

from server.store import batches
from server.store.conversations.base import Conversation
from server.store.tables import conversations
from tests.server.store.conftest import Database


@pytest.mark.parametrize(
    ("long", "expected"),
    [
        (math.inf, [["a"], ["b", "c"], ["d", "e", "f"], ["g", "h"]]),
        (-1.0, [["a"], ["b"], ["c"], ["d"], ["e"], ["f"], ["g"], ["h"]]),
    ],
    ids=["short", "long"],
)
async def test_all_rows_are_changed_few_at_once_and_fewer_where_it_takes_long(
    database: Database, long: float, expected: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "_CHANGED_AT_ONCE", 3)
    monkeypatch.setattr(batches, "_FOUND_AT_ONCE", 6)
    monkeypatch.setattr(batches, "_LONG_SECONDS", long)
    store = await database.open()
    for name in "abcdefgh":
        await store.conversations.create(Conversation("o", name, 1, "2026-01-31", {}), [])
    changed: list[list[str]] = []

    def deletion(names: Sequence[Any]) -> Delete:
        changed.append([*names])
        return delete(conversations).where(conversations.c.id.in_(names))

    find = select(conversations.c.id).order_by(conversations.c.id)
    assert await batches.change_in_batches(store.database, find, deletion) == 8
    assert changed == expected


async def test_rows_that_cannot_be_changed_are_not_tried_for_ever(database: Database) -> None:
    store = await database.open()
    await store.conversations.create(Conversation("o", "a", 1, "2026-01-31", {}), [])
    none = delete(conversations).where(conversations.c.id == "b")
    find = select(conversations.c.id)
    assert await batches.change_in_batches(store.database, find, lambda _: none) == 0
