"""What only databases do: several gateways, old age, little room, lost connections."""

import asyncio
import logging
import sqlite3
import threading
import tracemalloc
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextlib import asynccontextmanager, closing
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Connection, event, literal, text
from sqlalchemy.ext.asyncio import AsyncConnection

from server.persistence.maintenance import (
    HEARTBEAT_SECONDS,
    LATE_SECONDS,
    LOOK_SECONDS,
    SILENT_SECONDS,
)
from server.store import codec, rows
from server.store.conversations.base import Conversation
from server.store.errors import PreviousNotFound, RunLost, StoreUnavailable
from server.store.lists import ListQuery
from server.store.postgres_listener import LOCKLESS_SECONDS
from server.store.responses.base import CANCELS
from server.store.responses.sql import SqlStore
from server.store.sqlalchemy_engine import migrate, open_engine, parse_url
from server.store.tables import metadata
from tests.postgres import Postgres
from tests.server.store.conftest import Database
from tests.server.store.test_contract import THOUGHT, followed, item, numbered, running, turn
from tests.stored import put

SILENT = -1.0
"""Any gateway counts as silent."""


async def adopted(store: SqlStore, running: Collection[str] = ()) -> list[str]:
    """The runs that a gateway takes over after two looks at them."""
    assert await store.take_over_orphans(SILENT, running) == []
    return sorted(await store.take_over_orphans(SILENT, running))


@pytest.fixture
def own_postgres(start_postgres: Callable[[], Postgres]) -> Postgres:
    return start_postgres()


async def test_stored_objects_outlive_the_gateway(database: Database) -> None:
    first = await database.open()
    one = turn("one")
    await put(first, one, numbered(0))
    await first.stop()
    second = await database.open()
    assert await second.get("a", "one") == one
    ledger = await second.ledger("a", "one")
    assert ledger is not None
    assert ledger.events == tuple(numbered(0))


async def test_the_time_is_that_of_the_database_as_of_the_last_heartbeat(
    database: Database,
) -> None:
    store = SqlStore(database.url)
    database.opened.append(store)
    store.database.clock = literal(0.0)
    await store.start()
    assert 0 <= store.now() < 1000
    store.database.clock = literal(1000.0)
    await store.heartbeat(())
    assert 1000 <= store.now() < 2000


async def test_the_steps_make_the_tables_that_the_code_has(database_url: str) -> None:
    def differences(connection: Connection) -> Any:
        return compare_metadata(MigrationContext.configure(connection), metadata)

    engine = open_engine(parse_url(database_url))
    await migrate(engine)
    async with engine.connect() as connection:
        assert await connection.run_sync(differences) == []
    await engine.dispose()


async def test_gateways_may_start_at_once(database: Database) -> None:
    await asyncio.gather(*(database.open() for _ in range(4)))
    await asyncio.gather(*(put(store, turn(f"r{n}")) for n, store in enumerate(database.opened)))
    assert await database.opened[0].get("a", "r3") == turn("r3")


async def test_a_gateway_waits_for_another_that_makes_the_file(tmp_path: Path) -> None:
    store = SqlStore(f"sqlite:///{tmp_path}/store.db")
    other = sqlite3.connect(f"{tmp_path}/store.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")

    @event.listens_for(store.database.engine.sync_engine, "connect", insert=True)
    def connected(*_: object) -> None:
        asyncio.get_running_loop().call_later(0.1, other.close)

    await store.start()
    await store.stop()


