"""SQLite files that are deleted, replaced, damaged or full while they are open."""

import logging
import os
import resource
import shutil
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from unittest.mock import AsyncMock

import pytest
from sqlalchemy import event, insert, select, update

from server.store.errors import StoreDamaged, StoreUnavailable
from server.store.responses.sql import SqlStore
from server.store.tables import runs, secrets
from tests.server.store.responses.test_sql import limit_pages
from tests.server.store.test_contract import numbered, running, turn
from tests.stored import put


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@pytest.fixture
async def store(file: Path) -> AsyncIterator[SqlStore]:
    store = SqlStore(f"sqlite:///{file}")
    await store.start()
    await store.begin(running("one"))
    yield store
    await store.stop()


def delete(file: Path) -> None:
    file.unlink()


def delete_wal(file: Path) -> None:
    file.with_name("store.db-wal").unlink()


def delete_shared_memory(file: Path) -> None:
    file.with_name("store.db-shm").unlink()


def replace(file: Path) -> None:
    shutil.copy(file, file.with_name("copy"))
    os.replace(file.with_name("copy"), file)


@pytest.mark.parametrize("harm", [delete, delete_wal, delete_shared_memory, replace])
async def test_no_write_to_a_file_that_is_gone_is_acknowledged(
    store: SqlStore, file: Path, harm: Callable[[Path], None]
) -> None:
    await store.check()
    harm(file)
    for write in (
        store.append("one", numbered(0)),
        store.end(turn("one"), numbered(0)),
        put(store, turn("two")),
        store.heartbeat(["one"]),
    ):
        with pytest.raises(StoreDamaged) as caught:
            await write
    assert "store: false" in caught.value.message
    assert str(file) not in caught.value.message
    assert str(file) in caught.value.advice
    with pytest.raises(StoreUnavailable):
        await store.check()


async def test_a_file_that_is_put_back_is_written_again(store: SqlStore, file: Path) -> None:
    names = [f"{file}{suffix}" for suffix in ("", "-wal", "-shm")]
    for name in names:
        os.rename(name, f"{name}.away")
    with pytest.raises(StoreDamaged):
        await put(store, turn("two"))
    for name in names:
        os.rename(f"{name}.away", name)
    await store.check()
    await put(store, turn("three"))
    assert await store.get("a", "three") == turn("three")


async def test_a_new_connection_does_not_take_a_new_file_for_the_old_one(
    store: SqlStore, file: Path
) -> None:
    async with store.database.reading():
        delete(file)
        with pytest.raises(StoreDamaged):
            await store.get("a", "one")


async def test_another_servers_connections_come_and_go_unnoticed(
    store: SqlStore, file: Path
) -> None:
    other = SqlStore(f"sqlite:///{file}")
    await other.start()
    await put(other, turn("two"))
    await other.stop()
    await put(store, turn("three"))


def damage(file: Path) -> None:
    with file.open("r+b") as opened:
        opened.write(os.urandom(file.stat().st_size))


@pytest.fixture
def other_file(tmp_path: Path) -> Path:
    file = tmp_path / "other.db"
    file.write_bytes(b"no database" * 1000)
    return file


async def test_a_damaged_file_is_reported_with_advice_at_the_start(other_file: Path) -> None:
    store = SqlStore(f"sqlite:///{other_file}")
    with pytest.raises(StoreDamaged) as caught:
        await store.start()
    assert "restore a backup" in caught.value.advice
    await store.stop()


