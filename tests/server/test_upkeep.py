"""What a gateway does for its store beside serving."""

import asyncio
import logging
from collections.abc import Collection, Sequence

import pytest

from server.journal import ResponseJournal
from server.runs import Emit, Runs
from server.store.base import StoredResponse, StoreUnavailable
from server.store.memory import MemoryStore
from server.upkeep import Upkeep
from tests.server.store.test_contract import running


class Flaky(MemoryStore):
    """Counts the chores that reach it; the first of each kind fails."""

    def __init__(self, failure: Exception) -> None:
        super().__init__()
        self.failure = failure
        self.beats = 0
        self.beaten = asyncio.Event()

    async def beat(self, running: Collection[str]) -> frozenset[str]:
        self.beats += 1
        if self.beats == 1:
            raise self.failure
        self.beaten.set()
        return await super().beat(running)

    async def adopt(self, silent: float, running: Collection[str] = ()) -> Sequence[StoredResponse]:
        raise self.failure


async def forever(emit: Emit) -> None:
    await asyncio.Event().wait()


async def test_a_run_that_is_cancelled_through_the_store_ends() -> None:
    store, runs = MemoryStore(), Runs()
    started = []
    for name in ("one", "two"):
        journal = ResponseJournal(store, running(name), {})
        await journal.begin()
        started.append(runs.start(forever, name, journal=journal))
    cancelled, other = started
    async with Upkeep(store, runs, 60.0).running():
        await store.cancel("one")
        await cancelled.wait()
        assert not other.done
    await runs.close()


@pytest.mark.parametrize("failure", [StoreUnavailable("away"), ValueError("a bug")])
async def test_a_chore_that_failed_comes_round_again(
    failure: Exception, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("server.upkeep.BEAT_SECONDS", 0.001)
    store = Flaky(failure)
    async with Upkeep(store, Runs(), 60.0).running():
        await store.beaten.wait()
    bugs = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert bool(bugs) == isinstance(failure, ValueError)


async def test_sweeping_says_how_much_it_forgot(caplog: pytest.LogCaptureFixture) -> None:
    class Old(MemoryStore):
        async def sweep(self, age: float) -> int:
            assert age == 60.0
            return 3

    caplog.set_level(logging.INFO)
    await Upkeep(Old(), Runs(), 60.0).sweep()
    assert "forgot 3" in caplog.text
