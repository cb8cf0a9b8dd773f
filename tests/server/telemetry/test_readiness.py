"""Checks of the engine and the store: bounded in time, and few however many ask."""

import asyncio

import pytest

from adapters.base import BackendConfig
from adapters.errors import BackendFailed
from adapters.scripted import ScriptedBackend
from server.store.errors import StoreUnavailable
from server.store.responses.memory import MemoryStore
from server.telemetry.readiness import Readiness


class Engine(ScriptedBackend):
    """Counts its checks, and fails on demand."""

    def __init__(self) -> None:
        super().__init__(BackendConfig(None, {}, lambda _: [], lambda _: "", lambda: None))
        self.checks = 0
        self.failure: Exception | None = None

    async def check(self) -> None:
        self.checks += 1
        if self.failure is not None:
            raise self.failure


class Away(MemoryStore):
    async def check(self) -> None:
        raise StoreUnavailable("It is away.")


async def test_what_both_lack_is_named_without_the_engines_words() -> None:
    engine = Engine()
    engine.failure = BackendFailed("http://user:secret@engine refuses")
    reasons = await Readiness(engine, Away()).reasons()
    assert [reason.split(":")[0] for reason in reasons] == ["engine", "store"]
    assert "secret" not in "".join(reasons)


async def test_many_who_ask_share_one_look() -> None:
    engine = Engine()
    readiness = Readiness(engine, MemoryStore())
    answers = await asyncio.gather(*(readiness.reasons() for _ in range(100)))
    assert [list(reasons) for reasons in answers] == [[]] * 100
    assert await readiness.reasons() == []
    assert engine.checks == 1


async def test_a_look_is_made_anew_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("server.telemetry.readiness.FRESH_SECONDS", -1.0)
    engine = Engine()
    readiness = Readiness(engine, MemoryStore())
    assert await readiness.reasons() == []
    engine.failure = BackendFailed("gone")
    assert len(await readiness.reasons()) == 1


async def test_a_store_that_hangs_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    released = asyncio.Event()

    class Hanging(MemoryStore):
        checks = 0

        async def check(self) -> None:
            self.checks += 1
            await released.wait()

    monkeypatch.setattr("server.telemetry.readiness.CHECK_SECONDS", 0.01)
    store = Hanging()
    readiness = Readiness(Engine(), store)
    for _ in range(3):
        assert await readiness.reasons() == ["store: it does not answer in time"]
    assert store.checks == 1
    released.set()
    assert await readiness.reasons() == []


async def test_a_bug_in_a_check_is_a_reason(caplog: pytest.LogCaptureFixture) -> None:
    engine = Engine()
    engine.failure = ValueError("a bug")
    assert await Readiness(engine, MemoryStore()).reasons() == ["engine: its check failed"]
    assert "a bug" in caplog.text
