"""A SQLite file gives back what it no longer needs."""

import asyncio
import logging
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import pytest
from sqlalchemy import delete

from server.store import vacuum
from server.store.errors import StoreUnavailable
from server.store.responses.sql import SqlStore
from server.store.tables import responses
from tests.server.store.test_contract import turn
from tests.stored import put

OLD = -1.0
TEXT = "words " * 5000


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@pytest.fixture
async def store(file: Path) -> AsyncIterator[SqlStore]:
    store = SqlStore(f"sqlite:///{file}")
    await store.start()
    yield store
    await store.stop()


@pytest.fixture
def old_file(file: Path) -> Path:
    """One that an earlier version made."""
    with closing(sqlite3.connect(file)) as made:
        made.execute("CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL)")
    return file


def mode(file: Path) -> int:
    with closing(sqlite3.connect(file)) as connection:
        return int(connection.execute("PRAGMA auto_vacuum").fetchone()[0])


def size(file: Path) -> int:
    return file.stat().st_size


async def fill(store: SqlStore, count: int = 100) -> None:
    for number in range(count):
        await put(store, turn(f"r{number}", text=TEXT))
    async with store.database.outside_of_transactions() as connection:
        await connection.execute_fetchall("PRAGMA wal_checkpoint(PASSIVE)")


async def test_after_a_sweep_the_file_is_smaller(store: SqlStore, file: Path) -> None:
    empty = size(file)
    await fill(store)
    full = size(file)
    assert full > empty + 100 * len(TEXT)
    assert await store.sweep(OLD) == 100
    assert size(file) < full // 4


async def test_the_file_shrinks_in_short_steps_between_which_others_write(
    store: SqlStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(vacuum, "STEP_PAGES", 50)
    await fill(store)
    free: list[int] = []

    async def pause(_: float) -> None:
        await put(store, turn(f"between_{len(free)}"))
        async with store.database.outside_of_transactions() as connection:
            ((count,),) = await connection.execute_fetchall("PRAGMA freelist_count")
        free.append(count)

    monkeypatch.setattr("server.store.vacuum.asyncio.sleep", pause)
    async with store.database.writing() as connection:
        await connection.execute(delete(responses))
    await vacuum.shrink(store.database)
    assert len(free) > 5
    assert all(0 < before - after <= 55 for before, after in pairwise(free[:-1]))
    assert "pages of the store's file" in caplog.text


async def test_a_file_that_cannot_shrink_is_left(
    old_file: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(vacuum, "MOST_AT_ONCE", 0)
    store = SqlStore(f"sqlite:///{old_file}")
    await store.start()
    assert "VACUUM" in caplog.text
    await fill(store)
    assert await store.sweep(OLD) == 100
    await store.stop()
    assert mode(old_file) == 0


async def test_a_small_file_of_an_earlier_version_learns_to_shrink(
    old_file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = SqlStore(f"sqlite:///{old_file}")
    await store.start()
    await put(store, turn("one"))
    assert await store.get("a", "one") == turn("one")
    await store.stop()
    assert mode(old_file) == 2
    assert caplog.text == ""


async def test_a_file_that_another_writes_is_converted_later(
    old_file: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("server.store.sqlalchemy_engine.BUSY_SECONDS", 0)
    store = SqlStore(f"sqlite:///{old_file}")
    await store.database.migrate()
    with closing(sqlite3.connect(old_file)) as other:
        other.execute("BEGIN IMMEDIATE")
        await vacuum.allow(store.database)
        assert "until a server starts alone" in caplog.text
        with pytest.raises(StoreUnavailable):
            await put(store, turn("one"))
    await vacuum.allow(store.database)
    await store.stop()
    assert mode(old_file) == 2


async def test_a_new_file_can_shrink_without_being_written_anew(
    store: SqlStore, file: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(vacuum, "MOST_AT_ONCE", 0)
    caplog.set_level(logging.INFO)
    assert await asyncio.to_thread(mode, file) == 2
    await vacuum.allow(store.database)
    await vacuum.shrink(store.database)
    assert caplog.text == ""


async def test_a_file_that_sqlite_alone_can_name_is_left(old_file: Path) -> None:
    store = SqlStore(f"sqlite:///file:{old_file}?uri=true")
    await store.start()
    await store.stop()
    assert mode(old_file) == 0
