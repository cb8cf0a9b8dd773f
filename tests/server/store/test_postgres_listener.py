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


async def test_an_outage_is_logged_once_for_each_reason(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
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
    listener = PostgresListener(parse_url("postgresql://host/name"), ChangeSignals(1.0), "gw_1")
    await listener.start()
    await tried.wait()
    await listener.stop()
    assert [record.args for record in caplog.records] == [("refused",), ("starting",)]
