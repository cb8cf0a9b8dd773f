"""The periodic tasks of a gateway on its store."""

import asyncio
import logging
import math
import threading
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from server.generation.runs import Emit, Runs
from server.outbound.responses.interrupted import end_interrupted
from server.persistence import maintenance
from server.persistence.maintenance import (
    HEARTBEAT_SECONDS,
    LATE_SECONDS,
    SILENT_SECONDS,
    Maintenance,
)
from server.persistence.response_journal import ResponseJournal
from server.store.change_signal import ChangeSignal
from server.store.errors import StoreUnavailable
from server.store.responses.base import StoredResponse
from server.store.responses.memory import MemoryStore
from server.store.responses.sql import SqlStore
from server.store.tables import responses
from server.store.tables import runs as table_of_runs
from tests.server.store.test_contract import running


def ended(response: dict[str, Any]) -> StoredResponse:
    return running(response["id"]).ended(response, {})


class Flaky(MemoryStore):
    """A store whose first heartbeat fails, and every take-over."""

    def __init__(self, failure: Exception) -> None:
        super().__init__()
        self.failure = failure
        self.heartbeats = 0
        self.heartbeat_succeeded = asyncio.Event()

    async def heartbeat(self, running: Collection[str]) -> frozenset[str]:
        self.heartbeats += 1
        if self.heartbeats == 1:
            raise self.failure
        self.heartbeat_succeeded.set()
        return await super().heartbeat(running)

    async def take_over_orphans(
        self, silent: float, running: Collection[str] = ()
    ) -> Sequence[str]:
        raise self.failure


class CountingHeartbeats(MemoryStore):
    """A store that counts heartbeats."""

    heartbeats = 0

    async def heartbeat(self, running: Collection[str]) -> frozenset[str]:
        self.heartbeats += 1
        return await super().heartbeat(running)


class Orphans(MemoryStore):
    """A store in which all runs are those of a gateway that has ended."""

    def __init__(self) -> None:
        super().__init__()
        self._begun: list[str] = []

    async def begin(self, stored: StoredResponse) -> None:
        await super().begin(stored)
        self._begun.append(stored.id)

    async def take_over_from_ended(self) -> Sequence[str]:
        return self._begun


class Shared(MemoryStore):
    """A store that may be unavailable. It records whether runs were taken over, and which not."""

    def __init__(self) -> None:
        super().__init__()
        self.unavailable = False
        self.has_taken_over = False
        self.spared: list[str] = []

    async def heartbeat(self, running: Collection[str]) -> frozenset[str]:
        if self.unavailable:
            raise StoreUnavailable("unavailable")
        return await super().heartbeat(running)

    async def take_over_orphans(
        self, silent: float, running: Collection[str] = ()
    ) -> Sequence[str]:
        self.has_taken_over = True
        self.spared = list(running)
        return ()


class Gateway:
    """A gateway that maintains a shared store, with a clock of its own."""

    def __init__(self) -> None:
        self.store = Shared()
        self.runs = Runs()
        self._clock = 0.0
        self._maintenance = Maintenance(self.store, self.runs, 60.0, now=lambda: self._clock)

    async def maintain(self, seconds: float) -> None:
        """Send heartbeats for `seconds`, then take over from silent gateways."""
        await self._heartbeat()
        for _ in range(math.ceil(seconds / HEARTBEAT_SECONDS)):
            self.wait(HEARTBEAT_SECONDS)
            await self._heartbeat()
        await self.end_runs_of_silent()

    async def end_runs_of_silent(self) -> None:
        await self._maintenance.end_runs_of_silent()

    def wait(self, seconds: float) -> None:
        self._clock += seconds

    async def _heartbeat(self) -> None:
        with suppress(StoreUnavailable):
            await self._maintenance.heartbeat()


async def forever(emit: Emit) -> None:
    await asyncio.Event().wait()


