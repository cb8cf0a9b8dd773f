"""Compares the files in a container's folder with those that are known of it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from server.ids import new_id
from server.store.containers.base import ContainerFile
from server.tools.python.paths import is_listed
from server.tools.python.sandbox import MOST_LISTED, SandboxFile

MOST_FILES = 1000
"""Files of a container that the API shows."""
FEW_FILES = 200
"""Files that take about a millisecond to compare."""


@dataclass(frozen=True, slots=True)
class Changes:
    """What code changed in a folder.

    written: the files that are new or have another content; the new ones have new ids. removed: the
    ids of the files that are gone.
    """

    written: tuple[ContainerFile, ...]
    removed: tuple[str, ...]


def changes(
    container_id: str,
    known: Iterable[ContainerFile],
    listing: Sequence[SandboxFile],
    now: int,
) -> Changes:
    """The changes from the known files to the listing. now: Unix seconds.

    New files are left out where there are MOST_FILES already.
    """
    found = {file.path: file for file in listing}
    before = {file.path: file for file in known}
    # A list that was cut does not tell what is gone.
    is_whole = len(listing) < MOST_LISTED
    removed = tuple(file.id for path, file in before.items() if is_whole and path not in found)
    room = MOST_FILES - len(before) + len(removed)
    written: list[ContainerFile] = []
    for path, file in found.items():
        old = before.get(path)
        if old is not None:
            if (old.size, old.modified) != (file.size, file.modified):
                written.append(
                    replace(old, size=file.size, modified=file.modified, source="assistant")
                )
        elif room > 0 and is_listed(path):
            room -= 1
            written.append(
                ContainerFile(
                    new_id("cfile"), container_id, path, file.size, "assistant", now, file.modified
                )
            )
    return Changes(tuple(written), removed)
