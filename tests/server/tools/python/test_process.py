"""The sandbox `process`: sessions, their state and files, and what ends them."""

import asyncio
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import uvloop

from server.tools.python import folder, live, watch
from server.tools.python import process as module
from server.tools.python.confinement import command, landlock
from server.tools.python.confinement.command import Layers
from server.tools.python.confinement.probe import Probe, probe
from server.tools.python.process import RESTARTED, ProcessSandbox
from server.tools.python.process_limits import environment
from server.tools.python.sandbox import (
    CellEnd,
    CellEvent,
    FileTooLarge,
    NoSuchFile,
    NoSuchSession,
    OutputImage,
    OutputText,
    SandboxLimits,
    SandboxUnavailable,
)
from server.tools.python.usage import processes_below

LIMITS = SandboxLimits()
MIB = 1 << 20


async def cell(sandbox: Any, session: str, code: str, seconds: float = 60) -> list[CellEvent]:
    return [event async for event in sandbox.run(session, code, seconds)]


def text_of(events: list[CellEvent], *streams: str) -> str:
    texts = [event for event in events if isinstance(event, OutputText)]
    return "".join(event.text for event in texts if not streams or event.stream in streams)


async def content(*chunks: bytes) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk


async def read(sandbox: Any, session: str, path: str) -> bytes:
    return b"".join([chunk async for chunk in sandbox.read(session, path)])


async def begun(sandbox: ProcessSandbox) -> None:
    """Wait until a cell of the session `a` runs."""
    while not sandbox._sessions["a"].lock.locked():  # noqa: ASYNC110 - nothing signals it
        await asyncio.sleep(0.01)


def names_in(folder: Path) -> set[str]:
    return {path.name for path in folder.glob("*")}


@pytest.fixture
def root() -> Any:
    """A folder that users of sessions can reach."""
    folder = Path(tempfile.mkdtemp(prefix="gpt-oss-test-"))
    folder.chmod(0o711)
    yield folder / "root"
    subprocess.run(["rm", "-rf", folder], check=True)


async def started(root: Path, **options: Any) -> ProcessSandbox:
    sandbox = ProcessSandbox(root, **options)
    await sandbox.start()
    if sandbox.problem is not None:
        await sandbox.stop()
        pytest.skip(sandbox.problem)
    return sandbox


@pytest.fixture
async def sandbox(root: Path) -> AsyncIterator[ProcessSandbox]:
    sandbox = await started(root)
    await sandbox.create("a", LIMITS)
    yield sandbox
    await sandbox.stop()


async def test_the_last_expression_is_the_result(sandbox: ProcessSandbox) -> None:
    assert await cell(sandbox, "a", "x = 2\nx + 1") == [
        OutputText("result", "3\n"),
        CellEnd("completed"),
    ]
    assert text_of(await cell(sandbox, "a", "_ + x")) == "5\n"
    assert await cell(sandbox, "a", "x;") == [CellEnd("completed")]


async def test_output_has_its_stream_and_stands_before_the_result(sandbox: ProcessSandbox) -> None:
    code = "import sys\nprint('out')\nprint('err', file=sys.stderr)\n!echo shell\n1"
    events = await cell(sandbox, "a", code)
    assert text_of(events, "stdout") == "out\nshell\n"
    assert text_of(events, "stderr") == "err\n"
    assert events[-2:] == [OutputText("result", "1\n"), CellEnd("completed")]


async def test_output_comes_while_the_cell_runs(sandbox: ProcessSandbox) -> None:
    code = (
        "import os, time\nprint('first')\n"
        "while not os.path.exists('/mnt/data/go'): time.sleep(0.01)"
    )
    events = sandbox.run("a", code, 60)
    assert await anext(events) == OutputText("stdout", "first\n")
    await sandbox.write("a", "go", content(b""))
    assert [event async for event in events] == [CellEnd("completed")]


async def test_a_traceback_is_ipythons(sandbox: ProcessSandbox) -> None:
    events = await cell(sandbox, "a", "def f():\n    1 / 0\nf()")
    assert events[-1] == CellEnd("raised")
    text = text_of(events, "error")
    assert "Cell In[1], line 2" in text
    assert text.endswith("ZeroDivisionError: division by zero")
    assert "\x1b" not in text
    assert text_of(await cell(sandbox, "a", "1 +"), "error").endswith("invalid syntax\n")


async def test_figures_are_images(sandbox: ProcessSandbox) -> None:
    events = await cell(sandbox, "a", "import matplotlib.pyplot as plt\nplt.plot([1, 2]);")
    (image,) = [event for event in events if isinstance(event, OutputImage)]
    assert image.media_type == "image/png"
    assert image.data.startswith(b"\x89PNG")
    assert "<Figure size" in text_of(events, "result")


