"""Names and paths of the files in a container's folder."""

import re
from collections.abc import Container
from pathlib import PurePosixPath

MOST_NAME_BYTES = 200
"""Of a file name; file systems allow 255."""
MOST_PATH_BYTES = 1024
"""Of a path that the API shows."""

_SEPARATORS = re.compile(r"[/\\]")
_HIDDEN = re.compile(r"(?:^|/)(?:\.|__pycache__(?:/|$))")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
UNNAMED = "file"


def file_name(name: str) -> str:
    """A safe file name for an upload: no folders, no control characters, no leading dot."""
    last = _CONTROL.sub("", _SEPARATORS.split(name)[-1]).strip().lstrip(".")
    last = last.encode("utf-8", "replace").decode()
    path = PurePosixPath(last or UNNAMED)
    suffix = path.suffix if len(path.suffix.encode()) < 20 else ""
    stem = path.name.removesuffix(suffix).encode()[: MOST_NAME_BYTES - len(suffix.encode())]
    return stem.decode("utf-8", "ignore") + suffix


def free_path(name: str, taken: Container[str]) -> str:
    """The safe form of a file name; with a number before its suffix if it is taken."""
    path = PurePosixPath(file_name(name))
    candidate, number = path.name, 1
    while candidate in taken:
        candidate, number = f"{path.stem}-{number}{path.suffix}", number + 1
    return candidate


def is_listed(path: str) -> bool:
    """Whether the API shows a file that code wrote: no caches, no hidden files, no odd names."""
    return (
        path.isprintable()
        and len(path.encode()) <= MOST_PATH_BYTES
        and _HIDDEN.search(path) is None
    )
