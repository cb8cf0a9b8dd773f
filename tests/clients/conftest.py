"""A real server process on a free port, with the scripted engine."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]

Start = Callable[..., tuple[subprocess.Popen[str], str]]
Serve = Callable[..., str]


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Start]:
    """Starts servers: script lines and further options in, the process and the base URL out."""
    processes: list[subprocess.Popen[str]] = []

    def start(lines: list[dict[str, Any]], *options: str) -> tuple[subprocess.Popen[str], str]:
        script = tmp_path_factory.mktemp("script") / "script.jsonl"
        script.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        command = [sys.executable, "-m", "server", "serve", "--backend", "scripted"]
        process = subprocess.Popen(
            [*command, "--script", str(script), "--port", "0", *options],
            cwd=ROOT,
            env=os.environ | {"GPT_OSS_LOG_LEVEL": "warning"},
            stdout=subprocess.PIPE,
            text=True,
        )
        processes.append(process)
        assert process.stdout is not None
        ready = process.stdout.readline()
        assert ready.startswith("Serving "), ready
        return process, f"{ready.split()[-1]}/v1"

    yield start
    for process in processes:
        process.send_signal(signal.SIGINT)
    for process in processes:
        process.communicate(timeout=60)


@pytest.fixture(scope="module")
def serve(start: Start) -> Serve:
    """Starts servers: script lines and further options in, the base URL out."""
    return lambda *arguments: start(*arguments)[1]
