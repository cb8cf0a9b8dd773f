"""The files of a session's folder, used by the server while untrusted code may change them.

No symbolic link is followed: each part of a path is opened by itself. Only regular files are
listed, read and replaced. All functions raise OSError where the machine fails, as on a full disk.
"""

import errno
import os
import secrets
import stat
import subprocess
from collections.abc import Generator, Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

from server.tools.file_names import is_utf8
from server.tools.python.sandbox import MOST_LISTED, NoSuchFile, SandboxFile

_DEEPEST = 64
"""Folders in folders. Deeper ones are over the limit, whatever they hold."""
_ENTRY = 4096
"""Bytes that each entry counts for, beside its content."""
_ENDLESS = 1 << 60
_LAST_TIME = (1 << 63) - 1
"""Nanoseconds, in the year 2262."""
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_OF_THE_MACHINE = frozenset(
    (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO)
)
"""Errors that say nothing about a path."""


def list_files(folder: Path) -> list[SandboxFile]:
    """The regular files below the folder, sorted by path.

    Those whose paths are not UTF-8 are left out, and those after the first MOST_LISTED.
    """
    found: list[SandboxFile] = []
    with closing(Walk(folder).entries()) as entries:
        for path, status in entries:
            if stat.S_ISREG(status.st_mode) and is_utf8(path):
                found.append(_described(path, status))
                if len(found) == MOST_LISTED:
                    break
    return sorted(found, key=lambda file: file.path)


def _described(path: str, status: os.stat_result) -> SandboxFile:
    # Some file systems have times that no database has, and code can set them.
    modified = min(max(status.st_mtime_ns, -_LAST_TIME), _LAST_TIME)
    return SandboxFile(path, status.st_size, modified)


def usage(folder: Path, most: int) -> int:
    """The bytes that the folder takes on the disk, counted until they are more than `most`.

    Endless if a folder in it is kept closed.
    """
    used, walk = 0, Walk(folder)
    with suppress(FileNotFoundError), closing(walk.entries()) as entries:
        for path, status in entries:
            used += size_of(path, status)
            if used > most:
                break
    return _ENDLESS if walk.met_closed else used


def size_of(path: str, status: os.stat_result) -> int:
    """The bytes that an entry takes on the disk, and 4 KiB. Too deep folders are endless."""
    return _ENDLESS if _is_too_deep(path, status) else status.st_blocks * 512 + _ENTRY


def _is_too_deep(path: str, status: os.stat_result) -> bool:
    return stat.S_ISDIR(status.st_mode) and path.count("/") >= _DEEPEST


def open_file(folder: Path, path: str) -> int:
    """A descriptor of a file, for reading. Raises NoSuchFile."""
    # Not blocking: a cell may have put a FIFO there.
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with _parent(folder, path) as (parent, name), _errors_of(path):
        opened = os.open(name, flags, dir_fd=parent)
    if not stat.S_ISREG(os.fstat(opened).st_mode):
        os.close(opened)
        raise NoSuchFile(path)
    return opened


def delete_file(folder: Path, path: str) -> None:
    """Delete a file, or a link itself. Raises NoSuchFile."""
    with _parent(folder, path) as (parent, name), _errors_of(path):
        os.unlink(name, dir_fd=parent)


def shrink(folder: Path, most: int) -> int:
    """Delete too deep folders, and what changed last until the rest takes at most so much.

    Returns what it takes. Raises OSError if a folder cannot be deleted: it would be over the limit
    whatever else is deleted.
    """
    entries = list(Walk(folder).entries())
    if too_deep := [path for path, status in entries if _is_too_deep(path, status)]:
        _delete_folders(folder, too_deep)
        entries = list(Walk(folder).entries())
    used = sum(size_of(path, status) for path, status in entries)
    entries.sort(key=lambda entry: entry[1].st_ctime_ns)
    while used > most and entries:
        path, status = entries.pop()
        if not stat.S_ISDIR(status.st_mode):
            with suppress(NoSuchFile):
                delete_file(folder, path)
            used -= size_of(path, status)
    return used


def _delete_folders(folder: Path, paths: Iterable[str]) -> None:
    """Delete too deep folders, each with the one that holds it."""
    # Moved to the top first, because their paths may be longer than a system call takes.
    top = folder / secrets.token_hex(8)
    top.mkdir()
    try:
        holders = {path.rpartition("/")[0] for path in paths}
        for number, path in enumerate(holders):
            with _parent(folder, path) as (parent, name):
                os.rename(name, top / str(number), src_dir_fd=parent)
    except NoSuchFile as error:
        raise OSError(f"{folder} changes while it is shrunk") from error
    finally:
        remove(top)


def remove(folder: Path) -> None:
    """Delete a folder and all that is in it, however deep. Raises OSError."""
    # shutil.rmtree calls itself for each level, and a cell can nest as many as it likes.
    failed = _failed("rm", "-rf", "--", str(folder))
    if failed is not None:
        # A cell may have closed folders to their owner, which is this server's user.
        _failed("chmod", "-R", "u+rwx", "--", str(folder))
        failed = _failed("rm", "-rf", "--", str(folder))
    if failed is not None:
        raise OSError(f"{folder} cannot be deleted: {failed}")


def _failed(*command: str) -> str | None:
    """Run a command. Returns its error messages if it fails."""
    done = subprocess.run(command, capture_output=True, check=False)
    return done.stderr.decode(errors="replace").strip() if done.returncode else None


