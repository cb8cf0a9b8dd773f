"""The limits of sessions that the kernel does not know: no session delays the checks of others."""

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from server.tools.python import session_files
from server.tools.python import watch as module
from server.tools.python.sandbox import SandboxLimits
from server.tools.python.session import Session
from server.tools.python.usage import Usage
from server.tools.python.watch import FileCount, Watch

KIB = 1 << 10


class FakeProcess:
    """Stands for a session's process. slow: it does not end."""

    pid = 1

    def __init__(self, *, slow: bool = False) -> None:
        self.alive = True
        self.ended = asyncio.Event()
        self.reason = ""
        self._slow = slow

    def end(self, reason: str) -> None:
        self.reason = reason
        self.ended.set()

    async def kill(self, reason: str) -> None:
        if self._slow:
            await asyncio.Event().wait()
        self.alive = False


class Sessions(dict[str, Session]):
    """Sessions with folders of their own."""

    def __init__(self, root: Path) -> None:
        super().__init__()
        self._root = root
        self.watch: Watch | None = None

    def add(self, name: str, files: int = 0, *, slow: bool = False, **limits: int) -> FakeProcess:
        folder = self._root / name
        folder.mkdir()
        for number in range(files):
            (folder / str(number)).touch()
        process: Any = FakeProcess(slow=slow)
        self[name] = Session(SandboxLimits(**limits), folder, None, live=process)
        if self.watch is not None:
            self.watch.note_added()
        return process  # type: ignore[no-any-return]


@pytest.fixture
def sessions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sessions:
    monkeypatch.setattr(module, "ROUND_SECONDS", 0.001)
    monkeypatch.setattr(module, "_IDLE_ROUNDS", 1)
    monkeypatch.setattr(module, "measure", lambda pid, most, processes: Usage(0, 0))
    monkeypatch.setattr(module, "deleted_files", lambda pid: 0)
    return Sessions(tmp_path)


@pytest.fixture
async def watch(sessions: Sessions) -> AsyncIterator[Watch]:
    watch = sessions.watch = Watch(sessions)
    yield watch
    await watch.stop()


async def test_a_session_over_its_disk_is_ended_and_loses_what_is_too_much(
    sessions: Sessions, watch: Watch
) -> None:
    process = sessions.add("a", 10, disk=20 * KIB)
    async with asyncio.timeout(30):
        await process.ended.wait()
        async with sessions["a"].moving:
            assert not process.alive
    assert "its files took more than 0 MiB" in process.reason
    assert len(list(sessions["a"].folder.iterdir())) == 5


async def test_many_files_of_a_session_delay_no_check_of_another(
    sessions: Sessions, watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "STEP_SECONDS", 0.0)
    sessions.add("many", 300)
    process = sessions.add("over", 10, disk=20 * KIB)
    async with asyncio.timeout(30):
        await process.ended.wait()
        while sessions["many"] not in watch._counts:  # noqa: ASYNC110 - a step is under way
            await asyncio.sleep(0)
    assert watch._counts[sessions["many"]]._left > (1 << 30) - 300 * 4 * KIB


async def test_files_are_counted_to_the_end_in_steps(
    sessions: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "STEP_SECONDS", 0.0)
    sessions.add("a", 10, disk=40 * KIB)
    count = FileCount(sessions["a"])
    assert [count.step() for _ in range(11)] == [False] * 10 + [True]
    assert not count.is_over
    sessions.add("b", 11, disk=40 * KIB)
    count = FileCount(sessions["b"])
    assert [count.step() for _ in range(11)] == [False] * 10 + [True]
    assert count.is_over


async def test_files_are_counted_at_once_where_that_takes_less_time_than_a_step(
    sessions: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "STEP_SECONDS", 60.0)
    sessions.add("a", 10)
    count = FileCount(sessions["a"])
    assert count.step()
    assert count.is_exact


