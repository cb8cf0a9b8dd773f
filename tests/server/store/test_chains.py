"""Chains of responses that several gateways continue and delete at the same time."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from typing import Any

import pytest
from sqlalchemy import delete, select, text, update

from server.store.responses.sql import SqlStore
from server.store.tables import responses, runs
from tests.postgres import Postgres
from tests.server.store.conftest import Database
from tests.server.store.test_contract import running, turn
from tests.stored import put

WAITING = text(
    "SELECT count(*) FROM pg_stat_activity"
    " WHERE wait_event_type = 'Lock' AND datname = current_database()"
)


@pytest.fixture
async def on_postgres(postgres: Postgres) -> AsyncIterator[Database]:
    made = Database(await asyncio.to_thread(postgres.new_database), [])
    yield made
    for store in made.opened:
        await store.stop()


async def until_blocked(
    store: SqlStore, work: Coroutine[Any, Any, bool], count: int = 1
) -> asyncio.Task[bool]:
    """Start `work`, and return when `count` connections wait for a lock of PostgreSQL."""
    task = asyncio.create_task(work)
    waiting = 0
    async with asyncio.timeout(60):
        while waiting < count and not task.done():
            async with store.database.reading() as connection:
                waiting = (await connection.execute(WAITING)).scalar_one()
    return task


@pytest.mark.parametrize("deleted", ["one", "two"])
async def test_a_response_that_is_being_continued_can_be_deleted(
    on_postgres: Database, deleted: str
) -> None:
    store, other = await on_postgres.open(), await on_postgres.open()
    one = turn("one")
    two = turn("two", previous=one)
    three = running("three", previous=one if deleted == "one" else two)
    for each in (one, two) if deleted == "two" else (one,):
        await put(store, each)
    async with other.database.writing() as connection:
        await other._insert(connection, three, [])
        deleting = await until_blocked(store, store.delete("a", deleted))
    assert await deleting
    assert await store.get("a", deleted) is None
    continued = await store.get("a", "three")
    assert continued is not None
    assert continued.history == three.history


async def test_the_earliest_of_many_deleted_predecessors_are_left_to_the_sweep(
    database: Database,
) -> None:
    store = await database.open()
    last = turn("0")
    await put(store, last)
    for number in range(1, 60):
        last = turn(str(number), previous=last)
        await put(store, last)
    async with store.database.writing() as connection:
        is_earlier = responses.c.id != last.id
        await connection.execute(update(responses).where(is_earlier).values(deleted=True))
    assert await store.delete("a", last.id)
    async with store.database.reading() as connection:
        left = set((await connection.execute(select(responses.c.id))).scalars())
    assert left == {str(number) for number in range(10)}
    await store.sweep(3600)
    async with store.database.reading() as connection:
        assert (await connection.execute(select(responses.c.id))).first() is None


async def test_a_response_can_be_deleted_while_it_ends(on_postgres: Database) -> None:
    store = await on_postgres.open()
    await store.begin(running("one"))
    async with store.database.writing() as connection:
        # The statements of `end`.
        await connection.execute(delete(runs).where(runs.c.response_id == "one"))
        deleting = await until_blocked(store, store.delete("a", "one"))
        await connection.execute(update(responses).where(responses.c.id == "one").values(body="{}"))
    assert await deleting
    assert await store.get("a", "one") is None


async def test_of_two_who_delete_a_response_at_once_one_finds_it(on_postgres: Database) -> None:
    store, other = await on_postgres.open(), await on_postgres.open()
    await put(store, turn("one"))
    async with store.database.writing() as connection:
        await connection.execute(select(responses).with_for_update())
        first = await until_blocked(store, store.delete("a", "one"))
        second = await until_blocked(store, other.delete("a", "one"), 2)
    assert sorted([await first, await second]) == [False, True]
