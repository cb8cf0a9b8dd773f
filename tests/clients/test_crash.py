"""`kill -9`: nothing that a client was told is lost, and nothing stays in progress for ever."""

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


def test_what_was_told_outlives_a_kill(start: Start, file: Path) -> None:
    process, url = start(LINES, "--store", f"sqlite:///{file}")
    with httpx.Client(base_url=url, timeout=60) as client:
        finished = client.post("/responses", json={"input": "briefly"}).json()
        stream = client.post("/responses", json={"input": "briefly", "stream": True})
        told = list(events(stream.text.splitlines()))
        body = {"input": "at length", "background": True, "stream": True}
        seen = []
        with client.stream("POST", "/responses", json=body) as answer:
            for event in events(answer.iter_lines()):
                seen.append(event)
                if len(seen) == 40:
                    process.kill()
                    break
        process.wait()
    background = seen[0]["response"]["id"]
    _, url = start(LINES, "--store", f"sqlite:///{file}")
    with httpx.Client(base_url=url, timeout=60) as client:
        assert client.get(f"/responses/{finished['id']}").json() == finished
        last = told[-1]["response"]
        assert client.get(f"/responses/{last['id']}").json() == last
        replay = client.get(f"/responses/{last['id']}", params={"stream": True})
        assert list(events(replay.text.splitlines())) == told
        replay = client.get(f"/responses/{background}", params={"stream": "true"})
        kept = list(events(replay.text.splitlines()))
        shown = client.get(f"/responses/{background}").json()
    assert kept[: len(seen)] == seen
    assert kept[-1]["type"] == "response.failed"
    assert shown == kept[-1]["response"]
    assert "stopped before" in shown["error"]["message"]
    text = "".join(event["delta"] for event in kept if event["type"].endswith("text.delta"))
    assert shown["output"][0]["content"][0]["text"] == text
    assert shown["output"][0]["status"] == "incomplete"


def test_a_server_ends_what_its_killed_predecessor_left_at_once(start: Start, file: Path) -> None:
    process, url = start(LINES, "--store", f"sqlite:///{file}")
    body = {"input": "at length", "background": True}
    with httpx.Client(base_url=url, timeout=60) as client:
        left = [client.post("/responses", json=body).json()["id"] for _ in range(5)]
    process.kill()
    process.wait()
    _, url = start(LINES, "--store", f"sqlite:///{file}")
    with httpx.Client(base_url=url, timeout=60) as client:
        for response_id in left:
            while client.get(f"/responses/{response_id}").json()["status"] != "failed":
                # It was made a moment ago: by its silence it could not be known yet.
                assert _silence(file) < SILENT_SECONDS


def _silence(file: Path) -> float:
    """Seconds since any gateway was heard of that has runs."""
    with closing(sqlite3.connect(file)) as connection:
        query = "SELECT (julianday('now') - 2440587.5) * 86400.0 - max(beat_at) FROM runs"
        return float(connection.execute(query).fetchone()[0] or 0)
