"""Chains of responses that several gateways continue and delete at the same time."""

import pytest
from sqlalchemy import delete, select, update

from server.store.tables import responses, runs
from tests.server.store.conftest import Database, until_blocked
from tests.server.store.test_contract import running, turn
from tests.stored import put


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
