"""The Codex CLI against a real server process: a turn with a command, by HTTP and by WebSocket."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.clients.codex_cli import MODEL, run_codex
from tests.clients.conftest import Start

SCRIPT = [
    {
        "prompt_contains": "a wombat",
        "completion": "<|channel|>final<|message|>The note is about an animal.<|return|>",
    },
    {
        "prompt_contains": "Read the note",
        "completion": "<|channel|>analysis<|message|>Look.<|end|>"
        "<|start|>assistant<|channel|>commentary to=functions.exec_command <|constrain|>json"
        '<|message|>{"cmd":"cat note.txt"}<|call|>',
    },
]


@pytest.mark.parametrize("websockets", [False, True])
def test_a_command_is_run_and_its_output_returned(
    install: Callable[[str], Path],
    start: Start,
    tmp_path: Path,
    websockets: bool,
) -> None:
    log = tmp_path / "server.log"
    options = ("--served-model-name", MODEL, "--log-level", "info")
    _, base_url = start(SCRIPT, *options, log=log)
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "note.txt").write_text("a wombat\n")
    flags = ("--sandbox", "danger-full-access")
    items = run_codex(
        install("codex"), base_url, "Read the note", folder, *flags, websockets=websockets
    )
    (command,) = (item for item in items if item["type"] == "command_execution")
    assert (command["aggregated_output"], command["exit_code"]) == ("a wombat\n", 0)
    assert items[-1]["text"] == "The note is about an animal."
    # If the WebSocket fails, Codex continues over HTTP.
    log_text = log.read_text()
    assert ("WS /v1/responses completed" in log_text) == websockets
    assert ("POST /v1/responses 200" in log_text) != websockets
