"""One gateway's connections to a database, and the translation of their errors."""

import asyncio
import logging
import sqlite3
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import aiosqlite
import asyncpg
from sqlalchemy import (
    ColumnElement,
    Double,
    Executable,
    LargeBinary,
    Table,
    UpdateBase,
    cast,
    func,
    literal_column,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError, ProgrammingError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.ext.asyncio import AsyncConnection

from server.store.errors import StoreDamaged, StoreUnavailable
from server.store.open_files import FileChanged, OpenFiles
from server.store.postgres_privileges import MissingPrivileges
from server.store.sqlalchemy_engine import (
    BUSY_SECONDS,
    CONNECTIONS,
    FILES,
    POSTGRES_ERRORS,
    WRITES,
    migrate,
    open_engine,
    parse_url,
)

logger = logging.getLogger(__name__)

_CLOCKS = {
    "sqlite": "(julianday('now') - 2440587.5) * 86400.0",
    "postgresql": "extract(epoch from clock_timestamp())",
}
_FORBIDDEN = (asyncpg.InsufficientPrivilegeError, MissingPrivileges)
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_STILL_SERVED = "requests with `store: false` that refer to nothing stored are still served."


class Database:
    """A SQLite file or a PostgreSQL database.

    url: `sqlite:///FILE` or `postgresql://…`. Raises ValueError for any other. connections: the
    most that requests use at once. clock: the database's own time, in Unix seconds.
    """

    def __init__(self, url: str, connections: int = CONNECTIONS) -> None:
        self.url = parse_url(url)
        self.is_sqlite = self.url.get_backend_name() == "sqlite"
        self.clock: ColumnElement[float] = literal_column(
            _CLOCKS[self.url.get_backend_name()], Double
        )
        self.engine = open_engine(self.url, connections=connections)
        self._writer = self.engine.execution_options(**WRITES)
        # With connections of their own, because a late heartbeat ends responses.
        self._heartbeats = open_engine(self.url, connections=1).execution_options(**WRITES)
        self._turn = asyncio.Lock()
        self._files: OpenFiles | None = None
        self._reads = _Health("read")
        self._writes = _Health("write")
        self._damage: StoreDamaged | None = None

    async def migrate(self) -> None:
        """Upgrade the schema, in any time that it takes. Raises StoreUnavailable."""
        engine = self.engine if self.is_sqlite else open_engine(self.url, statement_seconds=None)
        try:
            async with self._reported(self._writes):
                await migrate(engine)
        finally:
            if engine is not self.engine:
                await engine.dispose()

    async def close(self) -> None:
        """Close all connections."""
        await self.engine.dispose()
        await self._heartbeats.dispose()

    @property
    def writes_fail(self) -> bool:
        """Whether a write failed, and none of `writes_succeed` has come since."""
        return self._writes.failure is not None

    def writes_succeed(self) -> None:
        """End a failure to write, after a check: some writes succeed on a disk that is full."""
        self._writes.succeeded()

    def check(self) -> None:
        """Raise StoreDamaged if the file is known to be damaged, or was deleted or replaced."""
        if self._damage is not None:
            raise self._damage
        if self._files is not None and not self._files.is_same_database(
            OpenFiles.at(self._files.path)
        ):
            raise self._changed()

    def insert(self, table: Table) -> sqlite.Insert | postgresql.Insert:
        """Return an INSERT of the database's dialect, which supports ON CONFLICT."""
        return sqlite.insert(table) if self.is_sqlite else postgresql.insert(table)

    def size_of(self, column: ColumnElement[str]) -> ColumnElement[int]:
        """Return how many bytes a text has; PostgreSQL finds them without reading it."""
        if self.is_sqlite:  # `octet_length` is newer than many an SQLite.
            return func.length(cast(column, LargeBinary))
        return func.octet_length(column)

    def contains(self, column: ColumnElement[str], text: str) -> ColumnElement[bool]:
        """Return whether a text occurs in another one, however long they are."""
        place: ColumnElement[int] = (func.instr if self.is_sqlite else func.strpos)(column, text)
        return place > 0

    async def first(self, query: Executable) -> Any:
        """Return the first row of a query; None if it has none. Raises StoreUnavailable."""
        async with self.reading() as connection:
            return (await connection.execute(query)).first()

    async def change(self, statement: UpdateBase) -> int:
        """Commit a statement, and return the number of its rows. Raises StoreUnavailable."""
        async with self.writing() as connection:
            return (await connection.execute(statement)).rowcount

    @asynccontextmanager
    async def reading(self) -> AsyncGenerator[AsyncConnection]:
        """Run a read transaction on one snapshot of the database. Raises StoreUnavailable."""
        async with self._reported(self._reads), self.engine.connect() as connection:
            if not self.is_sqlite:
                await connection.execution_options(isolation_level="REPEATABLE READ")
            self._opened(connection)
            yield connection
        self._reads.succeeded()

    @asynccontextmanager
    async def writing(self, *, heartbeat: bool = False) -> AsyncGenerator[AsyncConnection]:
        """Run a transaction that is committed if the block succeeds. Raises StoreUnavailable.

        heartbeat: it never waits for a connection that another transaction uses.
        A commit to a file that was deleted or replaced has failed, too.
        """
        async with self._reported(self._writes), self._turn_to_write():
            writer = self._heartbeats if heartbeat else self._writer
            async with writer.begin() as connection:
                files = self._opened(connection)
                yield connection
            # After the commit, so that a deletion before the commit is always detected.
            if files is not None:
                files.check()

    @asynccontextmanager
    async def outside_of_transactions(self) -> AsyncGenerator[aiosqlite.Connection]:
        """Provide the driver's connection to a SQLite file. Raises StoreUnavailable.

        Each statement is a transaction of its own, which some statements of SQLite require. They
        may write.
        """
        async with (
            self._reported(self._writes),
            self._turn_to_write(),
            self.engine.connect() as connection,
        ):
            driver = (await connection.get_raw_connection()).driver_connection
            assert isinstance(driver, aiosqlite.Connection)
            try:
                yield driver
            except sqlite3.Error as error:
                raise DBAPIError(None, None, error) from error

    @asynccontextmanager
    async def _turn_to_write(self) -> AsyncGenerator[None]:
        """Let the writers of this process write to a SQLite file in the order in which they came.

        SQLite's own wait for its lock tries again every 100 ms, and any later writer that tries at
        the right moment comes before. Raises TimeoutError.
        """
        if not self.is_sqlite:
            yield
            return
        async with asyncio.timeout(BUSY_SECONDS):
            await self._turn.acquire()
        try:
            yield
        finally:
            self._turn.release()

    def _opened(self, connection: AsyncConnection) -> OpenFiles | None:
        """Return the connection's open files. Raises FileChanged if they were replaced."""
        files: OpenFiles | None = connection.sync_connection.info.get(FILES)  # type: ignore[union-attr]
        if files is not None:
            if self._files is None:
                self._files = files
            if not files.is_same_database(self._files):
                raise FileChanged(files.path)
        return files

    @asynccontextmanager
    async def _reported(self, health: "_Health") -> AsyncGenerator[None]:
        """Translate errors of a database that is away, full or forbidden to StoreUnavailable.

        Errors that are bugs pass unchanged. asyncpg's errors occur when a connection is refused,
        and a ProgrammingError without a statement where the server does not know a parameter of it.
        """
        try:
            yield
        except FileChanged as error:
            health.failed("the file was deleted or replaced")
            raise self._changed() from error
        except (DBAPIError, PoolTimeout, *POSTGRES_ERRORS) as error:
            if _is_bug(error):
                raise
            cause = _cause(error)
            health.failed(_name(cause))
            if getattr(cause, "sqlite_errorcode", 0) & 0xFF in _DAMAGED:
                self._damage = self._damaged(cause)
                raise self._damage from error
            raise StoreUnavailable(
                f"The server's store is unavailable for now; {_STILL_SERVED}"
            ) from cause

    def _changed(self) -> StoreDamaged:
        return StoreDamaged(
            f"The server's store was deleted or replaced while it was open; {_STILL_SERVED}",
            advice=f"the file {self.url.database} was deleted or replaced while the server had it "
            "open; nothing more is written to it. Put it back with its -wal and -shm files, or "
            "restart the server, which then takes the file that it finds or makes a new one",
        )

    def _damaged(self, cause: BaseException) -> StoreDamaged:
        file = self.url.database
        damage = StoreDamaged(
            f"The server's store is damaged; {_STILL_SERVED}",
            advice=f"the file {file} is damaged, or no SQLite database ({cause}). Stop every "
            "server that uses it and restore a backup; or save what can be read with "
            f"`sqlite3 {file} .recover | sqlite3 NEW_FILE`; or move it away, with {file}-wal and "
            f"{file}-shm, and a new one is made",
        )
        if self._damage is None:
            logger.error("%s", damage.advice)
        return damage


class _Health:
    """Whether the last read, or write, succeeded. Logs each change, and each new failure."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self.failure: str | None = None

    def failed(self, name: str) -> None:
        """name: the error's name; the driver's message may contain contents of requests."""
        level = logging.DEBUG if name == self.failure else logging.ERROR
        logger.log(level, "the store failed to %s: %s", self._kind, name)
        self.failure = name

    def succeeded(self) -> None:
        if self.failure is not None:
            logger.warning("the store can %s again", self._kind)
            self.failure = None


def _is_bug(error: BaseException) -> bool:
    if isinstance(_cause(error), _FORBIDDEN):
        return False
    connecting = isinstance(error, ProgrammingError) and error.statement is None
    return isinstance(error, IntegrityError | ProgrammingError | DataError) and not connecting


def _name(cause: BaseException) -> str:
    """The error's name for the log; with its message where that names only tables and rights."""
    name = str(getattr(cause, "sqlite_errorname", type(cause).__name__))
    return f"{name}: {cause}" if isinstance(cause, _FORBIDDEN) else name


def _cause(error: BaseException) -> BaseException:
    """The driver's error, without SQLAlchemy's around it."""
    adapted: BaseException | None = getattr(error, "orig", None)
    return error if adapted is None else adapted.__cause__ or adapted
