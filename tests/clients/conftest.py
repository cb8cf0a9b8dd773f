"""A real server process on a free port, with the scripted engine, and clients from npm."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import pytest

from tests.node import installed

ROOT = Path(__file__).parents[2]

Start = Callable[..., tuple[subprocess.Popen[str], str]]
Serve = Callable[..., str]
Install = Callable[[str], Path]
RunScript = Callable[..., Any]


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Start]:
    """Starts servers: script lines and further options in, the process and the base URL out.

    Without lines the options name a backend. stderr: the file that gets the log, where a test wants
    to see it.
    """
    processes: list[subprocess.Popen[str]] = []

    def start(
        lines: list[dict[str, Any]] | None, *options: str, stderr: IO[bytes] | None = None
    ) -> tuple[subprocess.Popen[str], str]:
        if lines is not None:
            script = tmp_path_factory.mktemp("script") / "script.jsonl"
            script.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
            options = ("--backend", "scripted", "--script", str(script), *options)
        process = subprocess.Popen(
            [sys.executable, "-m", "server", "serve", "--port", "0", *options],
            cwd=ROOT,
            env=os.environ | {"GPT_OSS_LOG_LEVEL": "warning"},
            stdout=subprocess.PIPE,
            stderr=stderr,
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


@pytest.fixture(scope="session")
def install() -> Install:
    """Installs a folder's packages by its lock file. Returns where they are.

    They stay in the environment, and are installed again if the folder changes.
    """

    def install(name: str) -> Path:
        return installed(Path(__file__).parent / name)

    return install


@pytest.fixture(scope="session")
def run_script(install: Install) -> RunScript:
    """Runs a script of the folder `js`: its name and arguments in, the JSON that it prints out."""

    def run_script(*arguments: str) -> Any:
        done = subprocess.run(
            ["node", *arguments],
            cwd=install("js"),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run_script
