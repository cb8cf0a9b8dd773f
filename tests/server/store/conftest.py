"""Stores of every kind, each test with a fresh one; PostgreSQL is a real server of our own."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import pytest
from sqlalchemy import text

from server.store.responses.base import Store
from server.store.responses.memory import MemoryStore
from server.store.responses.sql import SqlStore
from tests.postgres import Postgres

KINDS = ("sqlite", "postgresql")
WAITING = text(
    "SELECT count(*) FROM pg_stat_activity"
    " WHERE wait_event_type = 'Lock' AND datname = current_database()"
)
T = TypeVar("T")


@dataclass(slots=True)
class Database:
    """An empty database, and the stores that were opened on it."""

    url: str
    opened: list[SqlStore] = field(default_factory=list)

    async def open(self) -> SqlStore:
        """Another gateway's store."""
        store = SqlStore(self.url)
        self.opened.append(store)
        await store.start()
        return store

    async def close(self) -> None:
        """Stop all stores."""
        for store in self.opened:
            await store.stop()


async def until_blocked(
    store: SqlStore, work: Coroutine[Any, Any, T], count: int = 1
) -> asyncio.Task[T]:
    """Start `work`, and return when `count` connections wait for a lock of PostgreSQL."""
    task = asyncio.create_task(work)
    waiting = 0
    async with asyncio.timeout(60):
        while waiting < count and not task.done():
            (waiting,) = await store.database.first(WAITING)
    return task


@pytest.fixture(params=KINDS)
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/store.db"
    server: Postgres = request.getfixturevalue("postgres")
    return server.new_database()


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    made = Database(database_url)
    yield made
    await made.close()


@pytest.fixture
async def on_postgres(postgres: Postgres) -> AsyncIterator[Database]:
    made = Database(await asyncio.to_thread(postgres.new_database))
    yield made
    await made.close()


@pytest.fixture
async def on_sqlite(tmp_path: Path) -> AsyncIterator[SqlStore]:
    store = SqlStore(f"sqlite:///{tmp_path}/store.db")
    await store.start()
    yield store
    await store.stop()


@pytest.fixture(params=["memory", *KINDS])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    made: Store
    if request.param == "memory":
        made = MemoryStore()
    elif request.param == "sqlite":
        made = SqlStore(f"sqlite:///{tmp_path}/store.db")
    else:
        server: Any = request.getfixturevalue("postgres")
        made = SqlStore(await asyncio.to_thread(server.new_database))
    await made.start()
    yield made
    await made.stop()
