"""The limits of sessions that the kernel does not know: no session delays the checks of others."""

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

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

    def add(self, name: str, files: int = 0, *, slow: bool = False, **limits: int) -> FakeProcess:
        folder = self._root / name
        folder.mkdir()
        for number in range(files):
            (folder / str(number)).touch()
        process: Any = FakeProcess(slow=slow)
        self[name] = Session(SandboxLimits(**limits), folder, None, live=process)
        return process  # type: ignore[no-any-return]


@pytest.fixture
def sessions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sessions:
    monkeypatch.setattr(module, "ROUND_SECONDS", 0.001)
    monkeypatch.setattr(module, "_IDLE_ROUNDS", 1)
    monkeypatch.setattr(module, "measure", lambda pid, most: Usage(0, 0))
    monkeypatch.setattr(module, "deleted_files", lambda pid: 0)
    return Sessions(tmp_path)


@pytest.fixture
async def watch(sessions: Sessions) -> AsyncIterator[Watch]:
    watch = Watch(sessions)
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
    assert sessions["many"] in watch._counts
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


async def test_files_that_are_counted_delay_no_check_of_memory(
    sessions: Sessions, watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on = threading.Event()
    monkeypatch.setattr(FileCount, "step", lambda count: go_on.wait(30))
    monkeypatch.setattr(module, "measure", lambda pid, most: Usage(most + 1, 0))
    process = sessions.add("a", memory=1 << 20)
    try:
        async with asyncio.timeout(20):
            await process.ended.wait()
    finally:
        go_on.set()
    assert process.reason == "it used more memory than 1 MiB"


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
