"""Running cells, and the sandbox `process`, in tests."""

import asyncio
import subprocess
import tempfile
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from server.tools.python.process import ProcessSandbox
from server.tools.python.sandbox import CellEvent, OutputText, SandboxLimits
from tests.waiting import settle

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


@contextmanager
def reachable_root() -> Iterator[Path]:
    """A folder that users of sessions can reach."""
    folder = Path(tempfile.mkdtemp(prefix="gpt-oss-test-"))
    folder.chmod(0o711)
    try:
        yield folder / "root"
    finally:
        subprocess.run(["rm", "-rf", folder], check=True)


async def started(root: Path, **options: Any) -> ProcessSandbox:
    sandbox = ProcessSandbox(root, **options)
    await sandbox.start()
    if (problem := sandbox.problem) is not None:
        await sandbox.stop()
        pytest.skip(problem)
    return sandbox


def names_in(folder: Path) -> set[str]:
    return {path.name for path in folder.glob("*")}


def runs(pid: int) -> bool:
    """Whether the process has not ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


class Paused:
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
        await settle()
        self.go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await task
