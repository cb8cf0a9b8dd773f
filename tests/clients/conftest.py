"""A real server process on a free port, with the scripted engine, and clients from npm."""

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
from openai import OpenAI

from tests.forks import COMMAND, Fork, Forks
from tests.node import installed

LOGGING = f"import os; os.dup2(os.open({{path!r}}, os.O_WRONLY | os.O_CREAT), 2); {COMMAND}"
"""The command line, with its log in a file."""

DEFAULTS = ("--log-level", "warning", "--hosted-tools", "none")

Process = Fork | subprocess.Popen[str]
Start = Callable[..., tuple[Fork, str]]
Serve = Callable[..., str]
Install = Callable[[str], Path]
RunScript = Callable[..., Any]


@pytest.fixture(scope="module")
def start(forks: Forks, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Start]:
    """Starts servers: script lines and further options in, the process and the base URL out.

    Without lines the options name a backend. A server has the hosted tools that the options name:
    to start all takes ten times as long as the rest. log: the file that gets the log, where a test
    wants to see it.
    """
    processes: list[Fork] = []

    def start(
        lines: list[dict[str, Any]] | None, *options: str, log: Path | None = None
    ) -> tuple[Fork, str]:
        if lines is not None:
            script = tmp_path_factory.mktemp("script") / "script.jsonl"
            script.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
            options = ("--backend", "scripted", "--script", str(script), *options)
        arguments = ("serve", "--port", "0", *DEFAULTS, *options)
        program = LOGGING.format(path=str(log)) if log else COMMAND
        process = forks.start(*arguments, program=program)
        processes.append(process)
        return process, url_of(process)

    yield start
    for process in processes:
        process.send_signal(signal.SIGINT)
    with ExitStack() as ended:
        for process in processes:
            ended.callback(process.kill)
        for process in processes:
            if not process.stdout.closed:
                sys.stderr.write(process.end()[2])


def url_of(process: Process) -> str:
    """The base URL of a server, as soon as it serves."""
    assert process.stdout is not None
    ready = process.stdout.readline()
    assert ready.startswith("Serving "), ready
    return f"{ready.split()[-1]}/v1"


@pytest.fixture(scope="module")
def serve(start: Start) -> Serve:
    """Starts servers: script lines and further options in, the base URL out."""
    return lambda *arguments: start(*arguments)[1]


@pytest.fixture
def client(base_url: str) -> Iterator[OpenAI]:
    """The SDK, for a module with a fixture `base_url`."""
    with OpenAI(base_url=base_url, api_key="any", max_retries=0) as client:
        yield client


def with_python(start: Start, lines: list[dict[str, Any]], *options: str) -> tuple[Fork, str]:
    """A server that runs Python; the test is skipped where this machine cannot confine it."""
    process, url = start(lines, "--hosted-tools", "python", *options)
    python = httpx.get(f"{url.removesuffix('/v1')}/ready").json()["tools"]["python"]
    if python != "on":
        pytest.skip(f"python is {python}")
    return process, url


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
