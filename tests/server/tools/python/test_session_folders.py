"""The folders of sessions: who has which, what is deleted, and where they cannot be."""

import os
import sys
from pathlib import Path

import pytest

from server.tools.python.confinement.command import Layers
from server.tools.python.session_folders import SessionFolders


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "root"


@pytest.fixture
def folders(root: Path) -> SessionFolders:
    made = SessionFolders(root)
    assert made.prepare(Layers()) is None
    return made


def test_a_session_finds_the_folder_that_it_was_given(folders: SessionFolders) -> None:
    folder, lock = folders.make(None)
    assert (folders.has("a"), folders.find("a")) == (False, None)
    folders.give("a", folder)
    lock.close()
    assert (folders.has("a"), folders.find("a")) == (True, folder)


@pytest.mark.parametrize("umask", [0o022, 0o077])
def test_other_users_can_enter_folders_and_neither_list_nor_change_them(
    root: Path, umask: int
) -> None:
    before = os.umask(umask)
    try:
        folders = SessionFolders(root)
        assert folders.prepare(Layers()) is None
        folder, _ = folders.make(None)
    finally:
        os.umask(before)
    assert [path.stat().st_mode & 0o777 for path in (root, folder)] == [0o711, 0o711]
    assert (root / "names").stat().st_mode & 0o066 == 0
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o700}


def test_another_folder_takes_the_place_of_the_first(folders: SessionFolders) -> None:
    first, second = (folders.make(None)[0] for _ in range(2))
    folders.give("a", first)
    folders.give("a", second)
    assert folders.find("a") == second


def test_a_forgotten_session_has_no_folder(folders: SessionFolders) -> None:
    folder, _ = folders.make(None)
    folders.give("a", folder)
    folders.forget("a")
    folders.forget("a")
    assert not folders.has("a")
    assert folder.exists()


def test_a_session_whose_folder_is_gone_has_a_link_alone(folders: SessionFolders) -> None:
    folder, _ = folders.make(None)
    folders.give("a", folder)
    (folder / "data").rmdir()
    assert (folders.has("a"), folders.find("a")) == (True, None)


def test_a_folder_that_is_given_while_others_are_deleted_stays(
    folders: SessionFolders, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another server starts between `make` and `give`, and looks at the links before `give`."""
    folder, lock = folders.make(None)
    other, used = SessionFolders(root), SessionFolders._used
    looks: list[set[str]] = []

    def look(self: SessionFolders) -> set[str]:
        looks.append(used(self))
        if len(looks) == 1:
            folders.give("a", folder)
            lock.close()
        return looks[-1]

    monkeypatch.setattr(SessionFolders, "_used", look)
    assert other.prepare(Layers()) is None
    assert folders.find("a") == folder


def test_a_session_that_ends_meanwhile_does_not_disturb_a_start(
    folders: SessionFolders, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, _ = folders.make(None)
    folders.give("a", folder)
    readlink = os.readlink

    def read(link: Path) -> str:
        folders.forget("a")
        return readlink(link)

    monkeypatch.setattr(os, "readlink", read)
    assert SessionFolders(root).prepare(Layers()) is None


def test_only_folders_without_a_session_and_a_lock_are_deleted(
    folders: SessionFolders, root: Path
) -> None:
    waiting, lock = folders.make(None)
    given, unlocked = folders.make(None)
    folders.give("a", given)
    unlocked.close()
    abandoned, other = root / ("0" * 24), root / "other"
    abandoned.mkdir()
    other.mkdir()
    assert SessionFolders(root).prepare(Layers()) is None
    assert [path.exists() for path in (waiting, given, abandoned, other)] == [
        True,
        True,
        False,
        True,
    ]
    lock.close()
    assert SessionFolders(root).prepare(Layers()) is None
    assert not waiting.exists()


def test_folders_that_sessions_could_read_are_refused() -> None:
    problem = SessionFolders(Path(sys.prefix) / "sessions").prepare(Layers())
    assert "every session could read" in (problem or "")


def test_folders_that_other_users_cannot_enter_are_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    problem = SessionFolders(tmp_path / "root").prepare(Layers(user=True))
    assert f"cannot enter {tmp_path}" in (problem or "")


def test_a_folder_that_cannot_be_made_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    problem = SessionFolders(tmp_path / "file" / "root").prepare(Layers())
    assert "cannot be made" in (problem or "")
