"""Expired responses go, and with them what only they continue."""

import math
from unittest.mock import Mock

import pytest
from sqlalchemy import select, update

from server.store import batches
from server.store.responses.sql import SqlStore
from server.store.tables import responses
from tests.server.store.conftest import Database
from tests.server.store.test_contract import running, turn
from tests.stored import put

OLD = 3600


async def make_old(store: SqlStore, *names: str) -> None:
    async with store.database.writing() as connection:
        old = update(responses).where(responses.c.id.in_(names)).values(created_at=0)
        await connection.execute(old)


async def rows_of(store: SqlStore) -> set[str]:
    async with store.database.reading() as connection:
        return set((await connection.execute(select(responses.c.id))).scalars())


async def test_a_long_chain_takes_few_transactions(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "_LONG_SECONDS", math.inf)
    store = await database.open()
    previous = None
    for number in range(40):
        previous = turn(f"r{number}", previous=previous)
        await put(store, previous)
    await make_old(store, *await rows_of(store))
    writing = Mock(wraps=store.database.writing)
    monkeypatch.setattr(store.database, "writing", writing)
    assert await store.sweep(OLD) == 40
    assert await rows_of(store) == set()
    assert writing.call_count < 15


async def test_what_a_live_response_continues_stays(database: Database) -> None:
    store = await database.open()
    one = turn("one")
    two = turn("two", previous=one)
    for response in (one, two, turn("live", previous=two), turn("side", previous=one)):
        await put(store, response)
    await put(store, turn("leaf", previous=turn("side", previous=one)))
    await make_old(store, "one", "two", "side", "leaf")
    assert await store.sweep(OLD) == 4
    assert await rows_of(store) == {"one", "two", "live"}
    await make_old(store, "live")
    assert await store.sweep(OLD) == 1
    assert await rows_of(store) == set()


async def test_a_tree_goes_from_its_leaves_on(database: Database) -> None:
    store = await database.open()
    root = turn("root")
    await put(store, root)
    for side in ("left", "right"):
        middle = turn(side, previous=root)
        await put(store, middle)
        for end in ("x", "y"):
            await put(store, turn(side + end, previous=middle))
    await make_old(store, *await rows_of(store))
    assert await store.sweep(OLD) == 7
    assert await rows_of(store) == set()


async def test_what_is_being_made_stays_with_what_it_continues(database: Database) -> None:
    store = await database.open()
    one = turn("one")
    await put(store, one)
    await store.begin(running("two", previous=one))
    await make_old(store, "one", "two")
    assert await store.sweep(OLD) == 1
    assert await rows_of(store) == {"one", "two"}


async def test_an_infinite_age_keeps_what_is_old(database: Database) -> None:
    store = await database.open()
    await put(store, turn("one"))
    await make_old(store, "one")
    assert await store.sweep(float("inf")) == 0
    assert await rows_of(store) == {"one"}
