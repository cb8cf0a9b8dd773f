"""The files of a session's folder, as the server uses them."""

import contextlib
import os
import subprocess
import sys
from contextlib import closing
from itertools import islice
from pathlib import Path
from unittest.mock import Mock

import pytest

from server.tools.python import session_files as module
from server.tools.python.sandbox import NoSuchFile
from server.tools.python.session_files import (
    Upload,
    Walk,
    delete_file,
    list_files,
    open_file,
    remove,
    shrink,
    usage,
)
from tests.server.tools.python.conftest import NOBODY, as_nobody

USER = 12345


def upload(folder: Path, path: str, content: bytes = b"x") -> None:
    file = Upload(folder, path, None)
    try:
        file.write(content)
        file.finish()
    finally:
        file.close()


def test_files_are_listed_by_path(tmp_path: Path) -> None:
    upload(tmp_path, "b/c/d.txt", b"12")
    upload(tmp_path, "a.txt", b"1")
    os.symlink("a.txt", tmp_path / "link")
    os.mkfifo(tmp_path / "fifo")
    assert [(file.path, file.size) for file in list_files(tmp_path)] == [
        ("a.txt", 1),
        ("b/c/d.txt", 2),
    ]
    assert list_files(tmp_path)[0].modified == (tmp_path / "a.txt").stat().st_mtime_ns


@pytest.mark.parametrize("year", [1, 9999])
def test_a_time_is_one_that_a_database_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, year: int
) -> None:
    """File systems have later and earlier ones, which code can set."""
    upload(tmp_path, "a")
    mode = (tmp_path / "a").stat().st_mode
    odd = Mock(st_mode=mode, st_size=1, st_mtime_ns=(year - 1970) * 31 * 10**15)
    monkeypatch.setattr(os, "stat", lambda *arguments, **options: odd)
    monkeypatch.setattr(os, "fstat", lambda file: odd)
    (listed,) = list_files(tmp_path)
    file = Upload(tmp_path, "a", None)
    finished = file.finish()
    file.close()
    assert abs(listed.modified) == abs(finished.modified) == (1 << 63) - 1


@pytest.mark.skipif(sys.platform != "linux", reason="file names are bytes on Linux alone")
def test_a_name_that_is_not_utf8_is_left_out(tmp_path: Path) -> None:
    upload(tmp_path, "a.txt")
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.txt")).touch()
    assert [file.path for file in list_files(tmp_path)] == ["a.txt"]


def test_no_more_than_so_many_files_are_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_LISTED", 2)
    for name in "abc":
        upload(tmp_path, name)
    assert len(list_files(tmp_path)) == 2


def test_a_file_is_read_and_deleted(tmp_path: Path) -> None:
    upload(tmp_path, "a/b", b"content")
    opened = open_file(tmp_path, "a/b")
    assert os.read(opened, 100) == b"content"
    os.close(opened)
    delete_file(tmp_path, "a/b")
    with pytest.raises(NoSuchFile):
        delete_file(tmp_path, "a/b")


@pytest.mark.parametrize("path", ["", "/a", "a/", "../a", "a/../b", "a//b", ".", "a\0", "x/" * 70])
def test_paths_outside_are_refused(tmp_path: Path, path: str) -> None:
    with pytest.raises(NoSuchFile):
        open_file(tmp_path, path)
    with pytest.raises(NoSuchFile):
        Upload(tmp_path, path, None)


def test_no_link_is_followed(tmp_path: Path) -> None:
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    inside.mkdir()
    outside.mkdir()
    (outside / "file").write_text("secret")
    os.symlink(outside, inside / "folder")
    os.symlink(outside / "file", inside / "file")
    for path in ("file", "folder/file"):
        with pytest.raises(NoSuchFile):
            open_file(inside, path)
    with pytest.raises(NoSuchFile):
        upload(inside, "folder/file")
    upload(inside, "file", b"new")
    assert (outside / "file").read_text() == "secret"
    assert (inside / "file").read_text() == "new"


def test_what_is_no_regular_file_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "folder").mkdir()
    for path in ("fifo", "folder", "missing"):
        with pytest.raises(NoSuchFile):
            open_file(tmp_path, path)
    with pytest.raises(NoSuchFile):
        upload(tmp_path, "folder")
    with pytest.raises(NoSuchFile):
        open_file(tmp_path / "missing", "x")


def test_what_is_missing_is_not_made_to_read_or_delete_it(tmp_path: Path) -> None:
    for use in (open_file, delete_file):
        with pytest.raises(NoSuchFile):
            use(tmp_path, "folder/x")
    assert os.listdir(tmp_path) == []


def still_open(folder: Path) -> list[str]:
    """What the process has open of a folder; other threads may open and close anything else."""
    paths = list[str]()
    for file in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):
            paths.append(os.readlink(f"/proc/self/fd/{file}"))
    return [path for path in paths if path.startswith(str(folder))]


