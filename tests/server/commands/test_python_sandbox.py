"""The command `python-sandbox` as a process: it starts, serves, and leaves nothing behind."""

import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from server.commands.main import main
from server.commands.python_sandbox import ServiceOptions
from server.tools.python.opening import default_folder, open_sandbox
from server.tools.python.process import ProcessSandbox
from server.tools.python.remote import RemoteSandbox
from server.tools.python.sandbox import CellEnd, OutputText, SandboxLimits
from tests.server.commands.conftest import StartFork


@pytest.fixture
def service() -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The process and its address."""
    folder = tempfile.mkdtemp(prefix="gpt-oss-test-")
    os.chmod(folder, 0o711)
    command = [sys.executable, "-m", "server", "python-sandbox", "--port", "0", "--folder"]
    with subprocess.Popen(
        [*command, f"{folder}/root"],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "GPT_OSS_PYTHON_SANDBOX_KEY": "k"},
    ) as process:
        assert process.stderr is not None
        text = ""
        for line in process.stderr:
            text += line
            if found := re.search(r"Python sessions at (\S+)", line):
                yield process, found[1]
                process.terminate()
                break
        else:
            pytest.skip(text)
    subprocess.run(["rm", "-rf", folder], check=True)


async def test_sessions_run_over_http(service: tuple[subprocess.Popen[str], str]) -> None:
    process, url = service
    async with httpx.AsyncClient() as client:
        assert (await client.get(f"{url}/status")).status_code == 401
    remote = open_sandbox(url, "k", None, 1)
    await remote.start()
    assert remote.problem is None
    assert remote.layers["seccomp"] == "on"
    await remote.create("a", SandboxLimits())
    events = [event async for event in remote.run("a", "open('/mnt/data/x', 'w').write('y')", 60)]
    assert events == [OutputText("result", "1\n"), CellEnd("completed")]
    assert [file.path for file in await remote.files("a")] == ["x"]
    await remote.stop()
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 0


STOPPING = """
import asyncio
from server.commands import python_sandbox
from server.commands.main import main


class Sandbox:
    layers, problem = {}, None

    def __init__(self, *_, **__): ...

    async def start(self): ...

    async def stop(self):
        await asyncio.sleep(0.01)
        print("all sessions ended", flush=True)


async def serve_and_say(app, listener, announce, serve=python_sandbox.serve_site):
    await serve(app, listener, lambda address: print(address, flush=True))


python_sandbox.ProcessSandbox, python_sandbox.serve_site = Sandbox, serve_and_say
sys.exit(main(["python-sandbox", "--port", "0"]))
"""


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 0), (signal.SIGHUP, 0)]
)
def test_an_interrupt_ends_all_sessions(
    fork: StartFork, number: signal.Signals, status: int
) -> None:
    process = fork(program=STOPPING)
    assert process.stdout.readline().startswith("http://")
    process.send_signal(number)
    ended, shown, _ = process.end()
    assert (ended, shown) == (status, "all sessions ended\n")


INTERRUPTED_TWICE = """
import signal
from server.commands import site

start = site._Server.startup

async def startup(self, sockets=None):
    await start(self, sockets)
    signal.raise_signal(signal.SIGINT)
    signal.raise_signal(signal.SIGINT)

site._Server.startup = startup
"""


def test_two_interrupts_end_it_without_a_traceback(fork: StartFork) -> None:
    status, _, log = fork(program=INTERRUPTED_TWICE + STOPPING).end()
    assert status == 130
    assert "Traceback" not in log


def test_a_key_is_needed_where_others_can_reach_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("GPT_OSS_PYTHON_SANDBOX_KEY", raising=False)
    assert main(["python-sandbox", "--host", "0.0.0.0", "--port", "0"]) == 1
    assert "set --key" in capsys.readouterr().err


def test_a_port_in_use_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        assert main(["python-sandbox", "--port", port]) == 1
    assert capsys.readouterr().err == (
        f"gpt-oss-server python-sandbox: cannot listen on 127.0.0.1:{port}: "
        "Address already in use\n"
    )


def test_a_sandbox_that_cannot_run_ends_the_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    assert main(["python-sandbox", "--port", "0", "--folder", str(tmp_path / "file" / "x")]) == 1
    assert capsys.readouterr().err != ""


def test_the_options_select_the_sandbox(tmp_path: Path) -> None:
    assert isinstance(open_sandbox("process", None, tmp_path, 1), ProcessSandbox)
    assert isinstance(open_sandbox("http://sandbox", "", None, 1), RemoteSandbox)
    assert ServiceOptions().port == 8001


def test_sessions_of_root_are_not_below_its_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert default_folder() == Path("/var/lib/gpt-oss-server/python")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert default_folder().parts[-2:] == ("gpt-oss-server", "python")
