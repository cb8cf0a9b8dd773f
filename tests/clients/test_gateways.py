"""Several gateway processes with one database: each serves the responses of all."""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import httpx
import pytest

from tests.postgres import Postgres

Start = Callable[..., Any]
Event = dict[str, Any]

PATIENCE = 60
ENDLESS = {
    "prompt_contains": "at length",
    "completion": "<|channel|>final<|message|>" + "word " * 20_000,
    "delay_ms": 20,
}
BRIEF = {"prompt_contains": None, "completion": "<|channel|>final<|message|>Done.<|return|>"}


class Gateway:
    """A server process, and a client for it."""

    def __init__(self, start: Start, store: str) -> None:
        self.process, url = start([ENDLESS, BRIEF], "--store", store)
        self.client = httpx.Client(base_url=url, timeout=PATIENCE)

    def create(self, text: str) -> str:
        """Ask in the background; the response's id."""
        answer = self.client.post("/responses", json={"input": text, "background": True})
        return str(answer.json()["id"])

    def show(self, response_id: str) -> dict[str, Any]:
        response: dict[str, Any] = self.client.get(f"/responses/{response_id}").json()
        return response

    def events(self, response_id: str) -> Iterator[Event]:
        """The events from the first on, as they come."""
        path, query = f"/responses/{response_id}", {"stream": "true"}
        with self.client.stream("GET", path, params=query) as answer:
            for line in answer.iter_lines():
                if line.startswith("data: {"):
                    yield json.loads(line.removeprefix("data: "))


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path_factory.mktemp('store')}/store.db"
    start_postgres: Callable[[], Postgres] = request.getfixturevalue("start_postgres")
    return start_postgres().new_database()


@pytest.fixture(scope="module")
def open_gateway(start: Start, store: str) -> Iterator[Callable[[], Gateway]]:
    with ExitStack() as clients:

        def open_gateway() -> Gateway:
            gateway = Gateway(start, store)
            clients.enter_context(gateway.client)
            return gateway

        yield open_gateway


@pytest.fixture(scope="module")
def here(open_gateway: Callable[[], Gateway]) -> Gateway:
    return open_gateway()


@pytest.fixture(scope="module")
def there(open_gateway: Callable[[], Gateway]) -> Gateway:
    return open_gateway()


def test_a_response_is_known_at_every_gateway(here: Gateway, there: Gateway) -> None:
    first = here.client.post("/responses", json={"input": "one"}).json()
    assert there.show(first["id"]) == first
    more = {"input": "two", "previous_response_id": first["id"]}
    assert there.client.post("/responses", json=more).json()["status"] == "completed"


def test_live_events_are_read_and_cancelled_at_another_gateway(
    here: Gateway, there: Gateway
) -> None:
    response_id = here.create("at length")
    events = there.events(response_id)
    followed = [next(events) for _ in range(40)]
    assert followed[-1]["type"] == "response.output_text.delta"
    assert here.show(response_id)["status"] == "in_progress"
    cancelled = there.client.post(f"/responses/{response_id}/cancel").json()
    followed += events
    assert followed[-1]["response"] == cancelled
    assert cancelled["status"] == "cancelled"
    assert here.show(response_id) == cancelled
    assert list(here.events(response_id)) == followed


def test_another_gateway_ends_the_runs_of_a_killed_gateway(
    open_gateway: Callable[[], Gateway], there: Gateway
) -> None:
    doomed = open_gateway()
    response_id = doomed.create("at length")
    events = doomed.events(response_id)
    received_events = [next(events) for _ in range(40)]
    doomed.process.kill()
    doomed.process.wait()
    stored_events = list(there.events(response_id))
    assert stored_events[: len(received_events)] == received_events
    assert [event["type"] for event in stored_events[-2:]] == ["error", "response.failed"]
    assert [event["sequence_number"] for event in stored_events] == list(range(len(stored_events)))
    shown = there.show(response_id)
    assert shown == stored_events[-1]["response"]
    assert "stopped before" in shown["error"]["message"]
