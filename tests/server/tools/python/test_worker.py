"""What the worker does to code and objects before they leave it."""

import ast
from typing import Any

import pytest

from server.tools.python import worker
from server.tools.python.worker import DataPaths, send_data, send_text

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
