"""The sandbox `process`: no process escapes that starts while its session or the sandbox ends."""

import asyncio
import os
import threading
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from server.tools.python import live, session_transfers
from server.tools.python import process as module
from server.tools.python.frames import InvalidFrame
from server.tools.python.process import RESTARTED, ProcessSandbox
from server.tools.python.sandbox import (
    CellEnd,
    NoSuchSession,
    SandboxLimits,
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

OTHER = SandboxLimits(output=1 << 20)
"""Not those of the process that waits: a session with these starts one of its own."""
ENDLESS = "while True: pass"
STUBBORN = "import signal\nsignal.signal(2, signal.SIG_IGN)\nprint('on')\nwhile True: pass"
"""Code that goes on when it is interrupted."""


@pytest.fixture
async def sandbox(root: Path) -> AsyncIterator[ProcessSandbox]:
    made = await started(root)
    yield made
    await made.stop()


def running() -> set[int]:
    return {pid for pid in processes_below(os.getpid()) if runs(pid)}


class SlowStart:
    """Holds the start of a process after it was spawned."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.spawned, self.go_on = asyncio.Event(), asyncio.Event()
        self._spawn = live._start_guard
        monkeypatch.setattr(live, "_start_guard", self._slow_spawn)

    async def _slow_spawn(self, *arguments: Any) -> Any:
        guard = await self._spawn(*arguments)
        self.spawned.set()
        await self.go_on.wait()
        return guard


async def close_before(go_on: asyncio.Event | threading.Event, sandbox: ProcessSandbox) -> None:
    """Close the session `a` while something waits for the event; then set that."""
    closing = asyncio.create_task(sandbox.close("a"))
    await settle()
    go_on.set()
    await closing


async def test_that_the_system_killed_a_process_is_logged(
    sandbox: ProcessSandbox, caplog: pytest.LogCaptureFixture
) -> None:
    await sandbox.create("a", LIMITS)
    killed = await cell(sandbox, "a", "import os\nos.kill(os.getpid(), 9)")
    assert killed[-1] == CellEnd("died", "it was killed")
    assert "A Python session was killed" in caplog.text


async def test_that_this_server_ended_a_process_is_not_logged_as_killed(
    sandbox: ProcessSandbox, caplog: pytest.LogCaptureFixture
) -> None:
    await sandbox.create("a", LIMITS)
    await cell(sandbox, "a", "1")
    await sandbox.close("a")
    await sandbox.stop()
    assert "was killed" not in caplog.text


async def test_a_process_that_starts_while_its_session_is_closed_ends(
    root: Path, sandbox: ProcessSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    processes, names = running(), names_in(root)
    await sandbox.create("a", OTHER)
    start = SlowStart(monkeypatch)
    task = asyncio.create_task(cell(sandbox, "a", "1"))
    await start.spawned.wait()
    await close_before(start.go_on, sandbox)
    with pytest.raises(NoSuchSession):
        await task
    assert running() == processes
    assert names_in(root) == names


async def test_a_process_that_starts_while_the_sandbox_stops_has_ended_then(
    sandbox: ProcessSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    processes = running()
    await sandbox.create("a", OTHER)
    start = SlowStart(monkeypatch)
    task = asyncio.create_task(cell(sandbox, "a", "1"))
    await start.spawned.wait()
    stopping = asyncio.create_task(sandbox.stop())
    await settle()
    start.go_on.set()
    await stopping
    # All of them, with the one that waited.
    assert running() < processes
    with pytest.raises(SandboxUnavailable, match="stopped"):
        await task
    assert running() < processes


async def test_a_process_that_is_not_ready_yet_ends_with_its_session(
    sandbox: ProcessSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    processes = running()
    waits = asyncio.Event()

    async def never_ready(process: live.LiveProcess) -> None:
        waits.set()
        while not process._descriptors.ended:
            await process._readable()
            process._descriptors.read()
        raise InvalidFrame("it ended")

    monkeypatch.setattr(live.LiveProcess, "_ready", never_ready)
    await sandbox.create("a", OTHER)
    task = asyncio.create_task(cell(sandbox, "a", "1"))
    await waits.wait()
    await sandbox.close("a")
    assert running() == processes
    with pytest.raises(NoSuchSession):
        await task


async def test_no_folder_is_made_again_for_a_session_that_is_closed(
    root: Path, sandbox: ProcessSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = names_in(root)
    await sandbox.create("a", OTHER)
    paused = Paused(module._empty_folders)
    monkeypatch.setattr(module, "_empty_folders", paused)
    task = asyncio.create_task(cell(sandbox, "a", "1"))
    await paused.began.wait()
    await close_before(paused.go_on, sandbox)
    with pytest.raises(NoSuchSession):
        await task
    assert names_in(root) == names


async def test_a_session_that_is_closed_before_its_process_starts_has_none(
    root: Path, sandbox: ProcessSandbox
) -> None:
    names = names_in(root)
    await sandbox.create("a", OTHER)
    async with sandbox._sessions["a"].moving:
        task = asyncio.create_task(cell(sandbox, "a", "1"))
        await settle()
        closing = asyncio.create_task(sandbox.close("a"))
        await settle()
    await closing
    with pytest.raises(NoSuchSession):
        await task
    assert names_in(root) == names


async def test_a_process_that_gets_a_session_while_the_sandbox_stops_ends(
    sandbox: ProcessSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = running()
    await sandbox.create("a", LIMITS)
    paused = Paused(session_transfers.move)
    monkeypatch.setattr(session_transfers, "move", paused)
    task = asyncio.create_task(cell(sandbox, "a", ENDLESS))
    await paused.began.wait()
    stopping = asyncio.create_task(sandbox.stop())
    await settle()
    paused.go_on.set()
    await stopping
    assert running() < before
    assert await task == [CellEnd("died", "the server stops")]


async def test_a_session_that_is_closed_while_it_gets_a_process_has_no_link(
    root: Path, sandbox: ProcessSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    await sandbox.create("a", LIMITS)
    paused = Paused(session_transfers.move)
    monkeypatch.setattr(session_transfers, "move", paused)
    task = asyncio.create_task(cell(sandbox, "a", ENDLESS))
    await paused.began.wait()
    closing = asyncio.create_task(sandbox.close("a"))
    await settle()
    # Another one of its name keeps its own folder.
    await sandbox.create("a", LIMITS)
    await sandbox.write("a", "x", content(b"1"))
    paused.go_on.set()
    await closing
    assert await task == [CellEnd("died", "the session was closed")]
    assert await read(sandbox, "a", "x") == b"1"
    assert sandbox._folders.find("a") == sandbox._sessions["a"].folder
    await sandbox.close("a")
    assert names_in(root / "names") == set()


async def test_a_waiting_process_that_a_session_cannot_have_ends(sandbox: ProcessSandbox) -> None:
    """Another one may have started to wait by then, in whose place it would be forgotten."""
    await sandbox.create("a", LIMITS)
    warm = sandbox._warm
    assert warm is not None
    assert warm.live is not None
    async with sandbox._sessions["a"].moving:
        task = asyncio.create_task(cell(sandbox, "a", "1"))
        await settle()
        closing = asyncio.create_task(sandbox.close("a"))
        await settle()
    await closing
    with pytest.raises(NoSuchSession):
        await task
    assert not warm.live.alive
    assert not warm.folder.exists()


FAILURES = [
    (OSError("no space"), SandboxUnavailable),
    (RuntimeError("can't start new thread"), RuntimeError),
]


@pytest.mark.parametrize(("failure", "raised"), FAILURES, ids=["folder", "thread"])
async def test_a_waiting_process_whose_folder_no_session_gets_ends(
    sandbox: ProcessSandbox,
    monkeypatch: pytest.MonkeyPatch,
    failure: Exception,
    raised: type[Exception],
) -> None:
    def failing(*sessions: Any) -> None:
        raise failure

    await sandbox.create("a", LIMITS)
    warm = sandbox._warm
    assert warm is not None
    assert warm.live is not None
    with monkeypatch.context() as patch:
        patch.setattr(session_transfers, "move", failing)
        with pytest.raises(raised, match=str(failure)):
            await cell(sandbox, "a", "1")
    assert not warm.live.alive
    assert not warm.folder.exists()
    assert text_of(await cell(sandbox, "a", "1")) == "1\n"


@pytest.mark.parametrize("fails", ["rename", "give"])
async def test_a_session_that_gets_no_process_keeps_its_files(
    sandbox: ProcessSandbox, monkeypatch: pytest.MonkeyPatch, fails: str
) -> None:
    await sandbox.create("a", LIMITS)
    for name in "xy":
        await sandbox.write("a", name, content(name.encode()))
    calls, rename = [], os.rename

    def second_fails(source: Path, target: Path) -> None:
        calls.append(source)
        if len(calls) == 2:
            raise OSError("no space")
        rename(source, target)

    def never(*arguments: Any) -> None:
        raise OSError("no space")

    with monkeypatch.context() as patch:
        if fails == "rename":
            patch.setattr(os, "rename", second_fails)
        else:
            patch.setattr(sandbox._folders, "give", never)
        with pytest.raises(SandboxUnavailable, match="no space"):
            await cell(sandbox, "a", "1")
    assert [await read(sandbox, "a", name) for name in "xy"] == [b"x", b"y"]
    events = await cell(sandbox, "a", "print(open('x').read(), open('y', 'a').write('z'))")
    assert text_of(events) == "x 1\n"


async def test_a_session_whose_end_is_cancelled_ends(root: Path, sandbox: ProcessSandbox) -> None:
    processes, names = running(), names_in(root)
    await sandbox.create("a", OTHER)
    await cell(sandbox, "a", "1")
    async with sandbox._sessions["a"].moving:
        closing = asyncio.create_task(sandbox.close("a"))
        await settle()
        closing.cancel()
        await settle()
    with pytest.raises(asyncio.CancelledError):
        await closing
    assert running() == processes
    assert names_in(root) == names


async def test_a_session_whose_link_cannot_be_removed_stays_known(
    root: Path, sandbox: ProcessSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(session: str) -> None:
        raise OSError("busy")

    processes, names = running(), names_in(root)
    await sandbox.create("a", OTHER)
    await cell(sandbox, "a", "1")
    with monkeypatch.context() as patch:
        patch.setattr(sandbox._folders, "forget", failing)
        with pytest.raises(SandboxUnavailable, match="busy"):
            await sandbox.close("a")
    await sandbox.close("a")
    assert running() == processes
    assert names_in(root) == names


async def test_a_start_that_waits_for_its_session_delays_no_other(sandbox: ProcessSandbox) -> None:
    sandbox._starting = asyncio.Semaphore(1)
    for name in "ab":
        await sandbox.create(name, OTHER)
    async with sandbox._sessions["a"].moving, asyncio.timeout(60):
        waiting = asyncio.create_task(cell(sandbox, "a", "'a'"))
        await settle()
        assert text_of(await cell(sandbox, "b", "'b'")) == "'b'\n"
    assert text_of(await waiting) == "'a'\n"


async def stubborn(sandbox: ProcessSandbox) -> asyncio.Task[None]:
    """A cell of the session `a` that goes on when it is interrupted."""
    is_on = asyncio.Event()

    async def run() -> None:
        async with aclosing(sandbox.run("a", STUBBORN, 60)) as events:
            async for _ in events:
                is_on.set()

    task = asyncio.create_task(run())
    await is_on.wait()
    return task


async def cancelled(task: asyncio.Task[Any]) -> None:
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_process_that_gives_way_to_a_cancelled_cell_leaves_no_descriptors(
    root: Path,
) -> None:
    sandbox = await started(root, most=1)
    try:
        for name in "ab":
            await sandbox.create(name, LIMITS)
        await cell(sandbox, "a", "1")
        assert sandbox._warming is not None
        await sandbox._warming
        before = len(os.listdir("/proc/self/fd"))
        task = asyncio.create_task(cell(sandbox, "b", "1"))
        while sandbox._sessions["a"].live is not None:  # noqa: ASYNC110 - nothing signals it
            await asyncio.sleep(0)
        await cancelled(task)
        assert len(os.listdir("/proc/self/fd")) < before - 3
    finally:
        await sandbox.stop()


async def test_a_process_that_gives_way_to_a_cancelled_cell_has_ended_with_it(root: Path) -> None:
    sandbox = await started(root, most=1)
    try:
        for name in "ab":
            await sandbox.create(name, LIMITS)
        await cell(sandbox, "a", "1")
        process = sandbox._sessions["a"].live
        assert process is not None
        task = asyncio.create_task(cell(sandbox, "b", "1"))
        while sandbox._sessions["a"].live is not None:  # noqa: ASYNC110 - nothing signals it
            await asyncio.sleep(0)
        await cancelled(task)
        assert not runs(process.pid)
    finally:
        await sandbox.stop()


async def test_the_cell_after_one_that_was_cut_off_gets_another_process(
    sandbox: ProcessSandbox,
) -> None:
    await sandbox.create("a", LIMITS)
    task = await stubborn(sandbox)
    process = sandbox._sessions["a"].live
    assert process is not None
    following = asyncio.create_task(cell(sandbox, "a", "1"))
    task.cancel()
    while process.alive:  # noqa: ASYNC110 - nothing signals it
        await asyncio.sleep(0)
    # The answer waits no longer, while the process ends.
    await cancelled(task)
    assert text_of(await following) == f"{RESTARTED}1\n"


async def test_variables_that_a_cancelled_cell_has_cost_are_reported(
    sandbox: ProcessSandbox,
) -> None:
    await sandbox.create("a", LIMITS)
    await cancelled(await stubborn(sandbox))
    assert text_of(await cell(sandbox, "a", "1")) == f"{RESTARTED}1\n"


async def test_variables_that_a_cell_which_ignored_the_interrupt_has_cost_are_reported(
    sandbox: ProcessSandbox,
) -> None:
    await sandbox.create("a", LIMITS)
    end = (await cell(sandbox, "a", STUBBORN, 0.1))[-1]
    assert isinstance(end, CellEnd)
    assert end.outcome == "timeout"
    assert text_of(await cell(sandbox, "a", "1")) == f"{RESTARTED}1\n"
