"""`kill -9`: no event that a client received is lost, and no response stays in progress."""

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from server.persistence.maintenance import SILENT_SECONDS

Start = Callable[..., Any]

ANSWER = "<|channel|>final<|message|>" + "word " * 500 + "<|return|>"
LINES = [
    {"prompt_contains": "briefly", "completion": "<|channel|>final<|message|>Done.<|return|>"},
    {"prompt_contains": None, "completion": ANSWER, "delay_ms": 10},
]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


def events(lines: Any) -> Any:
    """The events of a stream, as they come."""
    for line in lines:
        if line.startswith("data: {"):
            yield json.loads(line.removeprefix("data: "))


def test_sent_events_survive_a_kill(start: Start, file: Path) -> None:
    process, url = start(LINES, "--store", f"sqlite:///{file}")
    with httpx.Client(base_url=url, timeout=60) as client:
        finished = client.post("/responses", json={"input": "briefly"}).json()
        stream = client.post("/responses", json={"input": "briefly", "stream": True})
        streamed_events = list(events(stream.text.splitlines()))
        body = {"input": "at length", "background": True, "stream": True}
        received_events = []
        with client.stream("POST", "/responses", json=body) as answer:
            for event in events(answer.iter_lines()):
                received_events.append(event)
                if len(received_events) == 40:
                    process.kill()
                    break
        process.wait()
    background = received_events[0]["response"]["id"]
    _, url = start(LINES, "--store", f"sqlite:///{file}")
    with httpx.Client(base_url=url, timeout=60) as client:
        assert client.get(f"/responses/{finished['id']}").json() == finished
        last = streamed_events[-1]["response"]
        assert client.get(f"/responses/{last['id']}").json() == last
        replay = client.get(f"/responses/{last['id']}", params={"stream": True})
        assert list(events(replay.text.splitlines())) == streamed_events
        replay = client.get(f"/responses/{background}", params={"stream": "true"})
        stored_events = list(events(replay.text.splitlines()))
        shown = client.get(f"/responses/{background}").json()
    assert stored_events[: len(received_events)] == received_events
    assert stored_events[-1]["type"] == "response.failed"
    assert shown == stored_events[-1]["response"]
    assert "stopped before" in shown["error"]["message"]
    text = "".join(
        event["delta"] for event in stored_events if event["type"].endswith("text.delta")
    )
    assert shown["output"][0]["content"][0]["text"] == text
    assert shown["output"][0]["status"] == "incomplete"


def test_a_server_fails_the_responses_of_its_killed_predecessor_at_once(
    start: Start, file: Path
) -> None:
    process, url = start(LINES, "--store", f"sqlite:///{file}")
    body = {"input": "at length", "background": True}
    with httpx.Client(base_url=url, timeout=60) as client:
        unfinished_ids = [client.post("/responses", json=body).json()["id"] for _ in range(5)]
    process.kill()
    process.wait()
    _, url = start(LINES, "--store", f"sqlite:///{file}")
    with httpx.Client(base_url=url, timeout=60) as client:
        for response_id in unfinished_ids:
            while client.get(f"/responses/{response_id}").json()["status"] != "failed":
                # It was made a moment ago: by its silence it could not be known yet.
                assert _silence(file) < SILENT_SECONDS


def _silence(file: Path) -> float:
    """Seconds since any gateway was heard of that has runs."""
    with closing(sqlite3.connect(file)) as connection:
        query = "SELECT (julianday('now') - 2440587.5) * 86400.0 - max(beat_at) FROM runs"
        return float(connection.execute(query).fetchone()[0] or 0)
