"""What the URL of a database may say, and who obeys it."""

import asyncio

from sqlalchemy import text

from server.store.responses.sql import SqlStore
from tests.postgres import Postgres

CONNECTIONS = text("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'a gateway'")


async def test_each_connection_obeys_the_query_of_a_postgresql_url(postgres: Postgres) -> None:
    url = await asyncio.to_thread(postgres.new_database)
    store = SqlStore(f"{url}?sslmode=disable&application_name=a%20gateway")
    await store.start()
    async with store.database.reading() as connection:
        # This one, and that of the listener, which holds the gateway's lock.
        assert (await connection.execute(CONNECTIONS)).scalar_one() == 2
    await store.stop()
