"""The Codex CLI against a real server process: a turn with a command, by HTTP and by WebSocket."""

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.documentation import ROOT, blocks

MODEL = "gpt-oss-test"
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
(CONFIG,) = blocks(ROOT / "docs/clients.md", "toml")


@pytest.mark.parametrize("websockets", [False, True])
def test_a_command_is_run_and_its_output_returned(
    install: Callable[[str], Path],
    start: Callable[..., tuple[subprocess.Popen[str], str]],
    tmp_path: Path,
    websockets: bool,
) -> None:
    codex = install("codex") / "node_modules" / ".bin" / "codex"
    log = tmp_path / "server.log"
    with log.open("wb") as stderr:
        options = ("--served-model-name", MODEL, "--log-level", "info")
        _, base_url = start(SCRIPT, *options, stderr=stderr)
    folder, home = tmp_path / "folder", tmp_path / "home"
    folder.mkdir()
    home.mkdir()
    (folder / "note.txt").write_text("a wombat\n")
    config = CONFIG.replace("gpt-oss-demo", MODEL).replace("http://localhost:8000/v1", base_url)
    assert config.endswith("supports_websockets = true\n")
    (home / "config.toml").write_text(config.replace("= true", f"= {str(websockets).lower()}"))
    flags = ["--json", "--skip-git-repo-check", "--sandbox", "danger-full-access"]
    done = subprocess.run(
        [codex, "exec", *flags, "Read the note"],
        cwd=folder,
        env=os.environ | {"CODEX_HOME": str(home)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    events = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    items = [event["item"] for event in events if event["type"] == "item.completed"]
    (command,) = (item for item in items if item["type"] == "command_execution")
    assert (command["aggregated_output"], command["exit_code"]) == ("a wombat\n", 0)
    assert items[-1]["text"] == "The note is about an animal."
    # If the WebSocket fails, Codex continues over HTTP.
    log_text = log.read_text()
    assert ("WS /v1/responses completed" in log_text) == websockets
    assert ("POST /v1/responses 200" in log_text) != websockets