async def test_magics_and_top_level_await_work(sandbox: ProcessSandbox) -> None:
    code = "%time 1\nimport asyncio\nawait asyncio.sleep(0)\nfiles = !echo a b\nfiles"
    assert "['a b']" in text_of(await cell(sandbox, "a", code))
    assert text_of(await cell(sandbox, "a", "%%bash\necho $((1 + 1))")).strip() == "2"


async def test_nobody_answers_input(sandbox: ProcessSandbox) -> None:
    events = await cell(sandbox, "a", "input('name? ')")
    assert events[-1] == CellEnd("raised")
    assert "nobody can type an answer" in text_of(events)


async def test_an_interrupted_cell_leaves_the_state(sandbox: ProcessSandbox) -> None:
    events = await cell(sandbox, "a", "x = 1\nimport time\nwhile True: time.sleep(0.01)", 2)
    assert "KeyboardInterrupt" in text_of(events)
    assert events[-1] == CellEnd("timeout")
    assert text_of(await cell(sandbox, "a", "x")) == "1\n"


async def test_a_program_of_a_cell_is_interrupted(sandbox: ProcessSandbox) -> None:
    assert (await cell(sandbox, "a", "!sleep 1000", 0.3))[-1] == CellEnd("timeout")
    assert text_of(await cell(sandbox, "a", "1")) == "1\n"


async def test_closing_the_generator_interrupts_the_cell(sandbox: ProcessSandbox) -> None:
    events = sandbox.run("a", "x = 1\nprint('on')\nwhile True: pass", 60)
    await anext(events)
    await events.aclose()
    assert text_of(await cell(sandbox, "a", "x")) == "1\n"


async def test_closing_the_generator_kills_what_goes_on(sandbox: ProcessSandbox) -> None:
    code = "import signal\nsignal.signal(2, signal.SIG_IGN)\nprint('on')\nwhile True: pass"
    events = sandbox.run("a", code, 60)
    await anext(events)
    await events.aclose()
    assert sandbox._sessions["a"].live is None


async def test_a_cancelled_task_ends_its_cell(sandbox: ProcessSandbox) -> None:
    running = asyncio.create_task(cell(sandbox, "a", "while True: pass"))
    await begun(sandbox)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert text_of(await cell(sandbox, "a", "1")) == "1\n"


