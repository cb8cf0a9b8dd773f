"""Answers that end within a call of Python, on real server processes with a real sandbox.

The server is killed, the answer is cancelled, or the client leaves: nothing goes on running.
"""

import asyncio
import json
import os
import select
import signal
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from openai import AsyncOpenAI

from tests.clients.conftest import Start, with_python
from tests.forks import Fork
from tests.sampled import call, final

TOOL = {"type": "code_interpreter", "container": {"type": "auto"}}
MOST_SECONDS = 60
"""When a test gives up."""
AT_ONCE = 12
"""Answers with a process each: more than are started at the same time."""


LONG = 'import subprocess; subprocess.run(["sleep", "4711"])'
LINES = [{"prompt_contains": "Wait", "completion": call(LONG)}]


def events(lines: Iterator[str]) -> Iterator[dict[str, Any]]:
    for line in lines:
        if line.startswith("data: {"):
            yield json.loads(line.removeprefix("data: "))


def descendants(pid: int) -> list[int]:
    """The processes that `pid` has started, and those that they have."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
        except (FileNotFoundError, ProcessLookupError):
            continue
        children.setdefault(parent, []).append(int(stat.parent.name))
    found = [pid]
    for each in found:
        found += children.get(each, [])
    return found[1:]


def is_sleeping(pid: int) -> bool:
    try:
        return b"4711" in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except (FileNotFoundError, ProcessLookupError):
        return False


def sleeping(server: int) -> int:
    """The process that the cell has started, as soon as it runs."""
    while True:
        for pid in descendants(server):
            if is_sleeping(pid):
                return pid


class Cell:
    """A cell that runs: the id of its answer, and its server's processes."""

    def __init__(self, server: int, shown: list[dict[str, Any]]) -> None:
        self.response_id = shown[0]["response"]["id"]
        self.child = sleeping(server)
        self.processes = descendants(server)


def until_interpreting(stream: httpx.Response) -> list[dict[str, Any]]:
    shown = []
    for event in events(stream.iter_lines()):
        shown.append(event)
        if event["type"].endswith(".interpreting"):
            break
    return shown


class Ends:
    """The ends of processes. Those that have ended before it is made are left out."""

    def __init__(self, *pids: int) -> None:
        self._opened = ExitStack()
        self._waiting = []
        for pid in pids:
            with suppress(ProcessLookupError):
                file = os.pidfd_open(pid)
                self._opened.callback(os.close, file)
                self._waiting.append(file)

    def wait(self) -> None:
        """Return when all have ended."""
        with self._opened:
            for file in self._waiting:
                ended, _, _ = select.select([file], [], [], MOST_SECONDS)
                assert ended, "a process still runs"


def test_nothing_of_a_killed_server_goes_on(start: Start, tmp_path: Path) -> None:
    store = ("--store", f"sqlite:///{tmp_path}/store.db")
    process, url = with_python(start, LINES, *store)
    body = {"input": "Wait.", "tools": [TOOL], "background": True, "stream": True}
    with httpx.Client(base_url=url, timeout=60) as http:
        with http.stream("POST", "/responses", json=body) as stream:
            cell = Cell(process.pid, until_interpreting(stream))
            ends = Ends(*cell.processes)
            process.kill()
        ends.wait()
    process.wait()
    _, url = with_python(start, LINES, *store)
    with httpx.Client(base_url=url, timeout=60) as http:
        while (stored := http.get(f"/responses/{cell.response_id}").json())["status"] != "failed":
            pass
    (item,) = stored["output"]
    assert (item["type"], item["status"]) == ("code_interpreter_call", "incomplete")
    assert item["code"] == LONG
    assert "stopped before" in stored["error"]["message"]


@pytest.fixture(scope="module")
def waiting(start: Start) -> tuple[Fork, str]:
    """A server for tests that leave no cell behind."""
    return with_python(start, LINES)


def test_a_cancelled_answer_ends_its_cell(waiting: tuple[Fork, str]) -> None:
    process, url = waiting
    body = {"input": "Wait.", "tools": [TOOL], "background": True, "stream": True}
    with httpx.Client(base_url=url, timeout=60) as http:
        with http.stream("POST", "/responses", json=body) as stream:
            cell = Cell(process.pid, until_interpreting(stream))
        ends = Ends(cell.child)
        http.post(f"/responses/{cell.response_id}/cancel")
        ends.wait()
        while (stored := http.get(f"/responses/{cell.response_id}").json())[
            "status"
        ] != "cancelled":
            pass
    assert [item["status"] for item in stored["output"]] == ["incomplete"]


@pytest.mark.parametrize("path", ["/responses", "/chat/completions"])
def test_a_client_that_leaves_ends_its_cell(waiting: tuple[Fork, str], path: str) -> None:
    process, url = waiting
    body: dict[str, Any] = {"stream": True, "tools": [TOOL]}
    with httpx.Client(base_url=url, timeout=60) as http:
        if path == "/responses":
            body["input"] = "Wait."
        else:
            message = {"role": "user", "content": "Wait."}
            body |= {"messages": [message], "model": "scripted"}
        with http.stream("POST", path, json=body):
            ends = Ends(sleeping(process.pid))
        ends.wait()


def test_a_stopped_server_ends_its_cells(start: Start) -> None:
    process, url = with_python(start, LINES, "--drain-seconds", "0")
    body = {"input": "Wait.", "tools": [TOOL], "stream": True}
    with (
        httpx.Client(base_url=url, timeout=60) as http,
        http.stream("POST", "/responses", json=body),
    ):
        child = sleeping(process.pid)
        ends = Ends(child, *descendants(process.pid))
        process.send_signal(signal.SIGTERM)
        ends.wait()
    process.wait()


async def test_answers_at_once_have_states_of_their_own(start: Start) -> None:
    def turns(name: str) -> list[dict[str, Any]]:
        return [
            {"prompt_contains": f"<|message|>has {name}", "completion": final(f"Done {name}.")},
            {"prompt_contains": f"<|message|>set {name}", "completion": call("print('has', x)")},
            {
                "prompt_contains": f"Ask {name}",
                "completion": call(f"x = '{name}'\nprint('set', x)"),
            },
        ]

    names = [f"number{index:02}" for index in range(AT_ONCE)]
    _, url = with_python(start, [line for name in names for line in turns(name)])
    async with AsyncOpenAI(base_url=url, api_key="any", max_retries=0, timeout=300) as client:
        made = await asyncio.gather(
            *(
                client.responses.create(model="scripted", input=f"Ask {name}", tools=[TOOL])  # type: ignore[list-item]
                for name in names
            )
        )
    assert [each.output_text for each in made] == [f"Done {name}." for name in names]
    containers = {each.output[0].container_id for each in made}  # type: ignore[union-attr]
    assert len(containers) == AT_ONCE
