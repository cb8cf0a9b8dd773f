"""What the processes of a session use together."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from server.tools.python import usage
from server.tools.python.usage import Usage, deleted_files, measure, processes_below

needs_proc = pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")
MIB = 1 << 20
FILE = (
    "import ctypes, os\n"
    "map = ctypes.CDLL(None).mmap\nmap.restype = ctypes.c_void_p\n"
    "file = os.open('file', os.O_RDWR | os.O_CREAT)\n"
    "os.unlink('file')\nos.write(file, bytes(1 << 20))\n"
)
MAPPED = f"{FILE}map(None, 4096, 1, 1, file, 0)\n"
HIDDEN = f"{MAPPED}os.close(file)\n"

Run = Callable[[str], int]


def test_of_endless_processes_no_more_are_counted_than_are_too_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A program that forks without end makes them faster than they are counted."""
    asked = []

    def children(pid: int) -> Iterator[int]:
        asked.append(pid)
        yield from (2 * pid, 2 * pid + 1)

    monkeypatch.setattr(usage, "_children", children)
    monkeypatch.setattr(usage, "_fields", lambda path: pytest.fail("it reads what they use"))
    used = measure(1, 1 << 30, 10)
    assert used.processes > 10
    assert len(asked) <= 10


def test_memory_and_threads_are_summed(monkeypatch: pytest.MonkeyPatch) -> None:
    below = {1: [2, 3], 3: [4]}
    monkeypatch.setattr(usage, "_children", lambda pid: iter(below.get(pid, [])))
    status = {"RssAnon": 2, "RssShmem": 1, "Threads": 2}
    monkeypatch.setattr(usage, "_fields", lambda path: status)
    assert sorted(processes_below(1)) == [2, 3, 4]
    assert measure(1, 1 << 30, 3) == Usage(3 * 3 * 1024, 6)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    """Runs code in the only process there is, which goes on. Returns its id."""
    processes: list[subprocess.Popen[bytes]] = []

    def start(code: str) -> int:
        script = f"{code}\nprint(1, flush=True)\ninput()"
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        process = subprocess.Popen([sys.executable, "-c", script], cwd=tmp_path, **pipes)
        processes.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == b"1\n"
        monkeypatch.setattr(usage, "processes_below", lambda *_: [process.pid])
        return process.pid

    yield start
    for each in processes:
        each.kill()
        each.communicate()


def refuse_links(monkeypatch: pytest.MonkeyPatch) -> None:
    """Be a server that is not root."""
    status = os.stat

    def refused(path: Any, *arguments: Any, **options: Any) -> os.stat_result:
        if "map_files" in str(path):
            raise PermissionError
        return status(path, *arguments, **options)

    monkeypatch.setattr(os, "stat", refused)


@needs_proc
@pytest.mark.parametrize("code", [FILE, MAPPED])
def test_an_open_file_without_a_name_counts(run: Run, code: str) -> None:
    assert MIB <= deleted_files(run(code)) < 2 * MIB


@needs_proc
def test_a_mapped_file_without_a_name_counts(run: Run) -> None:
    try:
        os.stat(next(Path("/proc/self/map_files").iterdir()))
    except PermissionError:
        pytest.skip("needs root")
    assert MIB <= deleted_files(run(HIDDEN)) < 2 * MIB


@needs_proc
def test_a_mapped_file_of_unknown_size_is_endless(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    pid = run(HIDDEN)
    refuse_links(monkeypatch)
    assert deleted_files(pid) > 1 << 50


@needs_proc
def test_the_size_of_an_open_file_is_known(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    pid = run(MAPPED)
    refuse_links(monkeypatch)
    assert deleted_files(pid) < 2 * MIB


@needs_proc
def test_a_file_that_is_closed_before_its_mapping_ends_is_not_endless(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    pid = run(HIDDEN)
    refuse_links(monkeypatch)
    lists = [{}, usage._mapped_files([[pid]])]
    monkeypatch.setattr(usage, "_mapped_files", lambda processes: lists.pop())
    assert deleted_files(pid) == 0


@needs_proc
def test_semaphores_are_no_files_of_unknown_size(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are mapped and not open. The kernel limits the folder that they are in."""
    pid = run("import multiprocessing\nlock = multiprocessing.Lock()")
    refuse_links(monkeypatch)
    assert deleted_files(pid) == 0


@needs_proc
def test_shared_memory_without_a_file_is_endless(run: Run) -> None:
    code = "import mmap, os\nx = mmap.mmap(os.open('/dev/zero', os.O_RDWR), 4096)"
    assert deleted_files(run(code)) > 1 << 50


@needs_proc
def test_too_many_mappings_are_endless(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usage, "_MOST_MAPS", 1024)
    assert deleted_files(run("")) > 1 << 50


@needs_proc
def test_a_process_whose_first_thread_has_ended_is_measured(run: Run) -> None:
    pid = run(
        f"{HIDDEN}import threading\n"
        "def work():\n"
        "    while open(f'/proc/{os.getpid()}/status').read().count('RssAnon'): pass\n"
        "    print(1, flush=True)\n    input()\n"
        "threading.Thread(target=work).start()\nctypes.CDLL(None).pthread_exit(None)"
    )
    assert measure(pid, 1 << 30, 9).memory > MIB
    assert measure(pid, 0, 9).memory > MIB
    assert deleted_files(pid) >= MIB


@needs_proc
def test_memory_that_processes_share_counts_once_where_it_would_be_too_much(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    children = "for _ in range(3):\n    os.fork() or (os.read(0, 1), os._exit(0))"
    pid = run(f"import os\ndata = b'x' * (64 << 20)\n{children}")
    monkeypatch.setattr(usage, "processes_below", lambda *_: [pid, *usage._children(pid)])
    most = 4 * 64 * MIB
    assert measure(pid, 2 * most, 9).memory > most
    assert 64 * MIB < measure(pid, most, 9).memory < 2 * 64 * MIB