async def test_a_cancelled_cell_gets_its_process_whole_or_not_at_all(
    sandbox: ProcessSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cancellation comes while the waiting process gets the session's folder."""
    moving, go_on = asyncio.Event(), threading.Event()
    move, loop = module._move, asyncio.get_running_loop()

    def slow_move(*arguments: Any) -> None:
        loop.call_soon_threadsafe(moving.set)
        go_on.wait(30)
        move(*arguments)

    monkeypatch.setattr(module, "_move", slow_move)
    running = asyncio.create_task(cell(sandbox, "a", "x = 1"))
    await moving.wait()
    running.cancel()
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert text_of(await cell(sandbox, "a", "2")) == "2\n"


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
    for _ in range(10):
        await asyncio.sleep(0)
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
        patch.setattr(folder, "remove", failing)
        await first.stop()
    (left,) = names_in(root) - {"names"}
    second = await started(root)
    assert left not in names_in(root)
    await second.stop()


async def test_cells_of_a_session_run_one_after_another(sandbox: ProcessSandbox) -> None:
    code = "n = globals().get('n', 0) + 1\nimport time\ntime.sleep(0.05)\nn"
    done = await asyncio.gather(*(cell(sandbox, "a", code) for _ in range(3)))
    assert [text_of(events) for events in done] == ["1\n", "2\n", "3\n"]


async def test_a_long_cell_is_sent_whole(sandbox: ProcessSandbox) -> None:
    code = f"x = {'a' * (1 << 20)!r}\nlen(x)"
    assert text_of(await cell(sandbox, "a", code)) == f"{1 << 20}\n"


async def test_files_go_up_and_down(sandbox: ProcessSandbox) -> None:
    file = await sandbox.write("a", "in/x.csv", content(b"1,", b"2\n"))
    assert (file.path, file.size) == ("in/x.csv", 4)
    events = await cell(sandbox, "a", "open('/mnt/data/in/x.csv').read()")
    assert text_of(events) == "'1,2\\n'\n"
    await cell(sandbox, "a", "open('/mnt/data/out', 'wb').write(bytes(1 << 20))")
    assert await read(sandbox, "a", "out") == bytes(1 << 20)
    assert [file.path for file in await sandbox.files("a")] == ["in/x.csv", "out"]
    await sandbox.delete("a", "out")
    with pytest.raises(NoSuchFile):
        await read(sandbox, "a", "out")


async def test_an_upload_counts_for_the_disk(sandbox: ProcessSandbox) -> None:
    await sandbox.create("small", SandboxLimits(disk=MIB))
    with pytest.raises(FileTooLarge):
        await sandbox.write("small", "x", content(bytes(MIB)))
    assert await sandbox.files("small") == []


@pytest.fixture
async def files_alone(root: Path) -> ProcessSandbox:
    """A sandbox that keeps the files of the session `a`, on machines that run no sessions too."""
    sandbox = ProcessSandbox(root, layers=Layers())
    sandbox._problem = sandbox._folders.prepare(Layers())
    await sandbox.create("a", LIMITS)
    return sandbox


class Held:
    """A function that waits on its thread until it may go on. results: what it returned."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._loop = asyncio.get_running_loop()
        self.began, self.go_on = asyncio.Event(), threading.Event()
        self.results: list[Any] = []

    def __call__(self, *arguments: Any) -> Any:
        self._loop.call_soon_threadsafe(self.began.set)
        self.go_on.wait(30)
        self.results.append(self._function(*arguments))
        return self.results[-1]

    async def cancelled_in(self, task: asyncio.Task[Any]) -> None:
        """Cancel a task while it waits for the function, which then goes on."""
        await self.began.wait()
        task.cancel()
        for _ in range(10):
            await asyncio.sleep(0)
        self.go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await task


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
    held = Held(lambda descriptor, _: is_open(descriptor))
    monkeypatch.setattr(module, "os", SimpleNamespace(read=held, close=os.close))
    await held.cancelled_in(asyncio.create_task(read(files_alone, "a", "x")))
    assert held.results == [True]


async def test_a_file_is_closed_after_the_thread_that_writes_it(
    files_alone: ProcessSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = Held(lambda upload, _: is_open(upload._file))
    monkeypatch.setattr(folder.Upload, "write", lambda *arguments: held(*arguments))
    await held.cancelled_in(asyncio.create_task(files_alone.write("a", "x", content(b"1"))))
    assert held.results == [True]
    assert await files_alone.files("a") == []


async def test_a_file_that_is_opened_after_a_cancellation_is_closed(
    files_alone: ProcessSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    await files_alone.write("a", "x", content(b"1"))
    held = Held(folder.open_file)
    monkeypatch.setattr(folder, "open_file", held)
    await held.cancelled_in(asyncio.create_task(read(files_alone, "a", "x")))
    assert not is_open(held.results[0])


async def test_an_upload_that_begins_after_a_cancellation_leaves_nothing(
    files_alone: ProcessSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = Held(folder.Upload)
    monkeypatch.setattr(folder, "Upload", held)
    await held.cancelled_in(asyncio.create_task(files_alone.write("a", "x", content(b"1"))))
    assert not is_open(held.results[0]._file)
    assert await files_alone.files("a") == []


async def test_sessions_are_created_once(sandbox: ProcessSandbox) -> None:
    folder = sandbox._sessions["a"].folder
    await sandbox.create("a", SandboxLimits(memory=1))
    assert (sandbox._sessions["a"].folder, sandbox._sessions["a"].limits) == (folder, LIMITS)
    with pytest.raises(ValueError, match="no session id"):
        await sandbox.create("../a", LIMITS)


async def test_unknown_sessions_are_errors(sandbox: ProcessSandbox) -> None:
    for work in (cell(sandbox, "b", "1"), sandbox.files("b"), sandbox.delete("b", "x")):
        with pytest.raises(NoSuchSession):
            await work
    await sandbox.close("b")
    await sandbox.close("../b")


async def test_a_closed_session_leaves_nothing(sandbox: ProcessSandbox) -> None:
    await cell(sandbox, "a", "open('/mnt/data/x', 'w')")
    folder = sandbox._sessions["a"].folder
    running = asyncio.create_task(cell(sandbox, "a", "while True: pass"))
    await begun(sandbox)
    await sandbox.close("a")
    assert (await running)[-1] == CellEnd("died", "the session was closed")
    assert not folder.exists()
    with pytest.raises(NoSuchSession):
        await cell(sandbox, "a", "1")


async def test_a_session_restarts_after_its_process_died(sandbox: ProcessSandbox) -> None:
    await cell(sandbox, "a", "x = open('/mnt/data/x', 'w').write('kept')")
    events = await cell(sandbox, "a", "import os; os.abort()")
    assert events[-1] == CellEnd("died", "it aborted")
    events = await cell(sandbox, "a", "print('x' in globals(), open('/mnt/data/x').read())")
    assert text_of(events) == "False kept\n"


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


async def test_fifty_sessions_at_once_stay_apart(sandbox: ProcessSandbox) -> None:
    async def session(number: int) -> str:
        name = f"s{number}"
        await sandbox.create(name, LIMITS)
        await cell(sandbox, name, f"x = {number}; open('/mnt/data/x', 'w').write('{number}');")
        events = await cell(sandbox, name, "print(x, open('/mnt/data/x').read())")
        return text_of(events)

    numbers = range(50)
    found = await asyncio.gather(*map(session, numbers))
    assert found == [f"{number} {number}\n" for number in numbers]


@pytest.fixture
def readable_below_tmp(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A file that sessions may read, as an interpreter below /tmp is."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        Path(folder).chmod(0o755)
        Path(folder, "x").write_text("there")
        monkeypatch.setattr(command, "_SETTINGS", (*command._SETTINGS, folder))
        yield f"{folder}/x"


async def test_an_interpreter_may_be_below_the_folder_of_temporary_files(
    readable_below_tmp: str, sandbox: ProcessSandbox
) -> None:
    events = await cell(sandbox, "a", f"print(open({readable_below_tmp!r}).read())")
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


def runs(pid: int) -> bool:
    """Whether the process has not ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


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


async def test_a_forged_frame_ends_the_session(sandbox: ProcessSandbox) -> None:
    events = await cell(sandbox, "a", "import os, time\nos.write(4, bytes(4))\ntime.sleep(60)")
    assert events == [
        CellEnd("died", "its protocol was violated: a frame that is not an object"),
    ]
    assert text_of(await cell(sandbox, "a", "1")) == "1\n"


async def test_an_idle_process_that_ended_is_replaced(sandbox: ProcessSandbox) -> None:
    code = "import os, threading\nthreading.Timer(0.05, os._exit, (0,)).start()"
    await cell(sandbox, "a", code)
    live = sandbox._sessions["a"].live
    assert live is not None
    await live._ended
    assert text_of(await cell(sandbox, "a", "1")) == f"{RESTARTED}1\n"


async def test_the_limits_of_a_session_end_it(sandbox: ProcessSandbox) -> None:
    await sandbox.create("small", SandboxLimits(disk=8 * MIB))
    code = (
        "import os, time\n"
        "f = open('/mnt/data/gone', 'wb'); os.unlink('/mnt/data/gone'); f.write(bytes(4 << 20))\n"
        "for i in range(4): open(f'/mnt/data/{i}', 'wb').write(bytes(2 << 20))\ntime.sleep(60)"
    )
    events = await cell(sandbox, "small", code)
    reason = "its files took more than 8 MiB; the last ones were deleted"
    assert events == [CellEnd("died", reason)]
    assert sum(file.size for file in await sandbox.files("small")) <= 8 * MIB


async def test_limits_are_checked_again_after_an_error(
    sandbox: ProcessSandbox, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    failed = threading.Event()
    step = watch.FileCount.step

    def fail_once(count: watch.FileCount) -> bool:
        if failed.is_set():
            return step(count)
        failed.set()
        raise OSError("too many open files")

    monkeypatch.setattr(watch.FileCount, "step", fail_once)
    await sandbox.create("small", SandboxLimits(disk=MIB))
    code = "f = open('/mnt/data/x', 'wb'); f.write(bytes(1 << 20)); f.flush()\n"
    events = await cell(sandbox, "small", f"{code}import time\ntime.sleep(60)")
    reason = "its files took more than 1 MiB; the last ones were deleted"
    assert events == [CellEnd("died", reason)]
    assert failed.is_set()
    assert "cannot be checked: too many open files" in caplog.text


async def test_memory_that_processes_share_counts_once(sandbox: ProcessSandbox) -> None:
    await sandbox.create("small", SandboxLimits(memory=400 * MIB))
    share = "import os, time\nx = bytearray(os.urandom(1 << 20) * 150)\n"
    forks = "pids = [os.fork() for _ in range(2)]\nif 0 in pids: time.sleep(60)\n"
    events = await cell(sandbox, "small", share + forks + "time.sleep(1)\n1")
    assert events == [OutputText("result", "1\n"), CellEnd("completed")]
    child = "    if os.fork() == 0:\n        y = os.urandom(150 << 20); time.sleep(60)\n"
    more = f"for _ in range(2):\n{child}time.sleep(60)"
    events = await cell(sandbox, "small", more)
    assert events == [CellEnd("died", "it used more memory than 400 MiB")]


def test_the_environment_has_nothing_of_the_server() -> None:
    assert set(environment("/tmp")) & set(os.environ) <= {
        *("HOME", "PATH", "LANG", "SHELL", "TERM", "TMPDIR", "OMP_NUM_THREADS", "NO_COLOR"),
        *("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "COLUMNS", "MPLBACKEND"),
    }
    assert shutil.which("sh", path=environment("/tmp")["PATH"])
