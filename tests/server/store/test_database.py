"""How errors of databases are reported; with real ones: tests/server/store/test_faults.py."""

import asyncio
from typing import Any

import asyncpg
import pytest
from sqlalchemy.exc import IntegrityError

from server.store.database import Database
from server.store.errors import StoreUnavailable
from tests.server.store import conftest
from tests.server.store.containers.test_base import BOX


async def test_a_database_that_does_not_answer_in_time_is_logged_as_a_timeout(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def connect(*_: Any, **__: Any) -> None:
        raise TimeoutError from asyncio.CancelledError()  # as asyncpg does

    monkeypatch.setattr(asyncpg, "connect", connect)
    with pytest.raises(StoreUnavailable):
        await Database("postgresql://host/name").migrate()
    (record,) = caplog.records
    assert record.args == ("write", "TimeoutError")


async def test_a_row_that_the_schema_refuses_is_no_unavailable_store(
    database: conftest.Database, caplog: pytest.LogCaptureFixture
) -> None:
    store = await database.open()
    await store.containers.create(BOX)
    with pytest.raises(IntegrityError):
        await store.containers.create(BOX)
    assert not store.database.writes_fail
    assert "the store failed" not in caplog.text
