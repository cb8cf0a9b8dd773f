"""A process as its guard starts and ends it, and what it is confined to without further layers."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from server.tools.process_tree import NOT_STARTED
from server.tools.python.confinement import landlock
from server.tools.python.confinement.command import Folders, Layers, Process, guarded, readable
from server.tools.python.confinement.confine import FAILED

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="sessions run on Linux alone")

USER = 12345
NO_LAYERS = Layers()
KILLED = 128 + signal.SIGKILL

Start = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts the guard of a command. before: the program that starts the guard."""
    started: list[subprocess.Popen[bytes]] = []

    def start_guard(
        *command: str,
        descriptors: Mapping[int, int] | None = None,
        before: tuple[str, ...] = (),
        folder: Path = tmp_path,
        layers: Layers = NO_LAYERS,
        **options: Any,
    ) -> subprocess.Popen[bytes]:
        folders = Folders.make(folder, options.get("user"))
        process, descriptors = Process(command, folders, **options), descriptors or {}
        guard = subprocess.Popen(
            [*before, *guarded(process, layers, descriptors)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=tuple(descriptors.values()),
            env={"SERVER_SECRET": "a"},
        )
        started.append(guard)
        return guard

    yield start_guard
    for guard in started:
        guard.communicate(timeout=60)


def python(code: str) -> tuple[str, ...]:
    """The command of a program that prints the value of an expression as JSON."""
    return (sys.executable, "-I", "-S", "-c", f"import json, os, sys; print(json.dumps({code}))")


def printed(guard: subprocess.Popen[bytes]) -> Any:
    """What the program printed, once it has ended by itself."""
    assert guard.stdout is not None
    assert guard.stderr is not None
    text = guard.stdout.read()
    assert guard.wait(60) == 0, guard.stderr.read()
    return json.loads(text)


def wait_for_the_end(*pids: int) -> None:
    """Wait until processes have ended. One that nobody waited for has ended, too."""
    deadline = time.monotonic() + 60
    for pid in pids:
        with suppress(FileNotFoundError, ProcessLookupError):
            while Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z":
                assert time.monotonic() < deadline, f"{pid} goes on"
                time.sleep(0.01)


@pytest.mark.parametrize(
    ("script", "status"),
    [("exit 3", 3), ("kill -TERM $$", 143), ("kill -INT $$", 130), ("kill -HUP $$", 129)],
)
def test_the_status_is_that_of_the_program(start: Start, script: str, status: int) -> None:
    assert start("/bin/sh", "-c", script).wait(60) == status


def test_a_program_that_does_not_exist_is_an_error(start: Start) -> None:
    guard = start("/missing")
    assert guard.wait(60) == FAILED
    assert guard.stderr is not None
    assert b"cannot be confined: [Errno 2]" in guard.stderr.read()


def test_bubblewrap_that_is_gone_is_an_error(start: Start) -> None:
    guard = start("/bin/true", layers=Layers(bubblewrap="/missing"))
    assert guard.wait(60) == NOT_STARTED
    assert guard.stderr is not None
    assert guard.stderr.read().startswith(b"/missing: [Errno 2]")


STARTS = "sleep 600 & echo $!; setsid sleep 600 & echo $!"
"""Starts a process of the program's group, and one of a group of its own."""


def test_all_that_was_started_ends_with_the_input_of_the_guard(start: Start) -> None:
    guard = start("/bin/sh", "-c", f"echo $$; {STARTS}; wait")
    assert guard.stdin is not None
    assert guard.stdout is not None
    pids = [int(guard.stdout.readline()) for _ in range(3)]
    guard.stdin.close()
    guard.stdin = None
    assert guard.wait(60) == KILLED
    wait_for_the_end(*pids)


def test_all_that_was_started_ends_with_the_program(start: Start) -> None:
    guard = start("/bin/sh", "-c", STARTS)
    assert guard.stdout is not None
    pids = [int(guard.stdout.readline()) for _ in range(2)]
    assert guard.wait(60) == 0
    wait_for_the_end(*pids)


def test_a_program_goes_on_when_another_process_of_it_ends(start: Start) -> None:
    reading, writing = os.pipe()
    orphan = "pid=$( (sleep 0 > /dev/null & echo $!) ); while kill -0 $pid 2> /dev/null; do :; done"
    guard = start(
        "/bin/sh", "-c", f"{orphan}; echo gone; read line <&3; exit 5", descriptors={3: reading}
    )
    os.close(reading)
    assert guard.stdout is not None
    assert guard.stdout.readline() == b"gone\n"
    os.write(writing, b"line\n")
    os.close(writing)
    assert guard.wait(60) == 5


def test_a_program_ends_with_its_guard(start: Start) -> None:
    guard = start("/bin/sh", "-c", "echo $$; exec sleep 600")
    assert guard.stdout is not None
    pid = int(guard.stdout.readline())
    guard.kill()
    wait_for_the_end(pid)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become other users")
def test_a_program_of_another_user_ends_with_its_guard(start: Start, root: Path) -> None:
    root.mkdir(mode=0o711)
    command = ("/bin/sh", "-c", "echo $$; exec sleep 600")
    guard = start(*command, folder=root, layers=Layers(user=True), user=USER)
    assert guard.stdout is not None
    pid = int(guard.stdout.readline())
    guard.kill()
    wait_for_the_end(pid)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_to_the_server_do_not_end_the_guard(start: Start, number: signal.Signals) -> None:
    """A terminal sends them to all processes; the server then ends the sessions itself."""
    reading, writing = os.pipe()
    code = "[print(flush=True), os.read(3, 9).decode()]"
    guard = start(*python(code), descriptors={3: reading})
    os.close(reading)
    assert guard.stdout is not None
    guard.stdout.readline()
    guard.send_signal(number)
    os.write(writing, b"x")
    os.close(writing)
    assert printed(guard) == [None, "x"]


def test_a_program_has_the_descriptors_that_it_is_given_alone(start: Start) -> None:
    pipes = [os.pipe() for _ in range(2)]
    (first, _), (second, _) = pipes
    for (_, writing), content in zip(pipes, (b"one", b"two"), strict=True):
        os.write(writing, content)
    code = (
        f"[os.read({first}, 9).decode(), os.read({second}, 9).decode(),"
        " [fd for fd in os.listdir('/proc/self/fd') if os.path.exists('/proc/self/fd/' + fd)]]"
    )
    guard = start(*python(code), descriptors={first: second, second: first})
    found = printed(guard)
    assert found[:2] == ["two", "one"]
    assert set(found[2]) == {"0", "1", "2", str(first), str(second)}
    for each in (each for pipe in pipes for each in pipe):
        os.close(each)


def test_a_program_has_its_own_environment_and_folder(start: Start, tmp_path: Path) -> None:
    guard = start(*python("[dict(os.environ), os.getcwd()]"), environment={"A": "b"})
    environment, folder = printed(guard)
    assert (environment.pop("A"), folder) == ("b", str(tmp_path / "data"))
    assert "SERVER_SECRET" not in environment


@pytest.mark.parametrize(("inherited", "limit"), [("100:100", 100), ("100:300", 200)])
def test_a_program_gets_its_limits_or_lower_ones(start: Start, inherited: str, limit: int) -> None:
    code = "__import__('resource').getrlimit(__import__('resource').RLIMIT_NOFILE)"
    before = ("prlimit", f"--nofile={inherited}")
    guard = start(*python(code), limits={"NOFILE": 200}, before=before)
    assert printed(guard) == [limit, limit]


def test_a_program_has_one_core_and_a_low_priority(start: Start) -> None:
    core = max(os.sched_getaffinity(0))
    guard = start(*python("[list(os.sched_getaffinity(0)), os.nice(0)]"), core=core)
    assert printed(guard) == [[core], min(os.nice(0) + 5, 19)]


def test_what_a_program_makes_is_for_its_user_alone(start: Start, tmp_path: Path) -> None:
    assert start("/bin/sh", "-c", "echo > file; mkdir folder").wait(60) == 0
    modes = [(tmp_path / "data" / name).stat().st_mode & 0o777 for name in ("file", "folder")]
    assert modes == [0o600, 0o700]


RIGHTS = (
    "[[line for line in open('/proc/self/status') if line.startswith(('Cap', 'NoNew'))],"
    " os.getresuid(), os.getresgid(), os.getgroups()]"
)


def test_a_program_has_no_rights_and_gains_none(start: Start) -> None:
    rights = printed(start(*python(RIGHTS)))[0]
    held = {line.split()[0]: line.split()[1] for line in rights}
    for name in ("CapInh", "CapPrm", "CapEff", "CapAmb"):
        assert int(held[f"{name}:"], 16) == 0
    assert held["NoNewPrivs:"] == "1"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become other users")
def test_a_program_becomes_its_user(start: Start, root: Path) -> None:
    root.mkdir(mode=0o711)
    script = "id -u; id -g; id -G; grep -E 'Cap(Eff|Bnd)' /proc/self/status"
    before, layers = ("setpriv", "--groups=4"), Layers(user=True)
    guard = start("/bin/sh", "-c", script, before=before, folder=root, layers=layers, user=USER)
    assert guard.wait(60) == 0
    assert guard.stdout is not None
    numbers, rights = [str(USER)] * 3, ["CapEff:", "0" * 16, "CapBnd:", "0" * 16]
    assert guard.stdout.read().decode().split() == numbers + rights


@pytest.mark.parametrize(
    ("layers", "code"),
    [
        (Layers(landlock=True), "open(os.path.dirname(os.getcwd()) + '/outside')"),
        (Layers(seccomp=True), "__import__('socket').socket()"),
    ],
    ids=["landlock", "seccomp"],
)
def test_a_layer_confines_the_program(
    start: Start, tmp_path: Path, layers: Layers, code: str
) -> None:
    if layers.landlock and landlock.version() < 1:
        pytest.skip("the kernel has no Landlock")
    (tmp_path / "outside").touch()
    guard = start(*python(code), layers=layers)
    assert guard.wait(60) == 1
    assert guard.stderr is not None
    assert b"PermissionError" in guard.stderr.read()


def test_an_environment_that_is_a_link_can_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.mkdir()
    link.symlink_to(target)
    monkeypatch.setattr(sys, "prefix", str(link))
    assert {str(link), str(target)} <= set(readable())
