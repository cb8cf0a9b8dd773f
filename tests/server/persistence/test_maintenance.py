"""What a gateway does for its store beside serving."""

import asyncio
import logging
import math
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress

import pytest

from server.generation.runs import Emit, Runs
from server.persistence.maintenance import (
    HEARTBEAT_SECONDS,
    LATE_SECONDS,
    SILENT_SECONDS,
    Maintenance,
)
from server.persistence.response_journal import ResponseJournal
from server.store.change_signal import ChangeSignal
from server.store.responses.base import StoredResponse, StoreUnavailable
from server.store.responses.memory import MemoryStore
from tests.server.store.test_contract import running


class Flaky(MemoryStore):
    """Counts the chores that reach it; the first of each kind fails."""

    def __init__(self, failure: Exception) -> None:
        super().__init__()
        self.failure = failure
        self.beats = 0
        self.beaten = asyncio.Event()

    async def heartbeat(self, running: Collection[str]) -> frozenset[str]:
        self.beats += 1
        if self.beats == 1:
            raise self.failure
        self.beaten.set()
        return await super().heartbeat(running)

    async def take_over_orphans(
        self, silent: float, running: Collection[str] = ()
    ) -> Sequence[StoredResponse]:
        raise self.failure


class Shared(MemoryStore):
    """A store that may be away; others' runs wait to be adopted in it."""

    def __init__(self) -> None:
        super().__init__()
        self.away = False
        self.adopted = False

    async def heartbeat(self, running: Collection[str]) -> frozenset[str]:
        if self.away:
            raise StoreUnavailable("away")
        return await super().heartbeat(running)

    async def take_over_orphans(
        self, silent: float, running: Collection[str] = ()
    ) -> Sequence[StoredResponse]:
        self.adopted = True
        return ()


class Gateway:
    """One that takes care of a shared store, by a clock of its own."""

    def __init__(self) -> None:
        self.store = Shared()
        self._clock = 0.0
        self._upkeep = Maintenance(self.store, Runs(), 60.0, now=lambda: self._clock)

    async def care(self, seconds: float) -> None:
        """Beat now and for so long, then look for silent gateways."""
        await self._beat()
        for _ in range(math.ceil(seconds / HEARTBEAT_SECONDS)):
            self.wait(HEARTBEAT_SECONDS)
            await self._beat()
        await self.end_silent()

    async def end_silent(self) -> None:
        await self._upkeep.end_silent()

    def wait(self, seconds: float) -> None:
        self._clock += seconds

    async def _beat(self) -> None:
        with suppress(StoreUnavailable):
            await self._upkeep.heartbeat()


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
    async with Maintenance(store, runs, 60.0).running():
        await store.cancel("one")
        await cancelled.wait()
        assert not other.done
    await runs.close()


async def test_a_gateway_that_makes_nothing_does_not_look_for_cancels() -> None:
    looked = asyncio.Event()

    class Watched(ChangeSignal):
        async def wait(self, at_most: float | None = None) -> None:
            looked.set()
            await super().wait(at_most)

    class Counting(MemoryStore):
        beats = 0

        async def heartbeat(self, running: Collection[str]) -> frozenset[str]:
            self.beats += 1
            return await super().heartbeat(running)

        @contextmanager
        def listen(self, topic: str) -> Iterator[ChangeSignal]:
            yield Watched(None)

    store, runs = Counting(), Runs()
    async with Maintenance(store, runs, 60.0).running():
        for _ in range(10):
            await store.cancel("another's")
            await asyncio.sleep(0)
        assert not looked.is_set()
        assert store.beats == 1
        runs.start(forever, "one", journal=ResponseJournal(store, running("one"), {}))
        await looked.wait()
    await runs.close()


async def test_a_look_for_cancels_does_not_write() -> None:
    class Counting(MemoryStore):
        beats = 0

        async def heartbeat(self, running: Collection[str]) -> frozenset[str]:
            self.beats += 1
            return await super().heartbeat(running)

    store, runs = Counting(), Runs()
    async with Maintenance(store, runs, 60.0).running():
        for name in ("one", "two", "three"):
            journal = ResponseJournal(store, running(name), {})
            await journal.begin()
            run = runs.start(forever, name, journal=journal)
            await store.cancel(name)
            await run.wait()
    assert store.beats == 1
    await runs.close()


async def test_what_an_ended_gateway_left_behind_fails(caplog: pytest.LogCaptureFixture) -> None:
    class Left(MemoryStore):
        async def adopt_from_ended(self) -> Sequence[StoredResponse]:
            return [running("one")]

    store = Left()
    await store.begin(running("one"))
    await Maintenance(store, Runs(), 60.0).end_left_behind()
    shown = await store.show("a", "one")
    assert shown is not None
    assert shown["status"] == "failed"
    assert "left behind" in caplog.text


@pytest.mark.parametrize("failure", [StoreUnavailable("away"), ValueError("a bug")])
async def test_a_chore_that_failed_comes_round_again(
    failure: Exception, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("server.persistence.maintenance.HEARTBEAT_SECONDS", 0.001)
    store = Flaky(failure)
    async with Maintenance(store, Runs(), 60.0).running():
        await store.beaten.wait()
    bugs = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert bool(bugs) == isinstance(failure, ValueError)


async def test_a_gateway_that_has_long_been_heard_adopts() -> None:
    gateway = Gateway()
    await gateway.care(SILENT_SECONDS - HEARTBEAT_SECONDS)
    assert not gateway.store.adopted
    await gateway.care(HEARTBEAT_SECONDS)
    assert gateway.store.adopted


@pytest.fixture
async def heard() -> Gateway:
    """One that would take_over_orphans."""
    gateway = Gateway()
    await gateway.care(2 * SILENT_SECONDS)
    gateway.store.adopted = False
    return gateway


async def test_after_an_outage_nobody_adopts_before_all_could_be_heard(heard: Gateway) -> None:
    heard.store.away = True
    await heard.care(2 * SILENT_SECONDS)
    heard.store.away = False
    await heard.care(SILENT_SECONDS - HEARTBEAT_SECONDS)
    assert not heard.store.adopted
    await heard.care(HEARTBEAT_SECONDS)
    assert heard.store.adopted


async def test_a_beat_that_hangs_is_an_outage(heard: Gateway) -> None:
    heard.wait(LATE_SECONDS + 0.1)
    await heard.end_silent()
    await heard.care(SILENT_SECONDS - HEARTBEAT_SECONDS)
    assert not heard.store.adopted
    await heard.care(HEARTBEAT_SECONDS)
    assert heard.store.adopted


async def test_a_beat_that_is_a_little_late_is_none(heard: Gateway) -> None:
    heard.wait(LATE_SECONDS - 0.1)
    await heard.care(0)
    assert heard.store.adopted


async def test_sweeping_says_how_much_it_forgot(caplog: pytest.LogCaptureFixture) -> None:
    class Old(MemoryStore):
        async def sweep(self, age: float) -> int:
            assert age == 60.0
            return 3

    caplog.set_level(logging.INFO)
    await Maintenance(Old(), Runs(), 60.0).sweep()
    assert "forgot 3" in caplog.text
