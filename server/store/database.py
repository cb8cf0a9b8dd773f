"""One gateway's connections to a database that it may share, and what its failures mean."""

import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from sqlalchemy import ColumnElement, Double, literal_column
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError, ProgrammingError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.ext.asyncio import AsyncConnection

from server.store.base import StoreUnavailable
from server.store.engine import WRITES, migrate, open_engine, parse_url

logger = logging.getLogger(__name__)

_CLOCKS = {
    "sqlite": "(julianday('now') - 2440587.5) * 86400.0",
    "postgresql": "extract(epoch from clock_timestamp())",
}


class Database:
    """A SQLite file, or PostgreSQL.

    url: `sqlite:///FILE` or `postgresql://…`. Raises ValueError for any other. clock: the
    database's own time, in Unix seconds.
    """

    def __init__(self, url: str) -> None:
        self.url = parse_url(url)
        self.is_sqlite = self.url.get_backend_name() == "sqlite"
        self.clock: ColumnElement[float] = literal_column(
            _CLOCKS[self.url.get_backend_name()], Double
        )
        self.engine = open_engine(self.url)
        self._writer = self.engine.execution_options(**WRITES)

    async def migrate(self) -> None:
        """Bring the schema up to date. Raises StoreUnavailable."""
        async with _told():
            await migrate(self.engine)

    async def close(self) -> None:
        """Close all connections."""
        await self.engine.dispose()

    @asynccontextmanager
    async def reading(self) -> AsyncGenerator[AsyncConnection]:
        """A transaction that sees one state of the database. Raises StoreUnavailable."""
        async with _told(), self.engine.connect() as connection:
            if not self.is_sqlite:
                await connection.execution_options(isolation_level="REPEATABLE READ")
            yield connection

    @asynccontextmanager
    async def writing(self) -> AsyncGenerator[AsyncConnection]:
        """A transaction that is committed when the block ends well. Raises StoreUnavailable."""
        async with _told(), self._writer.begin() as connection:
            yield connection


@asynccontextmanager
async def _told() -> AsyncGenerator[None]:
    """A database that cannot be reached, or has no room, as StoreUnavailable; bugs as they are."""
    try:
        yield
    except (IntegrityError, ProgrammingError, DataError):
        raise
    except (DBAPIError, PoolTimeout, OSError) as error:
        logger.error("the store failed: %s", _named(error))
        raise StoreUnavailable(
            "The server's store is unavailable for now; requests with `store: false` that refer to"
            " nothing stored are still served."
        ) from error


def _named(error: Exception) -> str:
    """What failed, without the driver's message, which may quote what clients said."""
    cause = getattr(error, "orig", error)
    cause = cause.__cause__ or cause
    return str(getattr(cause, "sqlite_errorname", type(cause).__name__))
