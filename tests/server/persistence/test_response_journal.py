"""When a response's events are stored, and when they are shown."""

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from server.persistence.response_journal import BATCH_EVENTS, MOST_WAITING, ResponseJournal
from server.persistence.retrying import RetryPolicy
from server.store.errors import RunLost, StoreUnavailable
from server.store.responses.base import Event, StoredResponse
from server.store.responses.memory import MemoryStore
from tests.server.store.test_contract import THOUGHT, running
from tests.waiting import settle

LAST = {
    "type": "response.completed",
    "sequence_number": 3,
    "response": {"id": "one", "status": "completed", "output": [{"id": "out"}]},
}


class FailingAppends(MemoryStore):
    """Records appends, and raises `failure` where it is set."""

    def __init__(self) -> None:
        super().__init__()
        self.appended = asyncio.Event()
        self.failure: Exception | None = None

    async def append(self, response_id: str, events: Sequence[Event]) -> None:
        try:
            if self.failure is not None:
                raise self.failure
            await super().append(response_id, events)
        finally:
            self.appended.set()


class HangingAppends(MemoryStore):
    """Its appends raise `failure` once they are released."""

    def __init__(self, failure: Exception) -> None:
        super().__init__()
        self.failure = failure
        self.appends = 0
        self.appending, self.released = asyncio.Event(), asyncio.Event()

    async def append(self, response_id: str, events: Sequence[Event]) -> None:
        self.appends += 1
        self.appending.set()
        await self.released.wait()
        raise self.failure


class FailingEnd(MemoryStore):
    """Raises for each end."""

    async def end(self, stored: StoredResponse, events: Sequence[Event]) -> None:
        raise StoreUnavailable("unavailable")


def delta(number: int) -> Event:
    return {"type": "delta", "sequence_number": number}


async def journal(
    store: MemoryStore,
    *,
    store_first: bool = False,
    delay: float = 0.0,
    retry_seconds: float = 0.0,
    now: Callable[[], float] = time.monotonic,
) -> Any:
    retry = RetryPolicy(retry_seconds, now=now)
    started = running("one")

    def ended(response: dict[str, Any]) -> StoredResponse:
        return started.ended(response, {"out": THOUGHT})

    made = ResponseJournal(store, started, ended, store_first=store_first, retry=retry, delay=delay)
    await made.begin()
    return made


async def stored_events(store: MemoryStore) -> list[Event]:
    ledger = await store.ledger("a", "one")
    assert ledger is not None
    return list(ledger.events)


async def test_events_are_shown_at_once_and_stored_together() -> None:
    store, shown = FailingAppends(), list[Event]()
    writer = await journal(store)
    await writer.write([delta(0)], shown.extend)
    await writer.write([delta(1)], shown.extend)
    assert (shown, await stored_events(store)) == ([delta(0), delta(1)], [])
    await store.appended.wait()
    assert await stored_events(store) == shown


async def test_store_first_shows_events_once_they_are_stored() -> None:
    store, shown = FailingAppends(), list[Event]()
    writer = await journal(store, store_first=True)
    await writer.write([delta(0)], shown.extend)
    await writer.write([delta(1)], shown.extend)
    assert shown == []
    await store.appended.wait()
    await asyncio.sleep(0)
    assert shown == await stored_events(store) == [delta(0), delta(1)]


@pytest.mark.parametrize("store_first", [False, True])
async def test_the_terminal_event_is_stored_with_all_others_before_it_is_shown(
    store_first: bool,
) -> None:
    store, shown = FailingAppends(), list[Event]()
    writer = await journal(store, store_first=store_first, delay=3600)
    await writer.write([delta(0), delta(1)], shown.extend)
    await writer.write([delta(2), LAST], shown.extend)
    assert shown == await stored_events(store) == [delta(0), delta(1), delta(2), LAST]
    stored = await store.get("a", "one")
    assert stored is not None
    assert stored.response == LAST["response"]
    assert stored.output[0].message == THOUGHT
    assert not store.appended.is_set()


async def test_a_terminal_event_that_cannot_be_stored_is_not_shown() -> None:
    shown = list[Event]()
    writer = await journal(FailingEnd())
    with pytest.raises(StoreUnavailable):
        await writer.write([LAST], shown.extend)
    assert shown == []


