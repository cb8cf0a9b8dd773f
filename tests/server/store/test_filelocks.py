"""Locks of files that say which gateways of a machine live."""

import errno
import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from server.store.filelocks import FileLocks

HOLD = """
import asyncio, pathlib, sys
from server.store.filelocks import FileLocks
asyncio.run(FileLocks(pathlib.Path(sys.argv[1]), "other").start())
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "locks"


@pytest.fixture
def other(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that holds the lock of the gateway `other`."""
    folder.mkdir()
    command = [sys.executable, "-c", HOLD, str(folder)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process


def names(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir())


async def test_a_gateway_that_is_killed_has_ended_until_it_is_forgotten(
    folder: Path, other: subprocess.Popen[str]
) -> None:
    locks = FileLocks(folder, "one")
    await locks.start()
    assert await locks.ended() == frozenset()
    other.kill()
    other.wait()
    assert await locks.ended() == {"other"}
    assert await locks.ended() == {"other"}
    locks.forget("other")
    assert await locks.ended() == frozenset()
    await locks.stop()
    assert names(folder) == []


async def test_a_gateway_that_stopped_has_not_ended(folder: Path) -> None:
    one, two = FileLocks(folder, "one"), FileLocks(folder, "two")
    await one.start()
    await two.start()
    assert await one.ended() == frozenset()
    await two.stop()
    assert await one.ended() == frozenset()
    await one.stop()
    await one.stop()


async def test_a_gateway_that_lives_is_not_forgotten(folder: Path) -> None:
    one, two = FileLocks(folder, "one"), FileLocks(folder, "two")
    await one.start()
    await two.start()
    one.forget("two")
    assert names(folder) == ["one", "two"]
    await one.stop()
    await two.stop()


async def test_a_file_that_another_removes_before_it_is_locked_is_made_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another gateway takes a file that is not locked yet for that of an ended gateway."""
    one, two = FileLocks(folder, "one"), FileLocks(folder, "two")
    flock = fcntl.flock

    def after_another(descriptor: int, operation: int) -> None:
        monkeypatch.undo()
        two.forget("one")
        flock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", after_another)
    await one.start()
    assert names(folder) == ["one"]
    assert await two.ended() == frozenset()
    await one.stop()


async def test_a_file_that_cannot_be_removed_is_not_kept_locked(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path) -> None:
        raise PermissionError

    locks = FileLocks(folder, "one")
    await locks.start()
    (folder / "other").touch()
    with monkeypatch.context() as patches:
        patches.setattr(Path, "unlink", refuse)
        locks.forget("other")
    assert await locks.ended() == {"other"}
    await locks.stop()


@pytest.fixture
def without_locks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The file system has no locks."""

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)


@pytest.mark.usefixtures("without_locks")
async def test_a_file_that_cannot_be_locked_is_removed(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Where others can lock it, they would take its gateway for ended."""
    await FileLocks(folder, "one").start()
    assert "No locks available" in caplog.text
    assert names(folder) == []


@pytest.mark.usefixtures("without_locks")
async def test_without_locks_no_gateway_has_ended_and_no_file_stays_open(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[int] = []
    open_file, close_file = os.open, os.close

    def note_open(*arguments: Any) -> int:
        opened.append(open_file(*arguments))
        return opened[-1]

    def note_close(descriptor: int) -> None:
        opened.remove(descriptor)
        close_file(descriptor)

    locks = FileLocks(folder, "one")
    await locks.start()
    (folder / "other").touch()
    monkeypatch.setattr("server.store.filelocks.os.open", note_open)
    monkeypatch.setattr("server.store.filelocks.os.close", note_close)
    assert await locks.ended() == frozenset()
    assert opened == []


async def test_a_removed_file_is_no_evidence(folder: Path) -> None:
    one, two = FileLocks(folder, "one"), FileLocks(folder, "two")
    await one.start()
    await two.start()
    (folder / "two").unlink()
    assert await one.ended() == frozenset()
    one.forget("two")
    await two.stop()
    await one.stop()


async def test_a_removed_folder_is_no_evidence(folder: Path) -> None:
    locks = FileLocks(folder, "one")
    await locks.start()
    shutil.rmtree(folder)
    assert await locks.ended() == frozenset()
    await locks.stop()


async def test_without_a_folder_there_are_no_locks(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for folder in (None, tmp_path / "none" / "locks"):
        locks = FileLocks(folder, "one")
        await locks.start()
        assert await locks.ended() == frozenset()
        locks.forget("two")
        await locks.stop()
    assert caplog.text.count("cannot lock") == 1
