"""How errors of databases are reported; with real ones: tests/server/store/test_faults.py."""

import asyncio
from typing import Any

import asyncpg
import pytest

from server.store.database import Database
from server.store.errors import StoreUnavailable


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