@pytest.mark.skipif(sys.platform != "linux", reason="/proc has the open files on Linux alone")
def test_nothing_stays_open(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    upload(tmp_path, "a/b")
    Upload(tmp_path, "a/b", None).close()
    delete_file(tmp_path, "a/b")
    for path in ("folder", "folder/../x", "a/missing"):
        with pytest.raises(NoSuchFile):
            open_file(tmp_path, path)
    for path in ("folder", "folder/../x"):
        with pytest.raises(NoSuchFile):
            upload(tmp_path, path)
    assert still_open(tmp_path) == []


def test_what_an_upload_makes_is_for_its_owner_alone(tmp_path: Path) -> None:
    upload(tmp_path, "a/b")
    assert [(tmp_path / path).stat().st_mode & 0o077 for path in ("a", "a/b")] == [0, 0]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_what_an_upload_makes_is_given_to_its_user(tmp_path: Path) -> None:
    file = Upload(tmp_path, "a/b", USER)
    file.finish()
    file.close()
    assert [(tmp_path / path).stat().st_uid for path in ("a", "a/b")] == [USER, USER]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_what_a_link_leads_to_is_not_given_to_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Code of the session may put a link in the place of a folder that was just made."""
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    inside.mkdir()
    outside.mkdir()

    def make(name: str, mode: int, *, dir_fd: int) -> None:
        os.symlink(outside, name, dir_fd=dir_fd)

    monkeypatch.setattr(os, "mkdir", make)
    with pytest.raises(NoSuchFile):
        Upload(inside, "a/b", USER)
    assert outside.stat().st_uid == 0


def test_an_upload_that_is_not_finished_leaves_the_old_file(tmp_path: Path) -> None:
    upload(tmp_path, "a", b"old")
    file = Upload(tmp_path, "a", None)
    file.write(b"new")
    file.close()
    assert (tmp_path / "a").read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["a"]


def test_the_last_changes_are_deleted_first(tmp_path: Path) -> None:
    for number in range(4):
        (tmp_path / str(number)).write_bytes(bytes(8192))
        # Change times have the resolution of the kernel's clock.
        os.utime(tmp_path / str(number))
    before = usage(tmp_path, 1 << 60)
    assert before >= 4 * 12288
    assert shrink(tmp_path, before - 1) < before
    assert len(os.listdir(tmp_path)) == 3
    assert shrink(tmp_path, 0) == 0
    assert os.listdir(tmp_path) == []
    assert usage(tmp_path / "missing", 1 << 60) == 0


def test_no_more_is_counted_than_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(50):
        (tmp_path / str(number)).touch()
    counted: list[object] = []

    def size_of(path: object, _: object) -> int:
        counted.append(path)
        return 4096

    monkeypatch.setattr(module, "size_of", size_of)
    assert usage(tmp_path, 9 * 4096) == 10 * 4096
    assert len(counted) == 10


def tree(folder: Path) -> set[str]:
    """Make files in folders. Returns the paths of all."""
    for name in ("a", "a/b", "c"):
        (folder / name).mkdir()
        for number in range(3):
            (folder / name / str(number)).touch()
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def step_of(walk: Walk, most: int) -> list[str]:
    """The next paths of a walk, which is interrupted then."""
    with closing(walk.entries()) as entries:
        return [path for path, _ in islice(entries, most)]


@pytest.mark.parametrize("most", [1, 2, 5])
def test_an_interrupted_walk_goes_on(tmp_path: Path, most: int) -> None:
    paths, walk, found = tree(tmp_path), Walk(tmp_path), list[str]()
    while len(found) < len(paths):
        found += step_of(walk, most)
    assert sorted(found) == sorted(paths)


@pytest.mark.skipif(sys.platform != "linux", reason="/proc has the open files on Linux alone")
def test_an_interrupted_walk_has_nothing_open(tmp_path: Path) -> None:
    tree(tmp_path)
    walk = Walk(tmp_path)
    while not any("b/" in path for path in step_of(walk, 1)):
        pass
    assert still_open(tmp_path) == []


def test_a_walk_goes_on_where_a_folder_was_deleted(tmp_path: Path) -> None:
    paths, walk, found = tree(tmp_path), Walk(tmp_path), list[str]()
    while not any("b/" in path for path in found):
        found += step_of(walk, 1)
    remove(tmp_path / "a/b")
    found += step_of(walk, 100)
    assert {path for path in paths if not path.startswith("a/b")} <= set(found)


def test_deep_folders_are_over_every_limit(tmp_path: Path) -> None:
    deep = tmp_path.joinpath(*["d"] * (module._DEEPEST + 2))
    deep.mkdir(parents=True)
    assert usage(tmp_path, 1 << 60) > 1 << 50
    assert shrink(tmp_path, 1 << 30) < 1 << 30
    remove(tmp_path)
    assert not tmp_path.exists()


@pytest.mark.parametrize("name", ["d", "d" * 200], ids=["short", "long"])
def test_with_deep_folders_nothing_else_is_deleted(tmp_path: Path, name: str) -> None:
    """Their paths may be longer than what a system call takes."""
    upload(tmp_path, "data/keep.txt")
    upload(tmp_path, f"data/{name}/keep.txt")
    nest(tmp_path / "data", name, 80)
    nest(tmp_path / "tmp", name, 80)
    assert shrink(tmp_path, 1 << 30) < 1 << 30
    assert sorted(os.listdir(tmp_path)) == ["data", "tmp"]
    assert [file.path for file in list_files(tmp_path / "data")] == [
        f"{name}/keep.txt",
        "keep.txt",
    ]


def test_deep_folders_that_cannot_be_deleted_cost_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*paths: object, **folders: object) -> None:
        raise PermissionError

    upload(tmp_path, "data/keep.txt")
    nest(tmp_path / "data", "d", 80)
    monkeypatch.setattr(os, "rename", refused)
    with pytest.raises(PermissionError):
        shrink(tmp_path, 1 << 30)
    assert (tmp_path / "data" / "keep.txt").exists()


def test_deep_folders_that_vanish_meanwhile_cost_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def vanish(size: int) -> str:
        remove(tmp_path / "data" / "d")
        return "0" * size

    upload(tmp_path, "data/keep.txt")
    nest(tmp_path / "data", "d", 80)
    monkeypatch.setattr("secrets.token_hex", vanish)
    with pytest.raises(OSError, match="changes while it is shrunk"):
        shrink(tmp_path, 1 << 30)
    assert (tmp_path / "data" / "keep.txt").exists()
    assert os.listdir(tmp_path) == ["data"]


def nest(folder: Path, name: str, count: int) -> None:
    """Make so many folders in each other."""
    folder.mkdir(exist_ok=True)
    opened = os.open(folder, os.O_RDONLY)
    for _ in range(count):
        with contextlib.suppress(FileExistsError):
            os.mkdir(name, dir_fd=opened)
        inner = os.open(name, os.O_RDONLY, dir_fd=opened)
        os.close(opened)
        opened = inner
    os.close(opened)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can run programs as another user")
def test_a_folder_that_is_closed_to_its_owner_is_deleted(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_real = subprocess.run

    def run_as_owner(command: tuple[str, ...], **options: bool) -> object:
        return run_real(as_nobody([*command]), check=False, capture_output=True)

    closed = root / "sessions" / "session" / "closed"
    closed.mkdir(parents=True)
    (closed / "file").touch()
    for path in (*root.glob("sessions/**"), closed / "file"):
        os.chown(path, NOBODY, NOBODY)
    closed.chmod(0)
    monkeypatch.setattr(subprocess, "run", run_as_owner)
    remove(root / "sessions" / "session")
    assert os.listdir(root / "sessions") == []


def test_a_folder_that_cannot_be_deleted_is_an_error() -> None:
    with pytest.raises(OSError, match="cannot be deleted"):
        remove(Path("/proc/self"))


@pytest.mark.skipif(sys.platform != "linux", reason="sessions run on Linux alone")
def test_a_folder_that_is_kept_closed_is_endless(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_real = os.open

    def refused(path: object, flags: int, *arguments: int, **options: int | None) -> int:
        if path == "b" and not flags & os.O_PATH:
            raise PermissionError
        return open_real(path, flags, *arguments, **options)  # type: ignore[arg-type]

    tree(tmp_path)
    monkeypatch.setattr(os, "open", refused)
    assert usage(tmp_path, 1 << 60) > 1 << 50
    assert [file.path[:2] for file in list_files(tmp_path)] == ["a/"] * 3 + ["c/"] * 3


@pytest.mark.skipif(sys.platform != "linux", reason="sessions run on Linux alone")
def test_a_folder_that_is_closed_to_its_owner_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_real = os.open

    def open_as_owner(path: Path | str, flags: int, *, dir_fd: int | None = None) -> int:
        """Refuse what the kernel refuses to all but root."""
        mode = os.stat(path, dir_fd=dir_fd, follow_symlinks=False).st_mode
        if not flags & os.O_PATH and not mode & 0o400:
            raise PermissionError
        return open_real(path, flags, dir_fd=dir_fd)

    paths = tree(tmp_path)
    (tmp_path / "a").chmod(0)
    monkeypatch.setattr(os, "open", open_as_owner)
    walk = Walk(tmp_path)
    assert sorted(step_of(walk, 100)) == sorted(paths)
    assert not walk.met_closed
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o700