async def test_the_terminal_event_waits_for_an_unavailable_store() -> None:
    class Unavailable(MemoryStore):
        failures = 3

        async def end(self, stored: StoredResponse, events: Sequence[Event]) -> None:
            if self.failures:
                self.failures -= 1
                raise StoreUnavailable("unavailable")
            await super().end(stored, events)

    store, shown = Unavailable(), list[Event]()
    writer = await journal(store, retry_seconds=60)
    await writer.write([LAST], shown.extend)
    assert shown == await stored_events(store) == [LAST]


async def test_store_first_events_wait_for_an_unavailable_store() -> None:
    store, shown = FailingAppends(), list[Event]()
    writer = await journal(store, store_first=True, retry_seconds=60)
    store.failure = StoreUnavailable("unavailable")
    await writer.write([delta(0)], shown.extend)
    await store.appended.wait()
    await writer.write([delta(1)], shown.extend)
    assert shown == []
    store.failure = None
    await writer.write([delta(2), LAST], shown.extend)
    assert shown == await stored_events(store) == [delta(0), delta(1), delta(2), LAST]


@pytest.mark.parametrize("store_first", [False, True])
async def test_write_blocks_while_too_many_events_wait(store_first: bool) -> None:
    store, shown = FailingAppends(), list[Event]()
    writer = await journal(store, store_first=store_first, retry_seconds=60)
    store.failure = StoreUnavailable("unavailable")
    await writer.write([delta(number) for number in range(MOST_WAITING)], shown.extend)
    waiting = asyncio.ensure_future(writer.write([delta(MOST_WAITING)], shown.extend))
    await store.appended.wait()
    assert not waiting.done()
    store.failure = None
    await waiting
    # It goes on after the first batch, and does not wait for the others.
    assert BATCH_EVENTS <= len(await stored_events(store)) < MOST_WAITING


async def test_a_blocked_write_fails_after_the_retries() -> None:
    store = FailingAppends()
    writer = await journal(store, retry_seconds=0.01)
    store.failure = StoreUnavailable("unavailable")
    with pytest.raises(StoreUnavailable):
        await writer.write([delta(number) for number in range(MOST_WAITING + 1)], lambda _: None)


@pytest.mark.parametrize("failure", [StoreUnavailable("unavailable"), ValueError("a bug")])
async def test_the_terminal_event_fails_after_the_retries(failure: Exception) -> None:
    store, shown = FailingAppends(), list[Event]()
    writer = await journal(store)
    store.failure = failure
    await writer.write([delta(0)], shown.extend)
    await store.appended.wait()
    await asyncio.sleep(0)
    with pytest.raises(type(failure)):
        await writer.write([LAST], shown.extend)
    assert shown == [delta(0)]


async def test_events_that_could_not_be_appended_are_stored_with_the_terminal_event() -> None:
    store, shown = FailingAppends(), list[Event]()
    writer = await journal(store, retry_seconds=60)
    store.failure = StoreUnavailable("unavailable")
    await writer.write([delta(0)], shown.extend)
    await store.appended.wait()
    await writer.write([delta(1), LAST], shown.extend)
    assert shown == await stored_events(store) == [delta(0), delta(1), LAST]


async def test_the_terminal_event_waits_for_an_append_that_hangs() -> None:
    store, shown = HangingAppends(StoreUnavailable("hangs")), list[Event]()
    writer = await journal(store, retry_seconds=60)
    await writer.write([delta(0)], shown.extend)
    await store.appending.wait()
    for number in range(1, 5):
        await writer.write([delta(number)], shown.extend)
        await settle()  # another append would start here
    asyncio.get_running_loop().call_soon(store.released.set)
    await writer.write([LAST], shown.extend)
    assert store.appends == 1
    assert shown == await stored_events(store)


async def test_the_terminal_event_is_not_stored_after_an_append_that_fails_meanwhile() -> None:
    store, shown = HangingAppends(RunLost("resp_1")), list[Event]()
    writer = await journal(store)
    await writer.write([delta(0)], shown.extend)
    await store.appending.wait()
    asyncio.get_running_loop().call_soon(store.released.set)
    with pytest.raises(RunLost):
        await writer.write([LAST], shown.extend)
    assert shown == [delta(0)]
    response = await store.show("a", "one")
    assert response is not None
    assert response["status"] == "in_progress"


