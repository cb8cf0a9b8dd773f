"""What the URL of a database may say, and who obeys it."""

import asyncio

import pytest
from sqlalchemy import text

from server.store.responses.sql import SqlStore
from server.store.sqlalchemy_engine import parse_url
from tests.postgres import Postgres

UNQUOTED = "postgresql://user:p@ss:hunter2@host/name"
"""Its password should have `%40` and `%3A`: what follows the last colon is taken for a port."""

CONNECTIONS = text("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'a gateway'")


async def test_each_connection_obeys_the_query_of_a_postgresql_url(postgres: Postgres) -> None:
    url = await asyncio.to_thread(postgres.new_database)
    store = SqlStore(f"{url}?sslmode=disable&application_name=a%20gateway")
    await store.start()
    async with store.database.reading() as connection:
        # This one, and that of the listener, which holds the gateway's lock.
        assert (await connection.execute(CONNECTIONS)).scalar_one() == 2
    await store.stop()


def test_the_refusal_of_a_url_quotes_nothing_of_its_password() -> None:
    with pytest.raises(ValueError, match="expected memory") as refusal:
        parse_url(UNQUOTED)
    assert "hunter2" not in str(refusal.value)


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///", "sqlite:///:memory:"])
def test_sqlite_needs_a_file(url: str) -> None:
    with pytest.raises(ValueError, match="for a store without one say memory"):
        parse_url(url)
