"""Roles of PostgreSQL that may not do all that the store needs."""

import asyncio
from collections.abc import AsyncIterator

import asyncpg
import pytest

from server.store.errors import StoreUnavailable
from server.store.responses.sql import SqlStore
from tests.postgres import Postgres
from tests.server.store.test_contract import turn
from tests.stored import put

GRANT_ALL = """
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO clerk;
GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO clerk;
"""


@pytest.fixture
async def owner(postgres: Postgres) -> AsyncIterator[asyncpg.Connection]:
    """The owner's connection to a database whose tables the role `clerk` may not use yet."""
    url = await asyncio.to_thread(postgres.new_database)
    store = SqlStore(url)
    await store.start()
    await store.stop()
    connection = await asyncpg.connect(url)
    await connection.execute("CREATE ROLE clerk LOGIN; GRANT USAGE ON SCHEMA public TO clerk")
    yield connection
    await connection.execute("DROP OWNED BY clerk; DROP ROLE clerk")
    await connection.close()


@pytest.fixture
async def store(postgres: Postgres, owner: asyncpg.Connection) -> AsyncIterator[SqlStore]:
    """The role's store, not yet started."""
    store = SqlStore(f"postgresql://clerk@127.0.0.1:{postgres.port}/postgres")
    yield store
    await store.stop()


async def test_a_role_with_the_documented_privileges_can_use_the_store(
    owner: asyncpg.Connection, store: SqlStore
) -> None:
    await owner.execute(GRANT_ALL)
    await store.start()
    await put(store, turn("one"))
    assert await store.get("a", "one") is not None


async def test_a_role_that_lacks_a_privilege_does_not_start(
    owner: asyncpg.Connection, store: SqlStore
) -> None:
    await owner.execute(GRANT_ALL)
    await owner.execute("REVOKE USAGE ON items_place_seq FROM clerk")
    await owner.execute("REVOKE INSERT ON events FROM clerk")
    with pytest.raises(StoreUnavailable) as refusal:
        await store.start()
    expected = "the role lacks INSERT on events, USAGE on items_place_seq"
    assert str(refusal.value.__cause__) == expected


async def test_a_role_that_may_read_nothing_does_not_start(
    owner: asyncpg.Connection, store: SqlStore
) -> None:
    with pytest.raises(StoreUnavailable) as refusal:
        await store.start()
    assert str(refusal.value.__cause__) == "permission denied for table alembic_version"


async def test_a_privilege_that_is_lost_makes_the_store_unavailable_until_it_is_back(
    owner: asyncpg.Connection, store: SqlStore, caplog: pytest.LogCaptureFixture
) -> None:
    await owner.execute(GRANT_ALL)
    await store.start()
    await owner.execute("REVOKE USAGE ON items_place_seq FROM clerk")
    with pytest.raises(StoreUnavailable):
        await put(store, turn("one"))
    assert "permission denied for sequence items_place_seq" in caplog.text
    with pytest.raises(StoreUnavailable):
        await store.check()
    await owner.execute(GRANT_ALL)
    await store.check()
    await put(store, turn("one"))


async def test_a_role_with_few_connections_serves_more_requests_than_that(
    owner: asyncpg.Connection, postgres: Postgres
) -> None:
    await owner.execute(GRANT_ALL)
    await owner.execute("ALTER ROLE clerk CONNECTION LIMIT 4")
    # Two for requests, one for heartbeats and one for notifications.
    store = SqlStore(f"postgresql://clerk@127.0.0.1:{postgres.port}/postgres", connections=2)
    await store.start()
    await asyncio.gather(*(put(store, turn(f"r{number}")) for number in range(30)))
    await store.stop()