async def test_nothing_is_appended_after_the_terminal_event() -> None:
    store, shown = FailingAppends(), list[Event]()
    writer = await journal(store)
    await writer.write([delta(0)], shown.extend)
    await writer.write([LAST], shown.extend)
    await settle()
    assert not store.appended.is_set()
    assert await stored_events(store) == shown == [delta(0), LAST]


async def test_a_store_that_was_available_again_has_all_the_time_for_the_next_outage() -> None:
    seconds = 0.0
    store, shown = FailingAppends(), list[Event]()
    writer = await journal(store, retry_seconds=60, now=lambda: seconds)

    async def attempt(failure: Exception | None) -> None:
        store.failure = failure
        store.appended.clear()
        await store.appended.wait()
        await asyncio.sleep(0)

    await writer.write([delta(0)], shown.extend)
    await attempt(StoreUnavailable("unavailable"))
    await attempt(None)
    seconds = 100.0
    await writer.write([delta(1)], shown.extend)
    await attempt(StoreUnavailable("unavailable"))
    await writer.write([delta(2)], shown.extend)
    await attempt(None)
    assert await stored_events(store) == shown == [delta(0), delta(1), delta(2)]


async def test_a_failed_append_is_retried_without_further_events() -> None:
    store, shown = FailingAppends(), list[Event]()
    writer = await journal(store, retry_seconds=60)
    store.failure = StoreUnavailable("unavailable")
    await writer.write([delta(0)], shown.extend)
    await store.appended.wait()
    store.failure = None
    store.appended.clear()
    await store.appended.wait()
    assert await stored_events(store) == [delta(0)]


@pytest.mark.parametrize(
    ("store_first", "failure"),
    [
        (True, StoreUnavailable("unavailable")),
        (True, RunLost("resp_1")),
        (False, RunLost("resp_1")),
    ],
)
async def test_a_write_after_a_final_failure_raises(store_first: bool, failure: Exception) -> None:
    store, shown = FailingAppends(), list[Event]()
    writer = await journal(
        store, store_first=store_first, retry_seconds=60 if isinstance(failure, RunLost) else 0
    )
    store.failure = failure
    await writer.write([delta(0)], shown.extend)
    await store.appended.wait()
    await asyncio.sleep(0)
    with pytest.raises(type(failure)):
        await writer.write([delta(1)], shown.extend)
    assert delta(1) not in shown


@pytest.mark.parametrize("store_first", [False, True])
async def test_events_after_a_failure_follow_all_before_them_and_are_not_stored(
    store_first: bool,
) -> None:
    store, shown = FailingAppends(), list[Event]()
    writer = await journal(store, store_first=store_first)
    store.failure = RunLost("one")
    await writer.write([delta(0)], shown.extend)
    await store.appended.wait()
    await asyncio.sleep(0)
    with pytest.raises(RunLost):
        await writer.write([delta(1)], shown.extend)
    await writer.write([delta(2), delta(3)], shown.extend)
    last = {**LAST, "sequence_number": 4}
    await writer.write([last], shown.extend)
    assert shown == [delta(0), delta(1), delta(2), delta(3), last]
    assert await stored_events(store) == []


async def test_events_after_an_end_that_cannot_be_stored_have_the_next_numbers() -> None:
    store, shown = FailingEnd(), list[Event]()
    writer = await journal(store)
    with pytest.raises(StoreUnavailable):
        await writer.write([delta(0), {**LAST, "sequence_number": 1}], shown.extend)
    await writer.write([delta(2)], shown.extend)
    assert shown == [delta(0), delta(1)]


@pytest.mark.parametrize("status", ["failed", "cancelled"])
async def test_the_end_of_a_failed_response_is_shown_although_it_cannot_be_stored(
    status: str,
) -> None:
    """Nothing follows it, and its readers would wait for an end."""
    store, shown = FailingEnd(), list[Event]()
    writer = await journal(store, store_first=True)
    last = {**LAST, "sequence_number": 1, "response": {"id": "one", "status": status, "output": []}}
    with pytest.raises(StoreUnavailable):
        await writer.write([delta(0), last], shown.extend)
    assert shown == [delta(0), last]
