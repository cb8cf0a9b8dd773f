"""Opens the database of a URL: drivers, pragmas, and migrations of the schema."""

import asyncio
import logging
import sqlite3
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import aiosqlite
import asyncpg
from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, event, text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, InvalidatePoolError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.pool import ConnectionPoolEntry

from server.store import postgres_url
from server.store.errors import StoreTooNew
from server.store.open_files import OpenFiles

logger = logging.getLogger(__name__)

WRITES = {"gpt_oss_writes": True}
"""Execution options of a transaction that writes."""

FILES = "gpt_oss_files"
"""The key of the OpenFiles in a SQLite connection's `info`."""

POSTGRES_ERRORS = (
    OSError,
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,  # for what is not PostgreSQL's protocol
)
"""What asyncpg raises where PostgreSQL refuses, is away, or is something else."""

CONNECTIONS = 15
"""The most connections of an engine at once; others wait for one of them."""

_MIGRATIONS = Path(__file__).parent / "migrations"
_SCHEMA_LOCK = 0x6770746F7373
"""PostgreSQL's advisory lock that serializes migrations of gateways that start together."""

BUSY_SECONDS = 10
"""How long a write to a SQLite file waits for other ones."""

_LOCKED_SECONDS = 0.02
# The upper levels of the indices of a million responses, for each connection.
_CACHE_KIB = 32 * 1024
# The -wal file is truncated to this size after a large transaction.
_MOST_WAL_BYTES = 64 * 1024 * 1024
_CONNECT_SECONDS = 5
_KEPT_CONNECTIONS = 5
_PING_SECONDS = 3
_STATEMENT_SECONDS = 30
_CLOSE_SECONDS = 1
# Shorter than the silence after which a gateway counts as ended: its locks would keep others from
# ending its responses.
_FROZEN_SECONDS = 10
_USED = "gpt_oss_used"
"""The key of a flag in a PostgreSQL connection's `info`: it was used before."""


def parse_url(url: str) -> URL:
    """Parse `sqlite:///FILE` or `postgresql://…` and add the driver.

    Raises ValueError, which quotes no password.
    """
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):  # the latter quotes the text where the port should be
        parsed = None
    drivers = {"sqlite": "sqlite+aiosqlite", "postgresql": "postgresql+asyncpg"}
    if parsed is None or parsed.drivername not in drivers:
        raise ValueError("expected memory, sqlite:///FILE or postgresql://…")
    if parsed.drivername == "sqlite" and parsed.database in (None, "", ":memory:"):
        raise ValueError("sqlite:/// needs a file; for a store without one say memory")
    if parsed.drivername == "postgresql":
        parsed = postgres_url.check(parsed)
    return parsed.set(drivername=drivers[parsed.drivername])


def open_engine(
    url: URL,
    *,
    statement_seconds: float | None = _STATEMENT_SECONDS,
    connections: int = CONNECTIONS,
) -> AsyncEngine:
    """Return SQLAlchemy's engine, which connects when it is first used.

    statement_seconds: how long PostgreSQL may take for a statement; None for any time. connections:
    the most at once.
    """
    kept = min(connections, _KEPT_CONNECTIONS)
    pool = {
        "pool_size": kept,
        "max_overflow": connections - kept,
        "pool_timeout": _CONNECT_SECONDS,
    }
    if url.get_backend_name() == "sqlite":
        return _open_sqlite(url, pool)
    return _open_postgres(url, statement_seconds, pool)


def _open_postgres(
    url: URL, statement_seconds: float | None, pool: Mapping[str, int]
) -> AsyncEngine:
    connect = partial(_connect_postgres, postgres_url.dsn_of(url), statement_seconds)
    engine = create_async_engine(
        "postgresql+asyncpg://",
        # As `async_creator`, with which SQLAlchemy takes no arguments of its own.
        connect_args={"async_creator_fn": connect, **postgres_url.dialect_arguments(url)},
        hide_parameters=True,
        **pool,
    )

    # In place of `pool_pre_ping`, which waits for a silent server as long as for a statement.
    @event.listens_for(engine.sync_engine, "checkout")
    def ping(connection: Any, record: ConnectionPoolEntry, _: object) -> None:
        if record.info.setdefault(_USED, False):
            try:
                connection.run_async(
                    lambda driver: driver.execute("SELECT 1", timeout=_PING_SECONDS)
                )
            except POSTGRES_ERRORS as error:
                raise InvalidatePoolError from error
        record.info[_USED] = True

    return engine


async def _connect_postgres(
    dsn: str, statement_seconds: float | None, **options: Any
) -> asyncpg.Connection:
    """Connect. Where statements have a limit of time, so have pauses within a transaction.

    After a longer pause PostgreSQL rolls the transaction back. Otherwise a gateway whose process or
    host stands still in one would keep its locks, until TCP gives up after hours.
    """
    connection = await asyncpg.connect(
        dsn,
        connection_class=_PostgresConnection,
        timeout=_CONNECT_SECONDS,
        command_timeout=statement_seconds,
        **options,
    )
    if statement_seconds is not None:
        limit = f"SET idle_in_transaction_session_timeout = {1000 * _FROZEN_SECONDS:.0f}"
        try:
            # Not a parameter of the connection, which PgBouncer refuses.
            await connection.execute(limit, timeout=_CONNECT_SECONDS)
        except BaseException:
            connection.terminate()
            raise
    return connection