class Upload:
    """A file that is being written. What was there is replaced by `finish` alone."""

    def __init__(self, folder: Path, path: str, user: int | None) -> None:
        """user: its owner. Raises NoSuchFile."""
        self.path = path
        self._partial = f".{secrets.token_hex(8)}.part"
        with ExitStack() as opened:
            with _parent(folder, path, make=True, user=user) as (parent, _):
                self._parent = os.dup(parent)
            opened.callback(os.close, self._parent)
            self._file = os.open(self._partial, _NEW, 0o600, dir_fd=self._parent)
            opened.callback(os.close, self._file)
            opened.callback(os.unlink, self._partial, dir_fd=self._parent)
            if user is not None:
                os.fchown(self._file, user, user)
            # From here on `close` frees them.
            opened.pop_all()

    def write(self, content: bytes) -> None:
        """Append."""
        view = memoryview(content)
        while view:
            view = view[os.write(self._file, view) :]

    def finish(self) -> SandboxFile:
        """Put the file in its place. Raises NoSuchFile where a folder is."""
        name = self.path.rpartition("/")[2]
        with _errors_of(self.path):
            os.rename(self._partial, name, src_dir_fd=self._parent, dst_dir_fd=self._parent)
        self._partial = ""
        status = os.fstat(self._file)
        return _described(self.path, status)

    def close(self) -> None:
        """Free what it uses; an unfinished file is deleted."""
        if self._partial:
            with suppress(OSError):
                os.unlink(self._partial, dir_fd=self._parent)
        os.close(self._file)
        os.close(self._parent)


class Walk:
    """A walk through a folder that can be interrupted: `entries` then goes on where it stopped.

    Nothing is open meanwhile. What is moved during the walk may come twice, or not at all. Folders
    that are closed to their owner are opened. met_closed: whether one was closed again at once, so
    that its entries are missing.
    """

    def __init__(self, folder: Path) -> None:
        self.met_closed = False
        self._folder = folder
        # Of the folder and of each one on the way to the last entry: the beginning of its entries'
        # paths, and the names that are left in it.
        self._levels: list[tuple[str, list[str]]] = []

    def entries(self) -> Generator[tuple[str, os.stat_result]]:
        """The paths that are left, as far as they can be read. Raises FileNotFoundError."""
        opened: list[int] = []
        try:
            self._open(opened)
            while opened:
                prefix, names = self._levels[-1]
                if not names:
                    self._levels.pop()
                    os.close(opened.pop())
                    continue
                name = names.pop()
                try:
                    status = os.stat(name, dir_fd=opened[-1], follow_symlinks=False)
                except OSError:
                    continue  # It has been deleted meanwhile.
                if stat.S_ISDIR(status.st_mode) and len(opened) <= _DEEPEST:
                    with suppress(OSError):
                        self._enter(opened, name, f"{prefix}{name}/")
                yield prefix + name, status
        finally:
            for each in opened:
                os.close(each)

    def _open(self, opened: list[int]) -> None:
        """Open the folder, and again those on the way to where the walk stopped."""
        if not self._levels:
            self._enter(opened, self._folder, "")
            return
        opened.append(os.open(self._folder, _FOLDER))
        try:
            for prefix, _ in self._levels[1:]:
                name = prefix[:-1].rpartition("/")[2]
                opened.append(self._opened(name, opened[-1]))
        except OSError:  # It has been moved or deleted meanwhile.
            del self._levels[len(opened) :]

    def _enter(self, opened: list[int], folder: Path | str, prefix: str) -> None:
        inner = self._opened(folder, opened[-1] if opened else None)
        try:
            self._levels.append((prefix, os.listdir(inner)))
        except OSError:
            os.close(inner)
            raise
        opened.append(inner)

    def _opened(self, folder: Path | str, parent: int | None) -> int:
        """A descriptor of a folder. Raises OSError."""
        with suppress(PermissionError):
            return os.open(folder, _FOLDER, dir_fd=parent)
        # By its descriptor: at its name there may be a link by now.
        place = os.open(folder, _FOLDER | os.O_PATH, dir_fd=parent)
        try:
            os.chmod(f"/proc/self/fd/{place}", 0o700)
            return os.open(folder, _FOLDER, dir_fd=parent)
        except PermissionError:
            self.met_closed = True
            raise
        finally:
            os.close(place)


@contextmanager
def _errors_of(path: str) -> Iterator[None]:
    """Raises NoSuchFile for an OSError, except where the machine is the cause."""
    try:
        yield
    except OSError as error:
        if error.errno in _OF_THE_MACHINE:
            raise
        raise NoSuchFile(path) from error


@contextmanager
def _parent(
    folder: Path, path: str, *, make: bool = False, user: int | None = None
) -> Iterator[tuple[int, str]]:
    """The open folder that holds the path, and the file's name in it. Raises NoSuchFile.

    make: whether folders that are missing are made. user: their owner; None: this user.
    """
    parts = path.split("/")
    if "\0" in path or len(parts) > _DEEPEST or any(part in ("", ".", "..") for part in parts):
        raise NoSuchFile(path)
    with _errors_of(path):
        opened = os.open(folder, _FOLDER)
    try:
        for part in parts[:-1]:
            with _errors_of(path):
                if make:
                    _make_folder(opened, part, user)
                inner = os.open(part, _FOLDER, dir_fd=opened)
            os.close(opened)
            opened = inner
        yield opened, parts[-1]
    finally:
        os.close(opened)


def _make_folder(parent: int, name: str, user: int | None) -> None:
    with suppress(FileExistsError):
        os.mkdir(name, 0o700, dir_fd=parent)
        if user is not None:
            os.chown(name, user, user, dir_fd=parent, follow_symlinks=False)