async def test_a_file_that_is_damaged_at_run_time_is_reported_with_advice(
    store: SqlStore, file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await store.end(turn("one"), numbered(0))
    async with store.database.reading() as connection:
        await connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
    await store.database.engine.dispose()
    damage(file)
    for _ in range(2):
        with pytest.raises(StoreDamaged):
            await store.get("a", "one")
    assert caplog.text.count("restore a backup") == 1
    with pytest.raises(StoreDamaged):
        await store.check()


async def test_a_file_is_not_ready_once_a_damaged_part_was_read(
    store: SqlStore, file: Path
) -> None:
    await store.end(turn("one"), numbered(0))
    async with store.database.reading() as connection:
        await connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
        query = "SELECT rootpage FROM sqlite_master WHERE name = 'responses'"
        page = (await connection.exec_driver_sql(query)).scalar_one()
    await store.database.engine.dispose()
    with file.open("r+b") as opened:
        opened.seek(4096 * (page - 1))
        opened.write(b"\xff" * 4096)
    await store.check()
    with pytest.raises(StoreDamaged):
        await store.get("a", "one")
    with pytest.raises(StoreDamaged):
        await store.check()


async def test_a_full_file_is_checked_by_writing_until_there_is_room(
    store: SqlStore, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    with full_disk():
        with pytest.raises(StoreUnavailable):
            await put(store, turn("two"))
        with pytest.raises(StoreUnavailable):
            await store.check()
    assert "can write again" not in caplog.text
    await store.check()
    assert not store.database.writes_fail
    assert "can write again" in caplog.text


async def test_a_file_with_room_for_a_small_row_only_is_full(
    store: SqlStore, caplog: pytest.LogCaptureFixture
) -> None:
    await fill(store)
    for number in range(3):
        with suppress(StoreUnavailable):
            await store.cancel(f"a small write {number}")
        with pytest.raises(StoreUnavailable):
            await store.check()
    assert "can write again" not in caplog.text


async def test_no_response_begins_in_a_file_with_room_for_a_small_row_only(
    store: SqlStore,
) -> None:
    await fill(store)
    with pytest.raises(StoreUnavailable):
        await store.begin(turn("two"))


async def test_a_response_begins_as_soon_as_there_is_room(store: SqlStore) -> None:
    with full_disk(), pytest.raises(StoreUnavailable):
        await store.begin(turn("two"))
    await store.begin(turn("three"))
    assert not store.database.writes_fail


async def test_a_heartbeat_renews_its_runs_although_no_large_row_fits(
    store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(store)
    # Page limits are those of a connection, and heartbeats have one of their own.
    monkeypatch.setattr(store, "_check_writes", AsyncMock(side_effect=StoreUnavailable("full")))
    async with store.database.engine.begin() as connection:
        await connection.execute(update(runs).values(beat_at=0))
    with pytest.raises(StoreUnavailable):
        await store.heartbeat(["one"])
    async with store.database.reading() as connection:
        assert (await connection.execute(select(runs.c.beat_at))).scalar_one() > 0


async def fill(store: SqlStore) -> None:
    """Write until there is no room for a large response; small ones still fit."""
    await limit_pages(store)
    with suppress(StoreUnavailable):
        for number in range(100):
            await put(store, turn(f"big{number}", text=os.urandom(50_000).hex()))
    await store.database.change(insert(secrets).values(name="small", value="fits"))


async def test_a_heartbeat_without_runs_finds_room_only_where_there_is_some(
    store: SqlStore,
) -> None:
    with full_disk():
        for attempt in (put(store, turn("two")), store.heartbeat(()), store.heartbeat(())):
            with pytest.raises(StoreUnavailable):
                await attempt
    await store.heartbeat(())
    assert not store.database.writes_fail


@contextmanager
def full_disk() -> Iterator[None]:
    """No file of this process can be written in the block."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


async def test_a_file_that_can_only_be_read_is_not_ready(store: SqlStore) -> None:
    @event.listens_for(store.database.engine.sync_engine, "begin")
    def forbid(connection: object) -> None:
        if forbidden:
            connection.exec_driver_sql("PRAGMA query_only=ON")  # type: ignore[attr-defined]

    forbidden = True
    with pytest.raises(StoreUnavailable):
        await put(store, turn("two"))
    with pytest.raises(StoreUnavailable):
        await store.check()
