"""What the worker does to code and objects before they leave it, and to interrupts."""

import ast
import os
import queue
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from server.tools.python import worker
from server.tools.python.frames import FrameReader, parse, request
from server.tools.python.worker import Channel, DataPaths, send_data, send_text

FOLDER = "/srv/s/data"


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("open('/mnt/data/x')", f"open('{FOLDER}/x')"),
        ("f'/mnt/data/{name}'", f"f'{FOLDER}/{{name}}'"),
        ("'/mnt/data'", f"'{FOLDER}'"),
        ("'/mnt/database'", "'/mnt/database'"),
        ("'see /mnt/data/x'", "'see /mnt/data/x'"),
        (
            "shell.system('ls /mnt/data; cat /mnt/data/x')",
            f"shell.system('ls {FOLDER}; cat {FOLDER}/x')",
        ),
        ("shell.system('ls /x/mnt/data')", "shell.system('ls /x/mnt/data')"),
        ("b'/mnt/data'", "b'/mnt/data'"),
    ],
)
def test_paths_are_rewritten(code: str, expected: str) -> None:
    tree = DataPaths(FOLDER).visit(ast.parse(f"x = {code}"))
    assert ast.unparse(tree) == f"x = {expected}"


class Recorder:
    """A channel that keeps what is sent."""

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []

    def send(self, event: str, **fields: Any) -> None:
        self.sent.append({"event": event, **fields})


def test_long_text_is_sent_in_parts() -> None:
    channel: Any = Recorder()
    send_text(channel, "result", "x" * (worker.TEXT_CHARACTERS + 1))
    assert [len(event["text"]) for event in channel.sent] == [worker.TEXT_CHARACTERS, 1]


def test_an_object_is_sent_as_text_and_image() -> None:
    channel: Any = Recorder()
    send_data(channel, {"text/plain": "x", "text/html": "<b>", "image/png": b"\0"})
    assert channel.sent == [
        {"event": "text", "stream": "result", "text": "x\n"},
        {"event": "image", "media_type": "image/png", "data": "AA=="},
    ]


def test_a_large_image_is_replaced_by_a_note() -> None:
    channel: Any = Recorder()
    send_data(channel, {"image/png": bytes(worker.IMAGE_BYTES + 1)})
    assert "left out" in channel.sent[0]["text"]


@pytest.fixture
def handler() -> Iterator[None]:
    """The handler of interrupts, which the worker changes, as it was."""
    before = signal.getsignal(signal.SIGINT)
    yield
    signal.signal(signal.SIGINT, before)


class Pipes:
    """A channel, and the other ends of its pipes."""

    def __init__(self) -> None:
        requests, self._requests = os.pipe()
        self._events, events = os.pipe()
        self.channel = Channel(requests, events)

    def receive(self, *requests: bytes) -> list[tuple[str, str]]:
        """Let the worker read requests, the last ones. Returns the cells that it will run."""
        cells: queue.SimpleQueue[tuple[str, str] | None] = queue.SimpleQueue()
        os.write(self._requests, b"".join(requests))
        os.close(self._requests)
        worker._receive(self.channel, cells)
        return list(iter(cells.get, None))

    def events(self) -> list[dict[str, Any]]:
        self.channel.close()
        with open(self._events, "rb") as file:
            return [parse(frame) for frame in FrameReader().feed(file.read())]


class FakeShell:
    """Notes the cells that it runs."""

    success = True

    def __init__(self) -> None:
        self.ran: list[str] = []

    def run_cell(self, code: str, *, store_history: bool) -> "FakeShell":
        self.ran.append(code)
        return self


@pytest.mark.usefixtures("handler")
def test_a_cell_that_is_interrupted_before_it_begins_does_not_run() -> None:
    pipes, shell = Pipes(), FakeShell()
    fake: Any = shell
    first, second = request(cell="a", code="1"), request(cell="b", code="2")
    for cell in pipes.receive(first, request(interrupt="a"), second):
        worker._run(pipes.channel, fake, *cell)
    assert shell.ran == ["2"]
    assert pipes.events() == [
        {"event": "text", "cell": "a", "stream": "error", "text": "KeyboardInterrupt\n"},
        {"event": "end", "cell": "a", "raised": True},
        {"event": "end", "cell": "b", "raised": False},
    ]


@pytest.mark.usefixtures("handler")
def test_an_interrupt_that_comes_before_signals_are_ignored_ends_the_cell_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plain, late = signal.signal, iter([KeyboardInterrupt()])

    def interrupted(number: int, action: Any) -> None:
        if action == signal.SIG_IGN and (interrupt := next(late, None)):
            raise interrupt
        plain(number, action)

    pipes, shell = Pipes(), FakeShell()
    fake: Any = shell
    cells = pipes.receive(request(cell="a", code="1"), request(cell="b", code="2"))
    monkeypatch.setattr(signal, "signal", interrupted)
    for cell in cells:
        worker._run(pipes.channel, fake, *cell)
    monkeypatch.undo()
    assert shell.ran == ["1", "2"]
    assert signal.getsignal(signal.SIGINT) == signal.SIG_IGN
    assert [event["event"] for event in pipes.events()] == ["text", "end", "end"]
