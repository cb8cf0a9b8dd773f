"""The sandbox `process`: its start, its end, its folders, and what stays of each."""

import asyncio
import importlib.util
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import uvloop

from server.tools.python import live, session_files
from server.tools.python import process as module
from server.tools.python.confinement import command, landlock
from server.tools.python.confinement.command import Layers
from server.tools.python.confinement.probe import Probe, probe
from server.tools.python.process import RESTARTED, ProcessSandbox
from server.tools.python.process_limits import environment
from server.tools.python.sandbox import (
    CellEnd,
    CellEvent,
    NoSuchSession,
    OutputText,
    SandboxUnavailable,
)
from server.tools.python.usage import processes_below
from tests.server.tools.python.cells import (
    LIMITS,
    Paused,
    cell,
    content,
    names_in,
    read,
    runs,
    started,
    text_of,
)
from tests.waiting import settle


async def test_a_start_that_is_under_way_is_not_begun_again(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    probes = []

    def counted_probe() -> Any:
        probes.append(1)
        return probe()

    monkeypatch.setattr(module, "probe", counted_probe)
    sandbox = ProcessSandbox(root)
    sandbox.start_soon()
    await asyncio.gather(sandbox.start(), sandbox.start())
    await sandbox.stop()
    assert probes == [1]


async def test_a_sandbox_that_stops_while_it_starts_leaves_nothing(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    others = set(processes_below(os.getpid()))
    spawned, spawn = asyncio.Event(), live._start_guard

    async def noted_spawn(*arguments: Any) -> Any:
        spawned.set()
        return await spawn(*arguments)

    monkeypatch.setattr(live, "_start_guard", noted_spawn)
    sandbox = ProcessSandbox(root)
    starting = sandbox.start_soon()
    await asyncio.wait(
        {starting, asyncio.create_task(spawned.wait())}, return_when="FIRST_COMPLETED"
    )
    await sandbox.stop()
    assert [pid for pid in processes_below(os.getpid()) if runs(pid) and pid not in others] == []
    assert names_in(root) <= {"names"}


async def test_a_process_that_starts_while_the_sandbox_stops_ends(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    others = set(processes_below(os.getpid()))
    sandbox = await started(root)
    spawned, go_on, spawn = asyncio.Event(), asyncio.Event(), live._start_guard

    async def slow_spawn(*arguments: Any) -> Any:
        guard = await spawn(*arguments)
        spawned.set()
        await go_on.wait()
        return guard

    monkeypatch.setattr(live, "_start_guard", slow_spawn)
    await sandbox.create("a", LIMITS)
    await cell(sandbox, "a", "1")
    await spawned.wait()
    stopping = asyncio.create_task(sandbox.stop())
    await asyncio.sleep(0)
    go_on.set()
    await stopping
    assert [pid for pid in processes_below(os.getpid()) if runs(pid) and pid not in others] == []


async def test_folders_are_made_before_they_are_deleted_when_the_sandbox_stops(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folders of a process that starts ahead are made on a thread, which cannot be ended."""
    sandbox = await started(root)
    await sandbox.create("a", LIMITS)
    making, go_on, deleted = asyncio.Event(), threading.Event(), []
    empty, discard, loop = module._empty_folders, sandbox._discard, asyncio.get_running_loop()

    def slow_empty(record: Any) -> Any:
        loop.call_soon_threadsafe(making.set)
        go_on.wait(30)
        return empty(record)

    async def recorded_discard(record: Any) -> None:
        deleted.append(record.folder.name)
        await discard(record)

    monkeypatch.setattr(module, "_empty_folders", slow_empty)
    monkeypatch.setattr(sandbox, "_discard", recorded_discard)
    await cell(sandbox, "a", "1")
    await making.wait()
    stopping = asyncio.create_task(sandbox.stop())
    await settle()
    assert deleted == []
    go_on.set()
    await stopping
    assert len(deleted) == 1
    assert not names_in(root) & set(deleted)


async def test_a_folder_that_cannot_be_deleted_is_left_to_the_next_server(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(path: Path) -> None:
        raise OSError("busy")

    first = await started(root)
    with monkeypatch.context() as patch:
        patch.setattr(session_files, "remove", failing)
        await first.stop()
    (left,) = names_in(root) - {"names"}
    second = await started(root)
    assert left not in names_in(root)
    await second.stop()


@pytest.fixture
async def files_alone(root: Path) -> ProcessSandbox:
    """A sandbox that keeps the files of the session `a`, on machines that run no sessions too."""
    sandbox = ProcessSandbox(root, layers=Layers())
    sandbox._problem = sandbox._folders.prepare(Layers())
    await sandbox.create("a", LIMITS)
    return sandbox


def is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


async def test_a_file_is_closed_after_the_thread_that_reads_it(
    files_alone: ProcessSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A descriptor that is closed too early may already be another file's."""
    await files_alone.write("a", "x", content(b"1"))
    paused = Paused(lambda descriptor, _: is_open(descriptor))
    monkeypatch.setattr(module, "os", SimpleNamespace(read=paused, close=os.close))
    await paused.cancelled_in(asyncio.create_task(read(files_alone, "a", "x")))
    assert paused.results == [True]


async def test_a_file_is_closed_after_the_thread_that_writes_it(
    files_alone: ProcessSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    paused = Paused(lambda upload, _: is_open(upload._file))
    monkeypatch.setattr(session_files.Upload, "write", lambda *arguments: paused(*arguments))
    await paused.cancelled_in(asyncio.create_task(files_alone.write("a", "x", content(b"1"))))
    assert paused.results == [True]
    assert await files_alone.files("a") == []


async def test_a_file_that_is_opened_after_a_cancellation_is_closed(
    files_alone: ProcessSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    await files_alone.write("a", "x", content(b"1"))
    paused = Paused(session_files.open_file)
    monkeypatch.setattr(session_files, "open_file", paused)
    await paused.cancelled_in(asyncio.create_task(read(files_alone, "a", "x")))
    assert not is_open(paused.results[0])


async def test_an_upload_that_begins_after_a_cancellation_leaves_nothing(
    files_alone: ProcessSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    paused = Paused(session_files.Upload)
    monkeypatch.setattr(session_files, "Upload", paused)
    await paused.cancelled_in(asyncio.create_task(files_alone.write("a", "x", content(b"1"))))
    assert not is_open(paused.results[0]._file)
    assert await files_alone.files("a") == []


async def test_idle_sessions_give_way(root: Path) -> None:
    sandbox = await started(root, most=2)
    try:
        for name in "abc":
            await sandbox.create(name, LIMITS)
        for name in "ab":
            await cell(sandbox, name, f"x = {name!r}")
        await cell(sandbox, "a", "x")
        assert text_of(await cell(sandbox, "c", "1")) == "1\n"
        assert text_of(await cell(sandbox, "a", "x")) == "'a'\n"
        events = await cell(sandbox, "b", "'x' in globals()")
        assert text_of(events) == f"{RESTARTED}False\n"
    finally:
        await sandbox.stop()


async def test_a_full_sandbox_refuses(root: Path) -> None:
    sandbox = await started(root, most=1)
    try:
        for name in "ab":
            await sandbox.create(name, LIMITS)
        events = sandbox.run("a", "print(1)\nimport time\ntime.sleep(60)", 60)
        await anext(events)
        with pytest.raises(SandboxUnavailable, match="1 sessions run at once already"):
            await cell(sandbox, "b", "1")
        await events.aclose()
        assert text_of(await cell(sandbox, "b", "1")) == "1\n"
    finally:
        await sandbox.stop()


async def test_files_outlive_the_server(root: Path) -> None:
    first = await started(root)
    await first.create("a", LIMITS)
    await cell(first, "a", "x = open('/mnt/data/x', 'w').write('kept')")
    await first.stop()
    second = await started(root)
    try:
        with pytest.raises(NoSuchSession):
            await second.resume("b", LIMITS)
        await second.resume("a", LIMITS)
        await second.create("a", LIMITS)
        events = await cell(second, "a", "open('/mnt/data/x').read()")
        assert text_of(events) == f"{RESTARTED}'kept'\n"
        await second.close("a")
    finally:
        await second.stop()
    third = await started(root)
    await third.close("a")
    await third.stop()
    assert names_in(root) == {"names"}


async def test_folders_of_dead_servers_are_deleted_and_no_others(root: Path) -> None:
    first = await started(root)
    await first.create("a", LIMITS)
    abandoned = root / ("0" * 24)
    abandoned.mkdir()
    used = names_in(root) - {abandoned.name}
    second = await started(root)
    assert used < names_in(root)
    assert abandoned.name not in names_in(root)
    await second.stop()
    await first.stop()


@pytest.fixture
def readable_below_tmp(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A file that sessions may read, as an interpreter below /tmp is."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        Path(folder).chmod(0o755)
        Path(folder, "x").write_text("there")
        monkeypatch.setattr(command, "_SETTINGS", (*command._SETTINGS, folder))
        yield f"{folder}/x"


async def test_an_interpreter_may_be_below_the_folder_of_temporary_files(
    readable_below_tmp: str, root: Path
) -> None:
    sandbox = await started(root)
    try:
        await sandbox.create("a", LIMITS)
        events = await cell(sandbox, "a", f"print(open({readable_below_tmp!r}).read())")
    finally:
        await sandbox.stop()
    assert text_of(events) == "there\n"


async def test_nothing_runs_after_stop(root: Path) -> None:
    others = set(processes_below(os.getpid()))
    sandbox = await started(root)
    await sandbox.create("a", LIMITS)
    await cell(sandbox, "a", "import subprocess; subprocess.Popen(['sleep', '1000']);")
    before = [pid for pid in processes_below(os.getpid()) if runs(pid) and pid not in others]
    await sandbox.stop()
    await sandbox.stop()
    assert len(before) >= 3
    assert [pid for pid in before if runs(pid)] == []
    with pytest.raises(SandboxUnavailable, match="stopped"):
        await cell(sandbox, "a", "1")


@pytest.mark.parametrize(
    "name", ["root-bubblewrap", "root-landlock", "user-bubblewrap", "user-landlock"]
)
def test_nothing_runs_after_the_server_was_killed(name: str, open_box: Callable[..., Any]) -> None:
    with open_box(name) as box:
        box.create("a")
        box.cell(
            "a",
            "import os, subprocess\nsubprocess.Popen(['sleep', '1000'])\n"
            "if os.fork() == 0:\n    if os.fork(): os._exit(0)\n    __import__('time').sleep(1000)",
        )
        # The session, its two processes, and a new warm session, which starts beside them.
        deadline = time.monotonic() + 60
        while len(before := processes_below(box.pid)) < 5 and time.monotonic() < deadline:
            os.sched_yield()
        assert len(before) >= 5
        box.process.send_signal(signal.SIGKILL)
        box.process.wait()
        # The guards end when their input does; there is no event to wait for.
        deadline = time.monotonic() + 60
        while [pid for pid in before if runs(pid)] and time.monotonic() < deadline:
            os.sched_yield()
        assert [pid for pid in before if runs(pid)] == []


def test_the_servers_event_loop_runs_sessions(root: Path) -> None:
    async def session() -> list[CellEvent]:
        sandbox = await started(root)
        await sandbox.create("a", LIMITS)
        try:
            await cell(sandbox, "a", "import time\nwhile True: time.sleep(0.01)", 0.2)
            return await cell(sandbox, "a", "print('x'); 1")
        finally:
            await sandbox.stop()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        events = runner.run(session())
    assert events == [
        OutputText("stdout", "x\n"),
        OutputText("result", "1\n"),
        CellEnd("completed"),
    ]


@pytest.mark.usefixtures("patience")
@pytest.mark.skipif(landlock.version() < 1, reason="the kernel has no Landlock")
async def test_kernels_that_cannot_scope_signals_are_enough(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The filter then refuses signals to other processes, and the truncation of files by path."""
    monkeypatch.setattr(landlock, "version", lambda: 1)
    layers = Layers(bubblewrap=None, landlock=True, seccomp=True, user=False)
    sandbox = await started(root, layers=layers)
    try:
        await sandbox.create("a", LIMITS)
        refused = f"import os\ntry: os.kill({os.getpid()}, 0)\nexcept OSError as e: print(e.errno)"
        assert text_of(await cell(sandbox, "a", refused)) == "1\n"
        truncated = "try: os.truncate('/mnt/data', 0)\nexcept OSError as e: print(e.errno)"
        assert text_of(await cell(sandbox, "a", truncated)) == "1\n"
        assert (await cell(sandbox, "a", "while True: pass", 0.2))[-1] == CellEnd("timeout")
        shell = "!echo $((1 + 1))\nimport shutil\nopen('x', 'w').close(); shutil.copy('x', 'y')"
        assert text_of(await cell(sandbox, "a", shell)) == "2\n'y'\n"
    finally:
        await sandbox.stop()


async def test_the_reason_is_known_where_sessions_cannot_run(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sandbox = ProcessSandbox(root)
    assert sandbox.problem == "it has not been started"
    with pytest.raises(SandboxUnavailable):
        await sandbox.create("a", LIMITS)
    found = Probe(Layers(), {"landlock": "none"}, "nothing works")
    monkeypatch.setattr(module, "probe", lambda: found)
    await sandbox.start()
    assert (sandbox.problem, sandbox.layers) == ("nothing works", {"landlock": "none"})
    await sandbox.stop()


async def test_ipython_is_needed(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    sandbox = ProcessSandbox(root)
    await sandbox.start()
    assert "python-tools" in (sandbox.problem or "")
    await sandbox.stop()


async def test_a_worker_that_does_not_start_is_a_problem(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "WORKER", Path("/usr/missing.py"))
    sandbox = ProcessSandbox(root)
    await sandbox.start()
    assert "No such file" in (sandbox.problem or "")
    await sandbox.stop()
    assert names_in(root) == {"names"}


async def test_a_root_that_cannot_be_used_is_a_problem() -> None:
    sandbox = ProcessSandbox(Path(sys.prefix) / "sessions")
    await sandbox.start()
    assert "every session could read" in (sandbox.problem or "")
    await sandbox.stop()


async def opened(sandbox: ProcessSandbox) -> None:
    """Wait until the sandbox can be used."""
    async with asyncio.timeout(60):
        while sandbox.problem is not None:  # noqa: ASYNC110 - nothing signals it
            await asyncio.sleep(0.01)


async def started_on_a_file(root: Path, monkeypatch: pytest.MonkeyPatch) -> ProcessSandbox:
    """A sandbox whose root is a file, which it tries again and again."""
    monkeypatch.setattr(module, "RETRY_SECONDS", 0.01)
    await asyncio.to_thread(root.touch)
    sandbox = ProcessSandbox(root)
    await sandbox.start()
    return sandbox


async def test_a_root_that_is_repaired_is_used(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sandbox = await started_on_a_file(root, monkeypatch)
    assert "cannot be made" in (sandbox.problem or "")
    await asyncio.to_thread(root.unlink)
    await opened(sandbox)
    await sandbox.create("a", LIMITS)
    assert text_of(await cell(sandbox, "a", "print(1)")) == "1\n"
    assert sandbox.live == 1
    await sandbox.stop()


async def test_a_first_process_that_fails_is_started_again(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "RETRY_SECONDS", 0.01)
    worker = module.WORKER
    monkeypatch.setattr(module, "WORKER", Path("/usr/missing.py"))
    sandbox = ProcessSandbox(root)
    await sandbox.start()
    assert "No such file" in (sandbox.problem or "")
    monkeypatch.setattr(module, "WORKER", worker)
    await opened(sandbox)
    await sandbox.stop()


async def test_while_a_process_is_tried_again_the_problem_stays(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sandbox = await started_on_a_file(root, monkeypatch)
    begun, ended = asyncio.Event(), asyncio.Event()

    async def start_ahead() -> None:
        begun.set()
        await ended.wait()

    monkeypatch.setattr(sandbox, "_start_ahead", start_ahead)
    await asyncio.to_thread(root.unlink)
    await begun.wait()
    assert "cannot be made" in (sandbox.problem or "")
    ended.set()
    await opened(sandbox)
    await sandbox.stop()


async def test_a_sandbox_that_is_stopped_does_not_try_again(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sandbox = await started_on_a_file(root, monkeypatch)
    await sandbox.stop()
    assert sandbox._retrying is not None
    assert sandbox._retrying.done()
    assert sandbox.problem == "it has been stopped"


def test_the_environment_has_nothing_of_the_server() -> None:
    assert set(environment("/tmp")) & set(os.environ) <= {
        *("HOME", "PATH", "LANG", "SHELL", "TERM", "TMPDIR", "OMP_NUM_THREADS", "NO_COLOR"),
        *("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "COLUMNS", "MPLBACKEND"),
    }
    assert shutil.which("sh", path=environment("/tmp")["PATH"])