async def test_a_file_that_stays_locked_is_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("server.store.sqlalchemy_engine.BUSY_SECONDS", 0)
    store = SqlStore(f"sqlite:///{tmp_path}/store.db")
    with closing(sqlite3.connect(f"{tmp_path}/store.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreUnavailable):
            await store.start()
    await store.stop()


async def test_only_runs_of_silent_gateways_are_adopted(database: Database) -> None:
    first, second = await database.open(), await database.open()
    await first.begin(running("one"))
    for _ in range(2):
        assert await second.take_over_orphans(60) == []
    assert await adopted(second) == ["one"]
    assert await first.heartbeat(["one"]) == frozenset()


async def test_a_gateway_that_goes_on_is_not_silent_for_a_clock_that_was_set_forward(
    database: Database,
) -> None:
    first, second = await database.open(), await database.open()
    for name in ("one", "two"):
        await first.begin(running(name))
    for _ in range(3):
        assert await second.take_over_orphans(SILENT) == []
        await first.heartbeat(["one", "two"])
    await second.take_over_orphans(SILENT)
    await first.heartbeat(["two"])
    assert await second.take_over_orphans(SILENT) == ["one"]


async def test_what_runs_here_is_not_adopted_however_late_it_is(database: Database) -> None:
    store = await database.open()
    await store.begin(running("one"))
    await store.begin(running("two"))
    assert await adopted(store, ["two"]) == ["one"]
    await store.append("two", numbered(0))


async def test_a_gateway_that_lost_its_run_can_no_more_write_to_it(database: Database) -> None:
    first, second = await database.open(), await database.open()
    await first.begin(running("one"))
    assert await adopted(second) == ["one"]
    assert await second.taken_over("one") == running("one")
    with pytest.raises(RunLost):
        await first.append("one", numbered(0))
    with pytest.raises(RunLost):
        await first.end(turn("one"), numbered(0))
    await second.end(turn("one", status="failed"), numbered(0))
    shown = await first.show("a", "one")
    assert shown is not None
    assert shown["status"] == "failed"


async def test_of_gateways_that_adopt_at_once_one_gets_the_run(database: Database) -> None:
    first = await database.open()
    for number in range(10):
        await first.begin(running(f"run_{number}"))
    others = [await database.open() for _ in range(3)]
    async with first.database.writing() as connection:
        await connection.exec_driver_sql("UPDATE runs SET beat_at = 0")
    taken: Sequence[Sequence[str]] = ()
    for _ in range(2):
        taken = await asyncio.gather(*(store.take_over_orphans(3600) for store in others))
    names = [name for each in taken for name in each]
    assert len(names) == len(set(names)) == 10


async def test_a_gateway_that_stands_still_in_a_transaction_keeps_no_run(
    on_postgres: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("server.store.sqlalchemy_engine._FROZEN_SECONDS", 0.1)
    first, second = await on_postgres.open(), await on_postgres.open()
    await first.begin(running("one"))

    async def stand_still() -> None:
        async with first.database.writing() as connection:
            await connection.exec_driver_sql("UPDATE runs SET beat_at = 0")
            async with asyncio.timeout(10):
                assert await adopted(second) == ["one"]

    with pytest.raises(StoreUnavailable):
        await stand_still()
    with pytest.raises(RunLost):
        await first.append("one", numbered(0))


async def test_a_deleted_run_is_adopted_too(database: Database) -> None:
    first, second = await database.open(), await database.open()
    await first.begin(running("one"))
    await first.delete("a", "one")
    assert await adopted(second) == ["one"]
    assert await second.taken_over("one") == running("one")
    await second.end(turn("one"), numbered(0))
    assert await second.get("a", "one") is None


async def test_nothing_is_left_of_a_response_that_was_deleted_while_it_was_made(
    database: Database,
) -> None:
    store = await database.open()
    one = turn("one")
    await put(store, one)
    await store.begin(running("two", previous=one))
    await store.append("two", numbered(0))
    for name in ("one", "two"):
        await store.delete("a", name)
    await store.end(turn("two", previous=one, status="cancelled"), numbered(0, 1))
    for table in ("responses", "items", "events", "runs"):
        assert await _rows(store, table) == 0


async def test_a_response_is_deleted_and_cancelled_in_one_transaction(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await database.open()
    await store.begin(running("one"))
    writing = Mock(wraps=store.database.writing)
    monkeypatch.setattr(store.database, "writing", writing)
    assert not await store.delete("b", "one")
    assert await store.cancelled() == frozenset()
    writing.reset_mock()
    assert await store.delete("a", "one")
    assert await store.cancelled() == {"one"}
    assert writing.call_count == 1


async def test_a_run_is_taken_over_beside_one_that_cannot_be_read(database: Database) -> None:
    first, second = await database.open(), await database.open()
    for name in ("one", "two"):
        await first.begin(running(name))
    async with first.database.writing() as connection:
        await connection.exec_driver_sql("UPDATE responses SET body = 'x' WHERE id = 'one'")
    assert await adopted(second) == ["one", "two"]
    assert await second.taken_over("two") == running("two")


async def test_a_response_that_is_taken_over_is_read_without_its_history(
    database: Database,
) -> None:
    first, second = await database.open(), await database.open()
    one = turn("one")
    await put(first, one)
    await first.begin(replace(running("two", previous=one), tool_state={"python": {"a": 1}}))
    assert await adopted(second) == ["two"]
    expected = replace(running("two", previous=one), history=(), tool_state={"python": {"a": 1}})
    assert await second.taken_over("two") == expected


async def test_a_cancel_reaches_the_gateway_that_runs(database: Database) -> None:
    first, second = await database.open(), await database.open()
    await first.begin(running("one"))
    with first.listen(CANCELS) as changes:
        await second.cancel("one")
        while not (cancelled := await first.heartbeat(["one"])):
            await changes.wait()
    assert cancelled == {"one"}


async def test_events_reach_readers_at_other_gateways(database: Database) -> None:
    first, second = await database.open(), await database.open()
    await first.begin(running("one"))
    following = asyncio.create_task(followed(second, "one"))
    await first.append("one", numbered(0))
    await first.append("one", numbered(1, 2))
    await first.end(turn("one"), numbered(0, 1, 2, 3))
    assert await following == numbered(0, 1, 2, 3)


async def test_what_is_old_is_forgotten_and_what_is_continued_lives_on(database: Database) -> None:
    store = await database.open()
    one = turn("one")
    await put(store, one)
    await store.begin(running("busy"))
    await put(store, turn("lone"))
    two = turn("two", previous=one)
    assert await store.sweep(3600) == 0
    assert await store.sweep(SILENT) == 2
    assert await store.get("a", "one") is None
    assert await store.get("a", "busy") == running("busy")
    with pytest.raises(PreviousNotFound):
        await put(store, two)


async def test_a_swept_link_stays_as_long_as_something_hangs_on_it(database: Database) -> None:
    store = await database.open()
    one = turn("one")
    two = running("two", previous=one)
    await put(store, one)
    await store.begin(two)
    assert await store.sweep(SILENT) == 1
    assert await store.get("a", "one") is None
    assert await store.get("a", "two") == two
    await store.end(two, numbered(0))
    assert await store.sweep(SILENT) == 1
    assert await _rows(store, "responses") == 0
    assert await _rows(store, "items") == 0
    assert await _rows(store, "events") == 0


async def test_a_chain_costs_no_more_for_each_turn(database: Database) -> None:
    store = await database.open()
    last = None
    for number in range(5):
        last = turn(f"turn_{number}", previous=last)
        await put(store, last)
    assert await _rows(store, "items") == 10


async def test_an_item_that_comes_back_again_and_again_is_read_once(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await database.open()
    one = turn("one")
    await put(store, one)
    for number in range(5):
        await put(store, turn(f"turn_{number}", input_items=one.items))
    stored_item = Mock(wraps=rows.stored_item)
    monkeypatch.setattr(rows, "stored_item", stored_item)
    found = await store.items("a", ["in_one", "out_one"])
    assert found == {"in_one": one.input[0], "out_one": one.output[0]}
    assert stored_item.call_count == 2


async def test_nothing_is_deflated_while_others_wait_to_write(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await database.open()
    open_now = deflated = 0
    begin = store.database.writing

    @asynccontextmanager
    async def writing() -> AsyncIterator[AsyncConnection]:
        nonlocal open_now
        async with begin() as connection:
            open_now += 1
            yield connection
        open_now -= 1

    def watched(deflate: Callable[..., Any]) -> Callable[..., Any]:
        def deflate_here(*arguments: Any) -> Any:
            nonlocal deflated
            assert not open_now
            deflated += 1
            return deflate(*arguments)

        return deflate_here

    monkeypatch.setattr(store.database, "writing", writing)
    monkeypatch.setattr(zlib, "compress", watched(zlib.compress))  # the tokens of messages
    monkeypatch.setattr(zlib, "compressobj", watched(zlib.compressobj))  # events
    thoughts = (item("in_one", THOUGHT),)
    await put(store, turn("one", input_items=thoughts), numbered(0))
    await store.begin(running("two", input_items=thoughts))
    await store.append("two", numbered(0))
    await store.end(turn("two", input_items=thoughts), numbered(0))
    assert deflated == 7


async def test_long_messages_are_compressed_on_a_thread(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await database.open()
    pack_tokens = codec.pack_tokens
    done_by: list[int] = []

    def watched(tokens: tuple[int, ...] | None) -> bytes | None:
        done_by.append(threading.get_ident())
        return pack_tokens(tokens)

    monkeypatch.setattr(codec, "pack_tokens", watched)
    await put(store, turn("one", made=(item("out", replace(THOUGHT, tokens=(1,) * 1000)),)))
    assert len(done_by) == 1
    assert done_by[0] != threading.get_ident()


async def test_a_long_history_is_read_on_a_thread(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await database.open()
    many = tuple(item(f"msg_{n}", THOUGHT) for n in range(100))
    one = turn("one", input_items=many)
    await put(store, one)
    load_message = codec.load_message
    done_by: set[int] = set()

    def watched(*args: Any) -> Any:
        done_by.add(threading.get_ident())
        return load_message(*args)

    monkeypatch.setattr(codec, "load_message", watched)
    assert await store.get("a", "one") == one
    assert set(await store.items("a", [each.item["id"] for each in many])) > {"msg_99"}
    assert done_by
    assert threading.get_ident() not in done_by


async def test_only_the_items_of_a_page_are_read(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await database.open()
    many = [item(f"msg_{n}", THOUGHT) for n in range(100)]
    await put(store, turn("one", input_items=tuple(many)))
    await store.conversations.create(Conversation("a", "conv_1", 1, "2026-01-31", {}), many)
    load, loaded = codec.load, Mock()

    def watched(text: str) -> dict[str, Any]:
        loaded()
        return load(text)

    monkeypatch.setattr(codec, "load", watched)
    await store.input_items("a", "one", ListQuery(3, "desc"))
    await store.conversations.page_of_items("a", "conv_1", ListQuery(3, "desc"))
    assert loaded.call_count <= 2 * 3 + 1  # and the conversation's metadata


async def test_a_large_response_with_many_items_is_read_once(database: Database) -> None:
    store = await database.open()
    made = tuple(item(f"out_{n}") for n in range(200))
    one = turn("one", made=made, instructions="x" * 1_000_000)
    await put(store, one)
    tracemalloc.start()
    try:
        assert await store.show("a", "one") == one.response
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 50_000_000


async def test_no_row_has_so_many_events_that_reading_it_takes_long(database: Database) -> None:
    store = await database.open()
    await put(store, turn("one"), numbered(*range(2500)))
    assert await _rows(store, "events") == 3


async def test_a_file_that_cannot_be_made_is_an_unavailable_store(tmp_path: Path) -> None:
    store = SqlStore(f"sqlite:///{tmp_path}/no/such/folder/store.db")
    before = set(threading.enumerate())
    with pytest.raises(StoreUnavailable):
        await store.start()
    await store.stop()
    # aiosqlite tells the loop of a failed connection's end, and waits for nobody.
    for thread in set(threading.enumerate()) - before:
        if "_connection_worker" in thread.name:
            await asyncio.to_thread(thread.join)


async def test_a_full_disk_is_an_unavailable_store(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = SqlStore(f"sqlite:///{tmp_path}/store.db")
    await store.start()
    stored = turn("stored")
    await put(store, stored)
    await limit_pages(store)
    with pytest.raises(StoreUnavailable) as caught:
        await put(store, turn("big", instructions="secret " * 200_000))
    assert (caught.value.status, caught.value.code) == (503, "store_unavailable")
    assert "SQLITE_FULL" in caplog.text
    assert "secret" not in caplog.text + str(caught.value.__cause__)
    assert await store.get("a", "stored") == stored
    assert await store.get("a", "big") is None
    await store.stop()


async def test_a_file_that_another_locks_is_an_unavailable_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("server.store.sqlalchemy_engine.BUSY_SECONDS", 0.05)
    store = SqlStore(f"sqlite:///{tmp_path}/store.db")
    await store.start()
    other = sqlite3.connect(tmp_path / "store.db")
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreUnavailable):
        await put(store, turn("one"))
    other.close()
    await put(store, turn("one"))
    await store.stop()


async def test_a_file_that_another_locks_is_looked_at_for_cancels_and_for_silent_gateways(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("server.store.sqlalchemy_engine.BUSY_SECONDS", 0)
    store = SqlStore(f"sqlite:///{tmp_path}/store.db")
    await store.start()
    for name in ("one", "two"):
        await store.begin(running(name))
    await store.cancel("one")
    with closing(sqlite3.connect(tmp_path / "store.db")) as other:
        other.execute("BEGIN IMMEDIATE")
        assert await store.cancelled() == {"one"}
        assert await store.take_over_orphans(60) == []
        assert await store.take_over_from_ended() == []
    await store.stop()


async def test_a_gateway_looks_for_cancels_of_its_own_runs_alone(database: Database) -> None:
    first, second = await database.open(), await database.open()
    await first.begin(running("one"))
    await first.cancel("one")
    assert await first.cancelled() == {"one"}
    assert await second.cancelled() == frozenset()


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A gateway has ended as soon as its lock is missing."""
    for name in ("_START_SECONDS", "LOCKLESS_SECONDS"):
        monkeypatch.setattr(f"server.store.postgres_listener.{name}", 0.0)


async def until_adopted(look: Callable[[], Awaitable[Sequence[Any]]]) -> Sequence[Any]:
    """What `look` finds first. PostgreSQL notices the end of a connection a moment later."""
    async with asyncio.timeout(60):
        while not (found := await look()):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    return found


async def until_unlocked(store: SqlStore) -> None:
    """Wait until one gateway's lock is left."""
    locks = text("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'")

    async def one_is_left() -> Sequence[Any]:
        async with store.database.reading() as connection:
            return [1] if await connection.scalar(locks) == 1 else []

    await until_adopted(one_is_left)


@pytest.mark.usefixtures("at_once")
async def test_a_gateway_without_a_connection_has_ended(on_postgres: Database) -> None:
    first, second = await on_postgres.open(), await on_postgres.open()
    for name in ("one", "two"):
        await first.begin(running(name))
    assert await second.take_over_from_ended() == []
    await first.stop()
    adopted = await until_adopted(second.take_over_from_ended)
    assert sorted(adopted) == ["one", "two"]
    assert await second.take_over_from_ended() == []


@pytest.mark.usefixtures("at_once")
async def test_who_cannot_look_for_locks_adopts_nothing(on_postgres: Database) -> None:
    first, second = await on_postgres.open(), await on_postgres.open()
    await first.begin(running("one"))
    await first.stop()

    async def look_twice() -> Sequence[Sequence[Any]]:
        # The connection takes one statement at a time, and refuses the second.
        looks = await asyncio.gather(*(second.take_over_from_ended() for _ in range(2)))
        return looks if any(looks) else []

    looks = await until_adopted(look_twice)
    assert sorted(len(adopted) for adopted in looks) == [0, 1]


@pytest.mark.parametrize("name", ["_START_SECONDS", "LOCKLESS_SECONDS"])
@pytest.mark.usefixtures("at_once")
async def test_a_gateway_gets_the_time_to_connect_again(
    on_postgres: Database, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(f"server.store.postgres_listener.{name}", 1e6)
    first, second = await on_postgres.open(), await on_postgres.open()
    await first.begin(running("one"))
    await first.stop()
    assert await second.take_over_from_ended() == []


@pytest.mark.usefixtures("at_once")
async def test_a_gateway_that_sends_heartbeats_has_not_ended_although_it_lost_its_lock(
    on_postgres: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("server.store.postgres_listener.LOCKLESS_SECONDS", 600.0)
    first, second = await on_postgres.open(), await on_postgres.open()
    for name in ("one", "two"):
        await first.begin(running(name))
    async with first.database.writing() as connection:
        await connection.exec_driver_sql("UPDATE runs SET beat_at = 0")
    await first.append("two", numbered(0))
    await first._peers.stop()
    await until_unlocked(second)
    assert await second.take_over_from_ended() == []
    async with first.database.writing() as connection:
        await connection.exec_driver_sql("UPDATE runs SET beat_at = 0")
    assert sorted(await second.take_over_from_ended()) == ["one", "two"]


def test_a_gateway_sends_a_heartbeat_between_two_looks_at_its_runs() -> None:
    assert HEARTBEAT_SECONDS < LOOK_SECONDS < SILENT_SECONDS


def test_a_gateway_without_its_lock_has_time_for_a_heartbeat() -> None:
    assert HEARTBEAT_SECONDS < LOCKLESS_SECONDS <= LATE_SECONDS


@pytest.mark.usefixtures("at_once")
async def test_a_gateway_of_an_earlier_version_holds_no_lock(on_postgres: Database) -> None:
    store = await on_postgres.open()
    await store.begin(running("one"))
    async with store.database.writing() as connection:
        await connection.exec_driver_sql("UPDATE runs SET gateway = 'gateway_1'")
    assert await store.take_over_from_ended() == []


@pytest.mark.usefixtures("at_once")
async def test_after_an_outage_no_gateway_has_ended(own_postgres: Postgres) -> None:
    database = Database(await asyncio.to_thread(own_postgres.new_database))
    first, second = await database.open(), await database.open()
    await first.begin(running("one"))
    await first.stop()
    with second.listen("reconnected") as changes:
        await asyncio.to_thread(own_postgres.kill)
        assert await second.take_over_from_ended() == []
        await asyncio.to_thread(own_postgres.start)
        await changes.wait()
    assert await second.take_over_from_ended() == []
    await database.close()


async def test_a_lost_server_is_an_unavailable_store_until_it_is_back(
    own_postgres: Postgres, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    store = SqlStore(await asyncio.to_thread(own_postgres.new_database))
    await store.start()
    await put(store, turn("one"))
    await asyncio.to_thread(own_postgres.kill)
    for attempt in (put(store, turn("two")), store.get("a", "one"), store.heartbeat([])):
        with pytest.raises(StoreUnavailable):
            await attempt
    await asyncio.to_thread(own_postgres.start)
    assert await store.get("a", "one") == turn("one")
    await put(store, turn("two"))
    await store.stop()


async def test_notices_are_heard_again_when_the_server_is_back(own_postgres: Postgres) -> None:
    database = Database(await asyncio.to_thread(own_postgres.new_database))
    first, second = await database.open(), await database.open()
    await first.begin(running("one"))
    await asyncio.to_thread(own_postgres.kill)
    await asyncio.to_thread(own_postgres.start)
    with first.listen(CANCELS) as changes:
        await second.cancel("one")
        while not await first.heartbeat(["one"]):
            await changes.wait()
    await database.close()


@pytest.mark.parametrize("url", ["", "x", "mysql://host/db", "sqlite://", "sqlite+pysqlite:///x"])
def test_other_urls_are_refused(url: str) -> None:
    with pytest.raises(ValueError, match="sqlite:///"):
        SqlStore(url)


async def _rows(store: SqlStore, table: str) -> int:
    async with store.database.reading() as connection:
        return int((await connection.exec_driver_sql(f"SELECT count(*) FROM {table}")).scalar_one())


async def limit_pages(store: SqlStore) -> None:
    """Let the file grow no more, on all of the store's connections."""
    engine = store.database.engine

    async with engine.connect() as connection:
        pages = (await connection.exec_driver_sql("PRAGMA page_count")).scalar_one()
    await engine.dispose()

    @event.listens_for(engine.sync_engine, "connect")
    def limit(connection: Any, _: object) -> None:
        connection.cursor().execute(f"PRAGMA max_page_count={pages}")
