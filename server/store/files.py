"""Which files a SQLite connection has open, to notice that one was deleted or replaced."""

import os
from dataclasses import dataclass

_SUFFIXES = ("", "-wal", "-shm")

Inode = tuple[int, int] | None


class FileChanged(OSError):
    """A file of the database was deleted or replaced while it was open."""


@dataclass(frozen=True, slots=True)
class OpenFiles:
    """A database's files as they were when a connection opened them: device and inode of each.

    path: the main file, absolute; empty for a database in memory.
    """

    path: str
    inodes: tuple[Inode, ...]

    @classmethod
    def at(cls, path: str) -> "OpenFiles":
        """The files that are at `path` now."""
        return cls(path, tuple(_inode(path + suffix) for suffix in _SUFFIXES) if path else ())

    def check(self) -> None:
        """Raises FileChanged where other files, or none, are at the path by now."""
        if OpenFiles.at(self.path) != self:
            raise FileChanged(self.path)

    def is_same_database(self, other: "OpenFiles") -> bool:
        """Whether both have the same main file; SQLite makes the others anew from time to time."""
        return self.path == other.path and self.inodes[:1] == other.inodes[:1]


def _inode(path: str) -> Inode:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino
