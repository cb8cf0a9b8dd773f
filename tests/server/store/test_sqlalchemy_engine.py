"""What the URL of a database may say, and who obeys it."""

import asyncio
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import aiosqlite
import asyncpg
import pytest
from sqlalchemy import text
from sqlalchemy.engine import URL
from sqlalchemy.ext.asyncio import AsyncEngine

from server.store.database import Database
from server.store.errors import StoreUnavailable
from server.store.postgres_url import dialect_arguments, dsn_of
from server.store.responses.sql import SqlStore
from server.store.sqlalchemy_engine import migrate, open_engine, parse_url
from tests.postgres import Postgres
from tests.server.store.test_contract import numbered, running

UNQUOTED = "postgresql://user:p@ss:hunter2@host/name"
"""Its password should have `%40` and `%3A`: what follows the last colon is taken for a port."""

CONNECTIONS = text("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'a gateway'")


async def test_each_connection_obeys_the_query_of_a_postgresql_url(postgres: Postgres) -> None:
    url = await asyncio.to_thread(postgres.new_database)
    store = SqlStore(f"{url}?sslmode=disable&application_name=a%20gateway")
    await store.start()
    async with store.database.reading() as connection:
        # This one, that of heartbeats, and that of the listener, which holds the gateway's lock.
        assert (await connection.execute(CONNECTIONS)).scalar_one() == 3
    await store.stop()


@pytest.mark.parametrize(
    "query", ["ssl=disable", "ssl=prefer", "ssl=disable&prepared_statement_cache_size=0"]
)
async def test_the_arguments_of_sqlalchemy_are_obeyed(postgres: Postgres, query: str) -> None:
    url = await asyncio.to_thread(postgres.new_database)
    store = SqlStore(f"{url}?{query}&application_name=a%20gateway")
    await store.start()
    async with store.database.reading() as connection:
        assert (await connection.execute(CONNECTIONS)).scalar_one() == 3
        adapted = (await connection.get_raw_connection()).dbapi_connection
        assert (adapted._prepared_statement_cache is None) == ("size=0" in query)  # type: ignore[union-attr]
    await store.stop()


class Relay:
    """Passes on what a client and a server send, until its connections fall silent."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._passing: list[asyncio.Task[None]] = []
        self._writers: list[asyncio.StreamWriter] = []

    async def start(self) -> int:
        """Listen on a free port."""
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        return int(self._server.sockets[0].getsockname()[1])

    async def silence(self) -> None:
        """Pass on nothing more for those that are connected now."""
        for task in self._passing:
            task.cancel()
        await asyncio.gather(*self._passing, return_exceptions=True)

    async def stop(self) -> None:
        """Close all connections."""
        await self.silence()
        self._server.close()
        for writer in self._writers:
            writer.close()
        waiting = (writer.wait_closed() for writer in self._writers)
        await asyncio.gather(*waiting, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        its_reader, its_writer = await asyncio.open_connection("127.0.0.1", self._port)
        self._writers += (writer, its_writer)
        for source, target in ((reader, its_writer), (its_reader, writer)):
            self._passing.append(asyncio.create_task(self._pass_on(source, target)))

    async def _pass_on(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        while data := await source.read(1 << 16):
            target.write(data)
        target.close()


async def test_connections_that_fell_silent_are_replaced(
    postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("server.store.sqlalchemy_engine._PING_SECONDS", 0.1)
    url = await asyncio.to_thread(postgres.new_database)
    relay = Relay(postgres.port)
    store = SqlStore(url.replace(str(postgres.port), str(await relay.start())))
    await store.start()
    await relay.silence()
    assert await store.get("a", "one") is None
    await relay.stop()  # else the store waits for the silent ones to say goodbye
    await store.stop()


async def test_a_store_does_not_wait_long_to_close_connections_that_fell_silent(
    postgres: Postgres, caplog: pytest.LogCaptureFixture
) -> None:
    url = await asyncio.to_thread(postgres.new_database)
    relay = Relay(postgres.port)
    store = SqlStore(url.replace(str(postgres.port), str(await relay.start())))
    await store.start()
    await relay.silence()
    async with asyncio.timeout(15):  # a statement may take 30 s
        await store.stop()
    await relay.stop()
    assert not caplog.records


async def test_notices_are_heard_again_after_their_connection_fell_silent(
    postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("server.store.postgres_listener._STATEMENT_SECONDS", 0.5)
    monkeypatch.setattr("server.store.postgres_listener._RETRY_SECONDS", 0)
    monkeypatch.setattr("server.store.responses.sql._POSTGRES_POLL_SECONDS", None)
    url = await asyncio.to_thread(postgres.new_database)
    relay = Relay(postgres.port)
    store = SqlStore(url.replace(str(postgres.port), str(await relay.start())))
    other = SqlStore(url)
    await store.start()
    await other.start()
    await other.begin(running("one"))
    with store.listen("one") as changes:
        await relay.silence()
        assert await store.take_over_from_ended() == []
        async with asyncio.timeout(30):
            await changes.wait()  # what may have been missed
            await other.append("one", numbered(0))
            await changes.wait()
    await relay.stop()
    await store.stop()
    await other.stop()


SLOW_INDICES = """
CREATE FUNCTION slow() RETURNS event_trigger LANGUAGE plpgsql
    AS $$ BEGIN PERFORM pg_sleep(0.5); END $$;
