"""Detects that a file of an open SQLite database was deleted or replaced."""

import os
from dataclasses import dataclass

_SUFFIXES = ("", "-wal", "-shm")

Inode = tuple[int, int] | None


class FileChanged(OSError):
    """A file of the database was deleted or replaced while it was open."""


@dataclass(frozen=True, slots=True)
class OpenFiles:
    """The device and inode of each file of a database, as a connection opened them.

    path: the main file, absolute; empty for a database in memory.
    """

    path: str
    inodes: tuple[Inode, ...]

    @classmethod
    def at(cls, path: str) -> "OpenFiles":
        """Return the files that are at `path` now."""
        return cls(path, tuple(_inode(path + suffix) for suffix in _SUFFIXES) if path else ())

    def check(self) -> None:
        """Raise FileChanged if other files, or none, are at the path now."""
        if OpenFiles.at(self.path) != self:
            raise FileChanged(self.path)

    def is_same_database(self, other: "OpenFiles") -> bool:
        """Whether both have the same main file. SQLite recreates the others from time to time."""
        return self.path == other.path and self.inodes[:1] == other.inodes[:1]


def _inode(path: str) -> Inode:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino
