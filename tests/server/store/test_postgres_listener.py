"""The listener while PostgreSQL is away; with a real one: tests/server/store/responses."""

import asyncio
import logging
from typing import Any

import asyncpg
import pytest

from server.store import postgres_listener
from server.store.change_signal import ChangeSignals
from server.store.postgres_listener import PostgresListener
from server.store.sqlalchemy_engine import parse_url


class Connection:
    """Stands for a connection to PostgreSQL that does not answer some requests."""

    def __init__(self, *, hears_listen: bool) -> None:
        self._hears_listen = hears_listen

    def add_termination_listener(self, _: object) -> None:
        pass

    async def execute(self, *_: object, **__: object) -> None:
        pass

    async def add_listener(self, *_: object) -> None:
        if not self._hears_listen:
            await asyncio.Event().wait()

    async def fetch(self, *_: object, **__: object) -> None:
        raise TimeoutError

    def terminate(self) -> None:
        pass


@pytest.fixture
def listener() -> PostgresListener:
    return PostgresListener(parse_url("postgresql://host/name"), ChangeSignals(1.0), "gw_1")


async def test_a_connection_that_is_silent_is_logged(
    listener: PostgresListener, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def connect(*_: object, **__: object) -> Connection:
        return Connection(hears_listen=True)

    caplog.set_level(logging.DEBUG, postgres_listener.logger.name)
    monkeypatch.setattr(asyncpg, "connect", connect)
    await listener.start()
    await listener.ended()
    await listener.stop()
    assert [(record.levelname, record.args) for record in caplog.records] == [
        ("DEBUG", ("TimeoutError",)),
        ("WARNING", ("the connection is silent",)),
    ]


async def test_a_connection_that_is_silent_when_it_begins_to_listen_is_given_up(
    listener: PostgresListener, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def connect(*_: object, **__: object) -> Connection:
        return Connection(hears_listen=False)

    monkeypatch.setattr(asyncpg, "connect", connect)
    monkeypatch.setattr(postgres_listener, "_STATEMENT_SECONDS", 0.01)
    async with asyncio.timeout(30):
        await listener.start()
    await listener.stop()
    assert [record.args for record in caplog.records] == [("TimeoutError",)]


async def test_an_outage_is_logged_once_for_each_reason(
    listener: PostgresListener, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    reasons = iter((*["refused"] * 3, "starting", "starting"))
    tried = asyncio.Event()

    async def connect(*_: Any, **__: Any) -> None:
        reason = next(reasons, None)
        if reason is None:
            tried.set()
        raise OSError(reason or "starting")

    monkeypatch.setattr(asyncpg, "connect", connect)
    monkeypatch.setattr(postgres_listener, "_RETRY_SECONDS", 0)
    await listener.start()
    await tried.wait()
    await listener.stop()
    assert [record.args for record in caplog.records] == [("refused",), ("starting",)]


async def test_a_peer_that_is_not_postgresql_is_asked_again(
    listener: PostgresListener, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    asked = asyncio.Event()

    async def connect(*_: object, **__: object) -> Connection:
        if caplog.records:
            asked.set()
        raise asyncpg.InternalClientError("an unexpected message")

    monkeypatch.setattr(asyncpg, "connect", connect)
    monkeypatch.setattr(postgres_listener, "_RETRY_SECONDS", 0)
    async with asyncio.timeout(30):
        await listener.start()
        await asked.wait()
    await listener.stop()
