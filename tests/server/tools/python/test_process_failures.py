"""The sandbox `process`: what the system refuses makes it unavailable, and nothing stays behind."""

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from server.tools.python import live, session_files
from server.tools.python import process as module
from server.tools.python.confinement.command import Folders, Layers, Process
from server.tools.python.live import LiveProcess
from server.tools.python.process import ProcessSandbox
from server.tools.python.sandbox import SandboxUnavailable
from tests.server.tools.python.cells import LIMITS, cell, content, names_in, read, started


@pytest.fixture
def sandbox(root: Path) -> ProcessSandbox:
    """A sandbox for sessions without processes, on machines that run none too."""
    made = ProcessSandbox(root, layers=Layers())
    made._problem = made._folders.prepare(Layers())
    return made


def full(*_: Any, **__: Any) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def failing_after(calls: int, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, which fails from some call on."""
    left = [None] * calls

    def called(*arguments: Any, **named: Any) -> Any:
        if not left:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        left.pop()
        return function(*arguments, **named)

    return called


def descriptors() -> list[str]:
    return os.listdir("/proc/self/fd")


async def test_a_session_is_not_made_on_a_full_disk(
    root: Path, sandbox: ProcessSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(Path, "mkdir", full)
        with pytest.raises(SandboxUnavailable, match="No space left"):
            await sandbox.create("a", LIMITS)
    assert names_in(root) == {"names"}
    await sandbox.create("a", LIMITS)
    assert await sandbox.files("a") == []


async def test_a_cell_does_not_run_on_a_full_disk(
    sandbox: ProcessSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    await sandbox.create("a", LIMITS)
    monkeypatch.setattr(module, "make_private", full)
    with pytest.raises(SandboxUnavailable, match="No space left"):
        await cell(sandbox, "a", "1")


@pytest.mark.parametrize("name", ["__init__", "write"])
async def test_a_file_is_not_written_on_a_full_disk(
    sandbox: ProcessSandbox, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    await sandbox.create("a", LIMITS)
    await sandbox.write("a", "x", content(b"old"))
    with monkeypatch.context() as patch:
        patch.setattr(session_files.Upload, name, full)
        with pytest.raises(SandboxUnavailable, match="No space left"):
            await sandbox.write("a", "x", content(b"new"))
    assert [file.path for file in await sandbox.files("a")] == ["x"]
    assert await read(sandbox, "a", "x") == b"old"


@pytest.mark.parametrize(
    ("function", "path"), [("mkdir", "folder/x"), ("rename", "x"), ("fchown", "x")]
)
async def test_a_file_that_cannot_be_put_in_its_place_leaves_nothing(
    sandbox: ProcessSandbox, monkeypatch: pytest.MonkeyPatch, function: str, path: str
) -> None:
    await sandbox.create("a", LIMITS)
    sandbox._sessions["a"].user = os.getuid()
    with monkeypatch.context() as patch:
        patch.setattr(os, function, full)
        with pytest.raises(SandboxUnavailable, match="No space left"):
            await sandbox.write("a", path, content(b"1"))
    assert await sandbox.files("a") == []


async def test_without_descriptors_a_file_is_not_said_to_be_missing(
    sandbox: ProcessSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    await sandbox.create("a", LIMITS)
    await sandbox.write("a", "x", content(b"1"))
    with monkeypatch.context() as patch:
        patch.setattr(os, "open", failing_after(0, os.open))
        with pytest.raises(SandboxUnavailable, match="Too many open files"):
            await read(sandbox, "a", "x")
        with pytest.raises(SandboxUnavailable, match="Too many open files"):
            await sandbox.delete("a", "x")
        with pytest.raises(SandboxUnavailable, match="Too many open files"):
            await sandbox.files("a")
    assert await read(sandbox, "a", "x") == b"1"


async def test_a_session_is_not_resumed_where_its_folder_cannot_be_read(
    sandbox: ProcessSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    await sandbox.create("a", LIMITS)
    del sandbox._sessions["a"]
    monkeypatch.setattr(os, "readlink", full)
    with pytest.raises(SandboxUnavailable, match="No space left"):
        await sandbox.resume("a", LIMITS)


@pytest.mark.parametrize(
    ("owner", "name"), [(Path, "symlink_to"), (Path, "chmod"), (Folders, "make")]
)
async def test_a_session_that_is_not_made_leaves_no_folder(
    root: Path, sandbox: ProcessSandbox, owner: Any, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner, name, full)
    with pytest.raises(SandboxUnavailable, match="No space left"):
        await sandbox.create("a", LIMITS)
    assert names_in(root) == {"names"}


async def test_an_error_of_what_is_uploaded_stays_as_it_is(sandbox: ProcessSandbox) -> None:
    async def lost() -> Any:
        yield b"1"
        raise ConnectionResetError("lost")

    await sandbox.create("a", LIMITS)
    with pytest.raises(ConnectionResetError, match="lost"):
        await sandbox.write("a", "x", lost())


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs Linux")
async def test_without_descriptors_no_process_starts_and_no_pipe_stays(
    sandbox: ProcessSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    await sandbox.create("a", LIMITS)
    process = Process(("/bin/true",), Folders.below(sandbox._sessions["a"].folder))
    before = descriptors()
    with monkeypatch.context() as patch:
        patch.setattr(os, "pipe", failing_after(3, os.pipe))
        with pytest.raises(SandboxUnavailable, match="Too many open files"):
            await LiveProcess.spawn(process, Layers())
    assert descriptors() == before


async def test_ctrl_c_does_not_reach_a_process_that_starts(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A terminal sends it to the whole group. The server then finishes its answers."""

    async def noted_spawn(*arguments: Any) -> Any:
        guard = await spawn(*arguments)
        sessions.append(os.getsid(guard.pid))
        return guard

    sessions: list[int] = []
    spawn = live._start_guard
    monkeypatch.setattr(live, "_start_guard", noted_spawn)
    sandbox = await started(root)
    await sandbox.create("a", LIMITS)
    await cell(sandbox, "a", "1")
    await sandbox.stop()
    assert sessions
    assert os.getsid(0) not in sessions