async def test_a_folder_that_is_kept_closed_is_over_the_limit(
    sessions: Sessions, watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries = session_files.Walk.entries

    def closed(walk: Any) -> Any:
        walk.met_closed = True
        return entries(walk)

    monkeypatch.setattr(session_files.Walk, "entries", closed)
    process = sessions.add("a")
    async with asyncio.timeout(30):
        await process.ended.wait()


async def test_a_file_that_is_moved_during_the_count_ends_no_session(
    sessions: Sessions, watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It comes twice if it is moved between two steps, from a counted folder to a later one."""
    monkeypatch.setattr(module, "STEP_SECONDS", 0.0)
    step, usage = FileCount.step, session_files.usage
    steps, recounts = 0, list[int]()
    recounted, counted_again = threading.Event(), threading.Event()

    def move(count: FileCount) -> bool:
        nonlocal steps
        is_done = step(count)
        steps += 1
        if steps == 2:
            (first / "file").rename(last / "file")
        if is_done and recounts:
            counted_again.set()
        return is_done

    def noted(folder: Path, most: int) -> int:
        recounts.append(usage(folder, most))
        recounted.set()
        return recounts[-1]

    monkeypatch.setattr(FileCount, "step", move)
    monkeypatch.setattr(session_files, "usage", noted)
    process = sessions.add("a", disk=180 * KIB)
    folder = sessions["a"].folder
    for name in ("a", "b"):
        (folder / name).mkdir()
    last, first = (folder / name for name in os.listdir(folder))
    (first / "file").write_bytes(bytes(100 * KIB))
    async with asyncio.timeout(30):
        assert await asyncio.to_thread(recounted.wait, 20)
        assert await asyncio.to_thread(counted_again.wait, 20)
    assert recounts[0] < 180 * KIB
    assert process.reason == ""
    assert (last / "file").exists()


async def test_memory_is_checked_while_files_are_counted_once_more(
    sessions: Sessions, watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "STEP_SECONDS", 0.0)
    recounts, go_on = threading.Event(), threading.Event()

    def wait(folder: Path, most: int) -> int:
        recounts.set()
        go_on.wait(30)
        return 0

    monkeypatch.setattr(session_files, "usage", wait)
    process = sessions.add("a", 10, disk=20 * KIB, memory=1 << 20)
    try:
        assert await asyncio.to_thread(recounts.wait, 20)
        monkeypatch.setattr(module, "measure", lambda pid, most, processes: Usage(most + 1, 0))
        async with asyncio.timeout(20):
            await process.ended.wait()
    finally:
        go_on.set()
    assert process.reason == "it used more memory than 1 MiB"


async def test_deleted_files_are_counted_once_more_too(
    sessions: Sessions, watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "STEP_SECONDS", 0.0)
    monkeypatch.setattr(module, "deleted_files", lambda pid: 30 * KIB)
    process = sessions.add("a", 4, disk=40 * KIB)
    async with asyncio.timeout(30):
        await process.ended.wait()
    assert "its files took more than 0 MiB" in process.reason


async def test_a_count_ends_with_the_process_that_it_began_with(
    sessions: Sessions, watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "STEP_SECONDS", 0.0)
    sessions.add("a", 300)
    session = sessions["a"]
    new: Any = FakeProcess()
    async with asyncio.timeout(30):
        while session not in watch._counts:  # noqa: ASYNC110 - nothing signals it
            await asyncio.sleep(0.001)
        old, session.live = watch._counts[session], new
        while watch._counts.get(session, old) is old:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
    assert watch._counts[session].live is new


async def test_files_that_are_counted_delay_no_check_of_memory(
    sessions: Sessions, watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on = threading.Event()
    monkeypatch.setattr(FileCount, "step", lambda count: go_on.wait(30))
    monkeypatch.setattr(module, "measure", lambda pid, most, processes: Usage(most + 1, 0))
    process = sessions.add("a", memory=1 << 20)
    try:
        async with asyncio.timeout(20):
            await process.ended.wait()
    finally:
        go_on.set()
    assert process.reason == "it used more memory than 1 MiB"


async def test_checks_go_on_after_no_thread_could_be_started(
    sessions: Sessions, watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A session may have taken the last processes of the container."""
    errors = iter([RuntimeError("can't start new thread")])

    def measure(pid: int, memory: int, processes: int) -> Usage:
        if error := next(errors, None):
            raise error
        return Usage(0, processes + 1)

    monkeypatch.setattr(module, "measure", measure)
    process = sessions.add("a")
    async with asyncio.timeout(20):
        await process.ended.wait()
    assert process.reason == "it had more processes and threads than 64"


async def test_a_process_is_not_ended_for_what_the_one_before_it_used(
    sessions: Sessions, watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that is over a limit may end by itself while it is measured."""
    new: Any = FakeProcess()
    is_measured = threading.Event()

    def measure(pid: int, memory: int, processes: int) -> Usage:
        if sessions["a"].live is new:
            is_measured.set()
            return Usage(0, 0)
        sessions["a"].live = new
        return Usage(memory + 1, 0)

    monkeypatch.setattr(module, "measure", measure)
    sessions.add("a")
    assert await asyncio.to_thread(is_measured.wait, 20)
    assert new.reason == ""


async def between(session: Session, watch: Watch, change: Callable[[], None]) -> None:
    """Change something after a session is found to be over a limit, before its process is ended."""
    async with asyncio.timeout(30):
        while session not in watch._ending:  # noqa: ASYNC110 - nothing signals it
            await asyncio.sleep(0)
        change()
        while session in watch._ending:  # noqa: ASYNC110
            await asyncio.sleep(0)


async def test_a_process_that_comes_before_the_end_of_the_last_one_goes_on(
    sessions: Sessions, watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    new: Any = FakeProcess()

    def measure(pid: int, memory: int, processes: int) -> Usage:
        return Usage(0 if sessions["a"].live is new else memory + 1, 0)

    monkeypatch.setattr(module, "measure", measure)
    old = sessions.add("a")
    session = sessions["a"]
    await between(session, watch, lambda: setattr(session, "live", new))
    assert (old.reason, new.reason) == ("", "")


@pytest.mark.parametrize("step", [60.0, 0.0], ids=["counted at once", "counted once more"])
async def test_a_process_is_not_ended_for_files_of_the_one_before_it(
    step: float, sessions: Sessions, watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "STEP_SECONDS", step)
    old = sessions.add("a", 10, disk=20 * KIB)
    session = sessions["a"]
    new: Any = FakeProcess()

    def replace() -> None:
        session.live = new
        for file in session.folder.iterdir():
            file.unlink()

    await between(session, watch, replace)
    assert (old.reason, new.reason) == ("", "")


async def test_a_session_that_is_closed_meanwhile_is_ended_by_nobody_else(
    sessions: Sessions, watch: Watch
) -> None:
    process = sessions.add("a", 10, disk=20 * KIB)

    def close() -> None:
        sessions.pop("a").closed = True

    await between(sessions["a"], watch, close)
    assert process.reason == ""


async def test_checks_go_on_after_a_session_lost_its_process_while_another_was_checked(
    sessions: Sessions, watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    def measure(pid: int, memory: int, processes: int) -> Usage:
        if sessions["b"].live is None:
            return Usage(memory + 1, 0)
        sessions["b"].live = None
        return Usage(0, 0)

    monkeypatch.setattr(module, "measure", measure)
    process = sessions.add("a")
    sessions.add("b")
    async with asyncio.timeout(20):
        await process.ended.wait()


async def test_a_process_that_ended_while_another_was_checked_is_not_measured(
    sessions: Sessions, watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured = list[int]()

    def measure(pid: int, memory: int, processes: int) -> Usage:
        ended.alive = False
        measured.append(pid)
        return Usage(memory + 1 if len(measured) > 1 else 0, 0)

    monkeypatch.setattr(module, "measure", measure)
    process, ended = sessions.add("a"), sessions.add("b")
    ended.pid = 2
    async with asyncio.timeout(20):
        await process.ended.wait()
    assert measured == [1, 1]


async def test_a_process_that_does_not_end_delays_no_check_of_another(
    sessions: Sessions, watch: Watch
) -> None:
    slow = sessions.add("slow", 10, slow=True, disk=20 * KIB)
    async with asyncio.timeout(30):
        await slow.ended.wait()
        process = sessions.add("over", 10, disk=20 * KIB)
        await process.ended.wait()


async def test_an_error_of_a_session_delays_no_check_of_another(
    sessions: Sessions,
    watch: Watch,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    step = FileCount.step

    def fail(count: FileCount) -> bool:
        if count._session is sessions["broken"]:
            raise OSError("too many open files")
        return step(count)

    monkeypatch.setattr(FileCount, "step", fail)
    sessions.add("broken")
    process = sessions.add("over", 10, disk=20 * KIB)
    async with asyncio.timeout(30):
        await process.ended.wait()
    assert "cannot be checked: too many open files" in caplog.text


async def test_a_closed_session_is_forgotten(
    sessions: Sessions, watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "STEP_SECONDS", 0.0)
    sessions.add("other")
    sessions.add("a", 300)
    async with asyncio.timeout(30):
        while not watch._counts:  # noqa: ASYNC110 - nothing signals it
            await asyncio.sleep(0.001)
        sessions.pop("a").closed = True
        while watch._counts:  # noqa: ASYNC110
            await asyncio.sleep(0.001)


async def test_without_sessions_nothing_wakes_up(
    sessions: Sessions, watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    sleeps = []
    sleep = asyncio.sleep

    async def counted(seconds: float) -> None:
        sleeps.append(seconds)
        await sleep(0)

    monkeypatch.setattr(asyncio, "sleep", counted)
    for _ in range(20):
        await sleep(0)
    assert not sleeps
    process = sessions.add("a", 10, disk=20 * KIB)
    async with asyncio.timeout(30):
        await process.ended.wait()
    del sessions["a"]
    for _ in range(20):
        await sleep(0)
    before = len(sleeps)
    for _ in range(20):
        await sleep(0)
    assert len(sleeps) == before > 0