class _PostgresConnection(asyncpg.Connection):  # type: ignore[misc]  # asyncpg has no types
    """One that does not wait as long for a silent server to say goodbye as for a statement."""

    async def close(self, **options: float) -> None:
        with suppress(TimeoutError):  # The connection was dropped.
            await super().close(**{"timeout": _CLOSE_SECONDS, **options})


async def migrate(engine: AsyncEngine, revision: str = "head") -> None:
    """Upgrade the schema to a revision, the newest one; concurrent upgrades are serialized.

    Raises StoreTooNew.
    """
    async with engine.execution_options(**WRITES).begin() as connection:
        if engine.dialect.name == "postgresql":
            await connection.execute(
                text("SELECT pg_advisory_xact_lock(:key)"), {"key": _SCHEMA_LOCK}
            )
        await connection.run_sync(_upgrade, revision)


def check_revisions(found: Iterable[str]) -> None:
    """Raise StoreTooNew if a schema has a revision that this version does not know."""
    scripts = ScriptDirectory.from_config(_config()).walk_revisions()
    if not {script.revision for script in scripts}.issuperset(found):
        raise StoreTooNew


def _upgrade(connection: Connection, revision: str) -> None:
    found = MigrationContext.configure(connection).get_current_heads()
    check_revisions(found)
    config = _config()
    if found and found != (ScriptDirectory.from_config(config).as_revision_number(revision),):
        # Nothing is served meanwhile.
        logger.info("upgrading the store to a newer schema; a large store takes minutes")
    config.attributes["connection"] = connection
    command.upgrade(config, revision)


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    return config


def _open_sqlite(url: URL, pool: Mapping[str, int]) -> AsyncEngine:
    engine = create_async_engine(
        url,
        connect_args={
            "async_creator_fn": _connect_sqlite,
            "factory": _SqliteConnection,
            "timeout": BUSY_SECONDS,
            "isolation_level": None,
        },
        hide_parameters=True,
        **pool,
    )

    @event.listens_for(engine.sync_engine, "connect")
    def configure(connection: Any, record: ConnectionPoolEntry) -> None:
        cursor = connection.cursor()
        cursor.execute("PRAGMA page_count")
        if cursor.fetchone()[0] == 0:
            # Possible only before the first page is written; later it requires a VACUUM.
            cursor.execute("PRAGMA auto_vacuum=INCREMENTAL")
        connection.run_async(_use_wal)
        # NORMAL: a commit survives a crash of the process, but a power cut only after a checkpoint.
        for pragma in (
            "synchronous=NORMAL",
            "foreign_keys=ON",
            f"cache_size=-{_CACHE_KIB}",
            f"journal_size_limit={_MOST_WAL_BYTES}",
            # Reads the file, after which all files of the database are open.
            "schema_version",
        ):
            cursor.execute(f"PRAGMA {pragma}")
        cursor.execute("PRAGMA database_list")
        record.info[FILES] = OpenFiles.at(cursor.fetchone()[2])
        cursor.close()

    @event.listens_for(engine.sync_engine, "begin")
    def begin(connection: Connection) -> None:
        # SQLite cannot make a read transaction wait for the write lock, so it is taken first.
        writes = WRITES.items() <= connection.get_execution_options().items()
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine


class _SqliteConnection(sqlite3.Connection):
    """One whose transaction ends when it is closed.

    SQLite keeps a closed connection, and its lock on the file, while a statement of it is in use.
    That of a cancelled write is, in a cycle of references, until a garbage collection.
    """

    def close(self) -> None:
        with suppress(sqlite3.Error):
            self.rollback()
        super().close()


async def _connect_sqlite(database: str, **options: Any) -> aiosqlite.Connection:
    """Connect in a daemon thread, as SQLAlchemy does. If this fails, wait until that thread ends.

    aiosqlite does not: a thread that ends after its event loop writes a traceback. It waits for a
    second at most: a disk may never answer.
    """
    connection = aiosqlite.connect(database, **options)
    thread = connection._thread
    thread.daemon = True
    try:
        return await connection
    except BaseException:
        await asyncio.to_thread(thread.join, _CLOSE_SECONDS)
        raise


async def _use_wal(connection: aiosqlite.Connection) -> None:
    """Enable WAL, with retries: SQLite's busy timeout does not cover this statement."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + BUSY_SECONDS
    while True:
        try:
            await connection.execute_fetchall("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or loop.time() >= deadline:
                raise
            await asyncio.sleep(_LOCKED_SECONDS)