async def test_a_run_that_is_cancelled_through_the_store_ends() -> None:
    store, runs = MemoryStore(), Runs()
    started = []
    for name in ("one", "two"):
        journal = ResponseJournal(store, running(name), ended)
        await journal.begin()
        started.append(runs.start(forever, name, journal=journal))
    cancelled, other = started
    async with Maintenance(store, runs, 60.0).running():
        await store.cancel("one")
        await cancelled.wait()
        assert not other.done
    await runs.close()


async def test_a_gateway_without_runs_does_not_check_for_cancellations() -> None:
    waited = asyncio.Event()

    class RecordingSignal(ChangeSignal):
        async def wait(self) -> None:
            waited.set()
            await super().wait()

    class Listened(CountingHeartbeats):
        @contextmanager
        def listen(self, topic: str) -> Iterator[ChangeSignal]:
            yield RecordingSignal(None)

    store, runs = Listened(), Runs()
    async with Maintenance(store, runs, 60.0).running():
        for _ in range(10):
            await store.cancel("another's")
            await asyncio.sleep(0)
        assert not waited.is_set()
        assert store.heartbeats == 1
        runs.start(forever, "one", journal=ResponseJournal(store, running("one"), ended))
        await waited.wait()
    await runs.close()


async def test_a_check_for_cancellations_does_not_write() -> None:
    store, runs = CountingHeartbeats(), Runs()
    async with Maintenance(store, runs, 60.0).running():
        for name in ("one", "two", "three"):
            journal = ResponseJournal(store, running(name), ended)
            await journal.begin()
            run = runs.start(forever, name, journal=journal)
            await store.cancel(name)
            await run.wait()
    assert store.heartbeats == 1
    await runs.close()


async def test_runs_of_an_ended_gateway_fail(caplog: pytest.LogCaptureFixture) -> None:
    store = Orphans()
    await store.begin(running("one"))
    await Maintenance(store, Runs(), 60.0).end_runs_of_ended()
    response = await store.show("a", "one")
    assert response is not None
    assert response["status"] == "failed"
    assert "interrupted" in caplog.text


async def test_a_long_run_of_an_ended_gateway_is_ended_on_a_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    done_by: list[int] = []

    def watched(started: dict[str, Any], events: Sequence[Any]) -> list[Any]:
        done_by.append(threading.get_ident())
        return end_interrupted(started, events)

    monkeypatch.setattr(maintenance, "end_interrupted", watched)
    store = Orphans()
    response = running("one").response
    created = {"type": "response.created", "response": response, "sequence_number": 0}
    await store.begin(running("one"))
    await store.append("one", [{**created, "sequence_number": number} for number in range(1000)])
    await Maintenance(store, Runs(), 60.0).end_runs_of_ended()
    assert len(done_by) == 1
    assert done_by[0] != threading.get_ident()


async def test_nothing_is_left_of_a_run_of_an_ended_gateway_that_was_deleted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class OrphansInFile(SqlStore):
        async def take_over_from_ended(self) -> Sequence[str]:
            return ["one"]

    store = OrphansInFile(f"sqlite:///{tmp_path}/store.db")
    await store.start()
    await store.begin(running("one"))
    await store.delete("a", "one")
    await Maintenance(store, Runs(), 60.0).end_runs_of_ended()
    assert [record for record in caplog.records if record.levelno == logging.ERROR] == []
    for table in (responses, table_of_runs):
        assert await store.database.first(select(table)) is None
    await store.stop()


async def test_a_run_that_cannot_be_ended_does_not_keep_others() -> None:
    class Damaged(Orphans):
        async def taken_over(self, response_id: str) -> StoredResponse:
            if response_id == "one":
                raise ValueError("its row is damaged")
            return await super().taken_over(response_id)

    store = Damaged()
    for name in ("one", "two"):
        await store.begin(running(name))
    await Maintenance(store, Runs(), 60.0).end_runs_of_ended()
    response = await store.show("a", "two")
    assert response is not None
    assert response["status"] == "failed"


