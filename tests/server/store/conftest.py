"""Stores of every kind, each test with a fresh one; PostgreSQL is a real server of our own."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from server.store.responses.base import Store
from server.store.responses.memory import MemoryStore
from server.store.responses.sql import SqlStore
from tests.postgres import Postgres

KINDS = ("sqlite", "postgresql")


@dataclass(slots=True)
class Database:
    """An empty database, and the stores that were opened on it."""

    url: str
    opened: list[SqlStore]

    async def open(self) -> SqlStore:
        """Another gateway's store."""
        store = SqlStore(self.url)
        self.opened.append(store)
        await store.start()
        return store


@pytest.fixture(params=KINDS)
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/store.db"
    server: Postgres = request.getfixturevalue("postgres")
    return server.new_database()


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    made = Database(database_url, [])
    yield made
    for store in made.opened:
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
