"""Commands of the server as forks of a process that has imported what they need.

Imports are most of the processor time that a server with the scripted engine takes to start and
stop. A fork is a process of its own, with its own descriptors, signals, exit status and end of the
interpreter. What it cannot show is how the interpreter starts and what is imported: tests of these
start the command itself.
"""

import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from harmony.mask_tokenizer import mask_tokenizer

ROOT = Path(__file__).parents[1]
SERVE = (
    "server.commands.option_help",
    "server.commands.playground",
    "server.commands.serve",
    "server.store.responses.sql",
    "server.tools.browser.tool",
    "server.tools.mcp.tool",
    "adapters.scripted",
)
"""What `serve` and `playground` import, before they run and while they do."""

COMMAND = "from server.__main__ import main; sys.exit(main())"
PATIENCE = 60
"""Seconds after which a process that should have ended is taken for one that hangs."""

_MOST_BYTES = 1 << 20


class Fork:
    """A process that was forked; its output is read from `stdout`."""

    def __init__(self, stdout: int, stderr: int, status: int) -> None:
        self.stdout = os.fdopen(stdout, encoding="utf-8")
        self._stderr = os.fdopen(stderr, "r+", encoding="utf-8")
        self._status = os.fdopen(status, encoding="utf-8")
        self._returncode: int | None = None
        self.pid = int(self._status.readline())

    def send_signal(self, number: signal.Signals) -> None:
        if self._returncode is None:
            with suppress(ProcessLookupError):  # it has ended, and nobody has waited for it
                os.kill(self.pid, number)

    def wait(self) -> int:
        """The exit status."""
        if self._returncode is None:
            _await_end(self._status)
            self._returncode = int(self._status.readline())
        return self._returncode

    def end(self) -> tuple[int, str, str]:
        """The exit status, what is left of standard output, and all of standard error."""
        status = self.wait()
        self._stderr.seek(0)
        _await_end(self.stdout)  # a process that it left behind would have it
        return status, self.stdout.read(), self._stderr.read()

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)
        self.wait()
        for file in (self.stdout, self._stderr, self._status):
            file.close()


class Forks:
    """Starts processes that have `modules` imported."""

    def __init__(self, *modules: str) -> None:
        self._requests, requests = socket.socketpair()
        command = [sys.executable, "-m", "tests.forks", *modules]
        with requests:
            self._process = subprocess.Popen(command, cwd=ROOT, stdin=requests.fileno())

    def start(self, *arguments: str, program: str = COMMAND, folder: Path = ROOT) -> Fork:
        """Run a Python program, by default the command line, with `arguments`."""
        stdout, their_stdout = os.pipe()
        status, their_status = os.pipe()
        stderr, log = tempfile.mkstemp()
        os.unlink(log)
        theirs = [their_stdout, stderr, their_status]
        request = {"arguments": arguments, "program": program, "folder": str(folder)}
        message = json.dumps({**request, "environment": dict(os.environ)}).encode()
        assert len(message) < _MOST_BYTES
        socket.send_fds(self._requests, [message + b"\n"], theirs)
        os.close(their_stdout)
        os.close(their_status)
        return Fork(stdout, stderr, status)

    def close(self) -> None:
        self._requests.close()
        self._process.wait(PATIENCE)


def _await_end(pipe: Any) -> None:
    """Return when no process has the other end of `pipe`."""
    poll = select.poll()
    poll.register(pipe, 0)
    assert poll.poll(PATIENCE * 1000), "the process hangs"


def main(modules: Sequence[str]) -> None:
    """Import `modules`, then fork for each request until no more can come."""
    for module in modules:
        importlib.import_module(module)
    mask_tokenizer()  # a server that starts would build it
    with socket.socket(fileno=os.dup(0)) as requests:
        request = _next_fork(requests)
    if request is None:
        _reap()
        os._exit(0)  # what was imported need not be freed
    sys.argv = ["gpt-oss-server", *request["arguments"]]
    exec(compile(request["program"], "<fork>", "exec"), {"__name__": "__main__", "sys": sys})


def _next_fork(requests: socket.socket) -> dict[str, Any] | None:
    """Returns a request in a new process for it, and None in this one."""
    while True:
        message, descriptors, *_ = socket.recv_fds(requests, _MOST_BYTES, 3)
        if not message:
            return None
        while not message.endswith(b"\n"):
            message += requests.recv(_MOST_BYTES)
        if os.fork() == 0:
            _fork_and_report(*descriptors)
            return _set_up(json.loads(message), *descriptors)
        for descriptor in descriptors:
            os.close(descriptor)
        _reap()


def _reap() -> None:
    """Forget the processes that have reported. `time` counts what they took."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            continue


def _fork_and_report(stdout: int, stderr: int, status: int) -> None:
    """Returns in a new process. This one tells who that is, and then how it ended."""
    process = os.fork()
    if process == 0:
        return
    os.close(stdout)
    os.close(stderr)
    os.write(status, b"%d\n" % process)
    _, ended = os.waitpid(process, 0)
    os.write(status, b"%d\n" % os.waitstatus_to_exitcode(ended))
    os._exit(0)


def _set_up(request: dict[str, Any], stdout: int, stderr: int, status: int) -> dict[str, Any]:
    """Make this process what the request describes."""
    os.dup2(stdout, 1)
    os.dup2(stderr, 2)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    for descriptor in (stdout, stderr, status, nothing):
        os.close(descriptor)
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["folder"])
    return request


if __name__ == "__main__":
    main(sys.argv[1:])