@pytest.mark.parametrize("failure", [StoreUnavailable("unavailable"), ValueError("a bug")])
async def test_a_failed_task_runs_again(
    failure: Exception, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("server.persistence.maintenance.HEARTBEAT_SECONDS", 0.001)
    store = Flaky(failure)
    async with Maintenance(store, Runs(), 60.0).running():
        await store.heartbeat_succeeded.wait()
    bugs = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert bool(bugs) == isinstance(failure, ValueError)


async def test_a_gateway_takes_over_after_enough_contact() -> None:
    gateway = Gateway()
    await gateway.maintain(SILENT_SECONDS - HEARTBEAT_SECONDS)
    assert not gateway.store.has_taken_over
    await gateway.maintain(HEARTBEAT_SECONDS)
    assert gateway.store.has_taken_over


@pytest.fixture
async def in_contact() -> Gateway:
    """A gateway that has been in contact for long enough to take over runs."""
    gateway = Gateway()
    await gateway.maintain(2 * SILENT_SECONDS)
    gateway.store.has_taken_over = False
    return gateway


async def test_after_an_outage_others_get_time_to_reconnect(in_contact: Gateway) -> None:
    in_contact.store.unavailable = True
    await in_contact.maintain(2 * SILENT_SECONDS)
    in_contact.store.unavailable = False
    await in_contact.maintain(SILENT_SECONDS - HEARTBEAT_SECONDS)
    assert not in_contact.store.has_taken_over
    await in_contact.maintain(HEARTBEAT_SECONDS)
    assert in_contact.store.has_taken_over


async def test_a_heartbeat_that_hangs_is_an_outage(in_contact: Gateway) -> None:
    in_contact.wait(LATE_SECONDS + 0.1)
    await in_contact.end_runs_of_silent()
    await in_contact.maintain(SILENT_SECONDS - HEARTBEAT_SECONDS)
    assert not in_contact.store.has_taken_over
    await in_contact.maintain(HEARTBEAT_SECONDS)
    assert in_contact.store.has_taken_over


async def test_a_single_heartbeat_that_fails_is_an_outage(in_contact: Gateway) -> None:
    in_contact.store.unavailable = True
    await in_contact.maintain(0)
    assert not in_contact.store.has_taken_over
    in_contact.store.unavailable = False
    await in_contact.maintain(SILENT_SECONDS - HEARTBEAT_SECONDS)
    assert not in_contact.store.has_taken_over


async def test_a_gateway_does_not_take_over_its_own_runs(in_contact: Gateway) -> None:
    in_contact.runs.start(forever, "one", journal=ResponseJournal(Shared(), running("one"), ended))
    await in_contact.end_runs_of_silent()
    assert in_contact.store.spared == ["one"]
    await in_contact.runs.close()


async def test_a_slightly_late_heartbeat_is_no_outage(in_contact: Gateway) -> None:
    in_contact.wait(LATE_SECONDS - 0.1)
    await in_contact.maintain(0)
    assert in_contact.store.has_taken_over


async def test_a_sweep_logs_how_much_it_deleted(caplog: pytest.LogCaptureFixture) -> None:
    class Old(MemoryStore):
        async def sweep(self, age: float) -> int:
            assert age == 60.0
            return 3

    caplog.set_level(logging.INFO)
    await Maintenance(Old(), Runs(), 60.0).sweep()
    assert "deleted 3" in caplog.text


async def test_a_sweep_deletes_other_objects_too(caplog: pytest.LogCaptureFixture) -> None:
    ages: list[float] = []

    async def sweep(age: float) -> int:
        ages.append(age)
        return 3

    caplog.set_level("INFO", "server.persistence.maintenance")
    await Maintenance(MemoryStore(), Runs(), 60.0, [sweep, sweep]).sweep()
    assert ages == [60.0, 60.0]
    assert caplog.messages == ["deleted 3 expired objects"] * 2


async def test_a_sweep_that_fails_does_not_keep_others(caplog: pytest.LogCaptureFixture) -> None:
    async def fail(_: float) -> int:
        raise ValueError("a bug")

    async def sweep(_: float) -> int:
        return 3

    caplog.set_level("INFO", "server.persistence.maintenance")
    await Maintenance(MemoryStore(), Runs(), 60.0, [fail, sweep]).sweep()
    assert caplog.messages == ["maintenance failed", "deleted 3 expired objects"]
