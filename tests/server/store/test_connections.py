"""Who waits for a connection, or for a lock of a database, and who does not."""

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
from sqlalchemy import update

from server import threads
from server.store.conversations.base import Conversation
from server.store.errors import StoreUnavailable
from server.store.lists import ListQuery
from server.store.responses.sql import SqlStore
from server.store.tables import chat_completions
from server.threads import Slots
from tests.server.store.chat_completions.test_base import stored
from tests.server.store.conftest import Database
from tests.server.store.test_contract import item, turn
from tests.stored import put

CONNECTIONS = 15
"""The most that SQLAlchemy's pool opens."""
PAGE = ListQuery(1, "asc")
MANY = tuple(item(f"i{number}") for number in range(501))


class Busy:
    """The threads that compute, while they are busy."""

    def __init__(self, slots: Slots, end: threading.Event) -> None:
        self._slots = slots
        self.end = end

    async def wait(self, *work: Awaitable[Any]) -> list[asyncio.Task[Any]]:
        """Begin the work, and return once all of it waits for a thread."""
        begun = [asyncio.ensure_future(each) for each in work]
        async with asyncio.timeout(60):
            while len(self._slots._waiting) < len(begun):
                assert not any(each.done() for each in begun)
                await asyncio.sleep(0)
        return begun


@asynccontextmanager
async def busy_threads(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Busy]:
    slots, end = Slots(1), threading.Event()
    monkeypatch.setitem(threads._computing, threads.Size.MEDIUM, slots)
    holder = asyncio.create_task(slots.run(end.wait))
    await asyncio.sleep(0)
    try:
        yield Busy(slots, end)
    finally:
        end.set()
        await holder


async def with_everything(database: Database) -> SqlStore:
    """A store with objects that are read on a thread."""
    store = await database.open()
    await put(store, turn("long", input_items=MANY))
    await put(store, turn("next", previous=turn("long", input_items=MANY)))
    await store.conversations.create(Conversation("a", "conv", 1, "2026-01-31", {}), MANY)
    await store.chat_completions.put(stored("a", text="x" * 100_000))
    return store


@pytest.mark.parametrize("kind", ["get", "input_items", "conversation"])
async def test_others_read_while_many_wait_for_a_thread(
    database: Database, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await with_everything(database)

    def read() -> Awaitable[Any]:
        if kind == "get":
            return store.get("a", "next")
        if kind == "input_items":
            return store.input_items("a", "next", PAGE)
        return store.conversations.page_of_items("a", "conv", PAGE)

    async with busy_threads(monkeypatch) as busy:
        waiting = await busy.wait(*(read() for _ in range(CONNECTIONS)))
        assert await store.conversations.get("a", "conv") is not None
        busy.end.set()
        assert all(await asyncio.gather(*waiting))


async def test_others_write_while_a_change_of_metadata_waits_for_a_thread(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await with_everything(database)
    body = '{"id": "a", "metadata": {}, "changed": true}'
    async with busy_threads(monkeypatch) as busy:
        (change,) = await busy.wait(store.chat_completions.annotate("ann", "a", {"k": "v"}))
        async with store.database.writing() as connection:
            await connection.execute(update(chat_completions).values(body=body))
        busy.end.set()
        await change
    assert await change == {"id": "a", "metadata": {"k": "v"}, "changed": True}
    assert await store.chat_completions.get("ann", "a") == await change


async def test_a_heartbeat_needs_no_connection_of_others(database: Database) -> None:
    store = await database.open()
    async with AsyncExitStack() as used:
        for _ in range(CONNECTIONS):
            await used.enter_async_context(store.database.reading())
        assert await store.heartbeat(()) == frozenset()


async def test_others_read_a_file_while_many_wait_to_write(on_sqlite: SqlStore) -> None:
    claim = on_sqlite.approvals.claim
    async with on_sqlite.database.writing():
        waiting = [asyncio.create_task(claim("a", str(n))) for n in range(CONNECTIONS)]
        await asyncio.sleep(0)
        assert not await on_sqlite.approvals.answered("a", "0")
    assert all(await asyncio.gather(*waiting))


async def test_a_file_is_written_in_the_order_in_which_its_writers_came(
    on_sqlite: SqlStore,
) -> None:
    written: list[int] = []

    async def write(number: int) -> None:
        await on_sqlite.approvals.claim("a", str(number))
        written.append(number)

    async with on_sqlite.database.writing():
        waiting = [asyncio.create_task(write(number)) for number in range(CONNECTIONS)]
        await asyncio.sleep(0)
    await asyncio.gather(*waiting)
    assert written == sorted(written)


async def test_a_write_that_gets_no_turn_in_time_finds_the_store_unavailable(
    on_sqlite: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("server.store.database.BUSY_SECONDS", 0)
    async with on_sqlite.database.writing():
        with pytest.raises(StoreUnavailable):
            await on_sqlite.approvals.claim("a", "0")
    assert await on_sqlite.approvals.claim("a", "0")