CREATE EVENT TRIGGER slow ON ddl_command_end WHEN TAG IN ('CREATE INDEX', 'CREATE TABLE')
    EXECUTE FUNCTION slow();
"""


async def test_a_migration_may_take_longer_than_other_statements(
    postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hurried(
        url: URL, *, statement_seconds: float | None = 0.1, connections: int = 1
    ) -> AsyncEngine:
        return open_engine(url, statement_seconds=statement_seconds, connections=connections)

    url = await asyncio.to_thread(postgres.new_database)
    engine = open_engine(parse_url(url))
    await migrate(engine, "0009")
    await engine.dispose()
    connection = await asyncpg.connect(url)
    await connection.execute(SLOW_INDICES)
    monkeypatch.setattr("server.store.database.open_engine", hurried)
    database = Database(url)
    try:
        await database.migrate()
    finally:
        await connection.execute("DROP EVENT TRIGGER slow")
        await connection.close()
        await database.close()


async def test_a_parameter_that_the_server_does_not_know_ends_the_start(postgres: Postgres) -> None:
    url = await asyncio.to_thread(postgres.new_database)
    store = SqlStore(f"{url}?no_such_parameter=1")
    with pytest.raises(StoreUnavailable) as refusal:
        await store.start()
    cause = str(refusal.value.__cause__)
    assert cause == 'unrecognized configuration parameter "no_such_parameter"'
    await store.database.close()


@pytest.mark.parametrize(
    ("url", "dsn"),
    [
        ("postgresql://u:p%40@h/d", "postgresql://u:p%40@h/d"),
        ("postgresql://h/d?ssl=require", "postgresql://h/d?sslmode=require"),
        ("postgresql://h/d?prepared_statement_cache_size=0", "postgresql://h/d"),
        ("postgresql://h/d?port=5433", "postgresql://h:5433/d"),
        ("postgresql://h/?database=d", "postgresql://h/d"),
        ("postgresql://h?dbname=d", "postgresql://h/d"),
        ("postgresql://u@:5433/d?host=a", "postgresql://u@/d?host=a&port=5433"),
        ("postgresql:///d?host=a,b&port=1,2", "postgresql:///d?host=a%2Cb&port=1%2C2"),
    ],
)
def test_asyncpg_is_given_a_url_of_which_it_ignores_nothing(url: str, dsn: str) -> None:
    assert dsn_of(parse_url(url)) == dsn


@pytest.mark.parametrize(
    ("query", "arguments"),
    [
        ("", {}),
        ("?prepared_statement_cache_size=7", {"prepared_statement_cache_size": 7}),
    ],
)
def test_sqlalchemy_is_given_its_own_arguments(query: str, arguments: dict[str, int]) -> None:
    assert dialect_arguments(parse_url(f"postgresql://h/d{query}")) == arguments


@pytest.mark.parametrize(
    ("rest", "named"),
    [
        ("/d?host=a:1&host=b:2", "host is given more than once in the URL: write host=A:5432"),
        ("h/d?host=a", "host is given more than once"),
        ("h:1/d?port=2", "port is given more than once"),
        ("h/d?password=hunter2", "password is given more than once"),
        ("h/d?database=e", "database is given more than once"),
        ("h?database=d&dbname=e", "dbname is given more than once"),
        ("h/d?application_name=a&application_name=b", "application_name is given more than once"),
        ("h/d?port=1x", "port is not a number"),
        ("a,b/d?port=1", "port has to follow each host"),
        ("h/d?ssl=disable&sslmode=require", "ssl and sslmode"),
        ("h/d?prepared_statement_cache_size=-1", "prepared_statement_cache_size is not a number"),
        ("h/d?prepared_statement_name_func=f", "prepared_statement_name_func is a function"),
    ],
)
def test_what_cannot_be_obeyed_is_refused_by_name(rest: str, named: str) -> None:
    with pytest.raises(ValueError, match=named) as refusal:
        parse_url(f"postgresql://user:hunter2@{rest}")
    assert "hunter2" not in str(refusal.value)


def test_the_refusal_of_a_url_quotes_nothing_of_its_password() -> None:
    with pytest.raises(ValueError, match="expected memory") as refusal:
        parse_url(UNQUOTED)
    assert "hunter2" not in str(refusal.value)


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///", "sqlite:///:memory:"])
def test_sqlite_needs_a_file(url: str) -> None:
    with pytest.raises(ValueError, match="for a store without one say memory"):
        parse_url(url)


async def test_a_server_that_is_not_postgresql_is_a_store_that_is_unavailable() -> None:
    connections: list[asyncio.StreamWriter] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(writer)
        await reader.readexactly(8)
        writer.write(b"N")  # no TLS
        await reader.read(1000)
        writer.write(b"R\x00\x00\x00\x04")  # a message that is too short

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    store = SqlStore(f"postgresql://user:word@127.0.0.1:{port}/name")
    with pytest.raises(StoreUnavailable):
        await store.start()
    await store.stop()
    server.close()
    for writer in connections:
        writer.close()
        await writer.wait_closed()


async def test_no_thread_of_a_connection_that_failed_outlives_the_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would write a traceback where its event loop ended first."""
    stop, join = aiosqlite.Connection.stop, threading.Thread.join
    threads: list[threading.Thread] = []
    joined = threading.Event()

    def stop_late(connection: aiosqlite.Connection) -> asyncio.Future[None] | None:
        threads.append(connection._thread)
        connection._tx.put_nowait((None, joined.wait))
        return stop(connection)

    def note_join(thread: threading.Thread, timeout: float | None = None) -> None:
        if thread in threads:
            joined.set()
        join(thread, timeout)

    monkeypatch.setattr(aiosqlite.Connection, "stop", stop_late)
    monkeypatch.setattr(threading.Thread, "join", note_join)
    store = SqlStore(f"sqlite:///{tmp_path}")
    try:
        with pytest.raises(StoreUnavailable):
            await store.start()
        assert [thread.is_alive() for thread in threads] == [False]
    finally:
        joined.set()


async def test_a_connection_that_is_closed_in_a_write_leaves_the_file(tmp_path: Path) -> None:
    """Otherwise a cancelled request would keep all others from writing for a while."""
    file = tmp_path / "store.db"
    engine = open_engine(parse_url(f"sqlite:///{file}"))
    async with engine.connect() as connection:
        driver = (await connection.get_raw_connection()).driver_connection
        assert driver is not None
        await driver.execute("CREATE TABLE numbers (n)")
        await driver.execute("BEGIN IMMEDIATE")
        # Its statement is in use until all rows are read.
        written = await driver.execute("INSERT INTO numbers VALUES (1), (2) RETURNING n")
        await driver.close()
        with closing(sqlite3.connect(file, timeout=0)) as other:
            other.execute("BEGIN IMMEDIATE")
            assert other.execute("SELECT count(*) FROM numbers").fetchone() == (0,)
        del written
        await connection.invalidate()
    await engine.dispose()
