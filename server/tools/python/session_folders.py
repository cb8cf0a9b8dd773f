"""Where the folders of sessions are on this machine, and which of them belong to a session.

All are below one root, under random names. A link in `names` leads from a session's id to its
folder, so that a folder can be made before it is known which session gets it. Until then its server
holds a lock on it; a folder that has neither a link nor a lock is of a server that died.
"""

import fcntl
import os
import re
import secrets
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from server.tools.python.confinement.command import Folders, Layers, readable
from server.tools.python.session_files import remove

_FOLDER = re.compile(r"[0-9a-f]{24}")


class SessionFolders:
    """The folders below `root`, which servers on this machine may share."""

    def __init__(self, root: Path) -> None:
        self._root = root.absolute()
        self._names = self._root / "names"

    def prepare(self, layers: Layers) -> str | None:
        """Make the root, and delete what dead servers left. Returns why no session could run there.

        layers: those that confine the sessions.
        """
        for path in readable():
            if self._root.resolve().is_relative_to(Path(path).resolve()):
                return f"every session could read {self._root}: it is below {path}"
        try:
            self._names.mkdir(mode=0o711, parents=True, exist_ok=True)
            self._root.chmod(0o711)
            self._remove_abandoned()
            closed = [each for each in self._root.parents if not each.stat().st_mode & 0o001]
        except OSError as error:
            return f"the folder of its files cannot be made: {error}"
        if closed and layers.user and not layers.bubblewrap:
            return f"sessions' users cannot enter {closed[0]}, where their folders are"
        return None

    def _remove_abandoned(self) -> None:
        used = self._used()
        for folder in self._root.iterdir():
            if folder.name in used or not _FOLDER.fullmatch(folder.name):
                continue
            with suppress(OSError), _locked(folder):
                # Another server may have given it to a session before it released the lock.
                if folder.name not in self._used():
                    remove(folder)

    def _used(self) -> set[str]:
        """The names of the folders of sessions."""
        names = set()
        for link in self._names.iterdir():
            with suppress(FileNotFoundError):  # another server's session ended
                names.add(os.path.basename(os.readlink(link)))
        return names

    def make(self, user: int | None) -> tuple[Path, ExitStack]:
        """A new folder, and the lock on it: to be closed once a session has the folder.

        user: who owns the folders in it; None: this server's user.
        """
        folder = self._root / secrets.token_hex(12)
        folder.mkdir(mode=0o711)
        with ExitStack() as lock:
            try:
                # Also where the umask is stricter: the session's user enters it.
                folder.chmod(0o711)
                lock.enter_context(_locked(folder))
                Folders.make(folder, user)
            except OSError:
                with suppress(OSError):
                    remove(folder)
                raise
            return folder, lock.pop_all()

    def has(self, session: str) -> bool:
        """Whether the session was given a folder, by this server or an earlier one."""
        return self._link(session).is_symlink()

    def find(self, session: str) -> Path | None:
        """The folder that the session was given; None if there is none, or not any more."""
        if not self.has(session):
            return None
        folder = self._root / os.path.basename(os.readlink(self._link(session)))
        return folder if Folders.below(folder).data.is_dir() else None

    def give(self, session: str, folder: Path) -> None:
        """Make `folder` the one of the session, in place of another."""
        link = self._link(session)
        temporary = link.with_name(f".{folder.name}")
        temporary.symlink_to(Path("..", folder.name))
        temporary.replace(link)

    def forget(self, session: str) -> None:
        """Remove the session's link. Its folder stays."""
        self._link(session).unlink(missing_ok=True)

    def _link(self, session: str) -> Path:
        return self._names / session


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder, which ends with this process. Raises OSError if another has it."""
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(opened)
