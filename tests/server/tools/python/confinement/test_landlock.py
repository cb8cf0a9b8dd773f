"""What Landlock alone leaves to a process: other layers refuse much of this, too."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from errno import EACCES, EPERM, EXDEV
from pathlib import Path

import pytest

from server.tools.python.confinement import landlock
from server.tools.python.confinement.command import readable

pytestmark = pytest.mark.skipif(landlock.version() < 1, reason="the kernel has no Landlock")

PROGRAM = """
import ctypes, json, os, shutil, socket, subprocess, sys
from server.tools.python.confinement import landlock
read, write, code = json.loads(sys.argv[1])
ctypes.CDLL(None).prctl(38, 1, 0, 0, 0)  # PR_SET_NO_NEW_PRIVS
landlock.restrict(read, write)
try:
    exec(code)
except OSError as error:
    sys.exit(error.errno)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Folders that may be read or written, one of neither, and a file that may be written."""
    for name in ("read", "write", "other", "more"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text("text")
        (tmp_path / name / "empty").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


WITHOUT_RIGHTS = """
import os
from server.tools.python.confinement import landlock
if os.getuid() == 0:
    os.setresuid(12345, 12345, 12345)
try:
    landlock.restrict([], [])
except OSError as error:
    print(error.errno, error.strerror)
"""


def run(*arguments: str) -> subprocess.CompletedProcess[bytes]:
    """Run a Python program, which writes nothing to stderr.

    Coverage is not measured there: a restricted process could not write its file.
    """
    environment = {**os.environ, "PYTHONPATH": str(Path(landlock.__file__).parents[4])}
    environment.pop("COVERAGE_PROCESS_CONFIG", None)
    command = [sys.executable, "-c", *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, check=False)
    assert not done.stderr
    return done


def error_of(code: str) -> int:
    """The number of the error with which the code ends in a restricted process, 0 for none."""
    here = Path.cwd()
    read = [str(here / "read"), *readable(), str(here / "missing")]
    write = [str(here / name) for name in ("write", "more", "other/file", "missing")]
    return run(PROGRAM, json.dumps([read, write, code])).returncode


@pytest.mark.parametrize(
    "code",
    [
        "open('read/file').read()",
        "os.listdir('read')",
        "subprocess.run(['/bin/true'], check=True)",
        "open('write/file').read()",
        "os.listdir('write')",
        "open('write/file', 'a').write('more')",
        "open('write/new', 'x')",
        "os.mkdir('write/new')",
        "os.rmdir('write/empty')",
        "os.unlink('write/file')",
        "os.symlink('file', 'write/link')",
        "os.mkfifo('write/fifo')",
        "os.rename('write/file', 'write/new')",
        "open('other/file').read()",
        "open('other/file', 'a').write('more')",
    ],
)
@pytest.mark.usefixtures("folder")
def test_what_is_below_the_paths_is_used(code: str) -> None:
    assert error_of(code) == 0


@pytest.mark.parametrize(
    "code",
    [
        "open('other/new', 'x')",
        "os.listdir('other')",
        "os.listdir('.')",
        "os.unlink('other/file')",
        "open('read/file', 'a')",
        "open('read/new', 'x')",
        "os.mkdir('read/new')",
        "os.rmdir('read/empty')",
        "os.unlink('read/file')",
        "os.symlink('file', 'read/link')",
        "os.mkfifo('read/fifo')",
        "socket.socket(socket.AF_UNIX).bind('write/socket')",
        "shutil.copy('/bin/true', 'write/true'); subprocess.run(['write/true'])",
    ],
)
@pytest.mark.usefixtures("folder")
def test_nothing_else_is_used(code: str) -> None:
    assert error_of(code) == EACCES


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make devices")
@pytest.mark.parametrize("kind", ["S_IFCHR", "S_IFBLK"])
@pytest.mark.usefixtures("folder")
def test_no_device_is_made(kind: str) -> None:
    code = f"import stat; os.mknod('write/device', stat.{kind}, os.makedev(1, 3))"
    assert error_of(code) in (EACCES, EPERM)


def test_a_process_that_cannot_be_restricted_gets_an_error() -> None:
    """Such as one that may gain rights; else it would go on without a limit."""
    if "NoNewPrivs:\t1" in Path("/proc/self/status").read_text():
        pytest.skip("no process gains rights here")
    assert run(WITHOUT_RIGHTS).stdout == b"%d Landlock: Operation not permitted\n" % EPERM


def needs(version: int) -> None:
    if landlock.version() < version:
        pytest.skip(f"Landlock has that since version {version}")


@pytest.mark.parametrize("place", ["write", "other"])
@pytest.mark.usefixtures("folder")
def test_files_that_may_be_written_are_truncated(place: str) -> None:
    assert error_of(f"os.truncate('{place}/file', 0)") == 0
    assert Path(place, "file").read_bytes() == b""


@pytest.mark.usefixtures("folder")
def test_a_file_that_may_be_read_is_not_truncated() -> None:
    needs(landlock.TRUNCATE_SINCE)
    assert error_of("os.truncate('read/file', 0)") == EACCES


@pytest.mark.usefixtures("folder")
def test_a_file_is_moved_between_folders_that_may_be_written_alone() -> None:
    needs(2)
    assert error_of("os.rename('write/file', 'more/new')") == 0
    assert error_of("os.rename('more/file', 'read/new')") == EACCES
    assert error_of("os.link('read/file', 'write/new')") in (EACCES, EXDEV)


@pytest.fixture
def listener() -> Iterator[int]:
    """The port of a server on this machine."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.mark.usefixtures("folder")
def test_tcp_is_refused(listener: int) -> None:
    needs(4)
    assert error_of(f"socket.create_connection(('127.0.0.1', {listener}))") == EACCES
    assert error_of("socket.create_server(('127.0.0.1', 0))") == EACCES


@pytest.mark.usefixtures("folder")
def test_signals_and_abstract_sockets_end_at_the_process() -> None:
    needs(landlock.SIGNALS_SINCE)
    name = f"landlock-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(f"\0{name}")
        server.listen()
        connect = f"socket.socket(socket.AF_UNIX).connect('\\0{name}')"
        assert error_of(connect) == EPERM
    assert error_of("os.kill(os.getppid(), 0)") == EPERM
    assert error_of("os.kill(os.getpid(), 0)") == 0
