"""The limit of this container's memory, as the control groups of Linux show it."""

from dataclasses import dataclass
from pathlib import Path

_ROOT = Path("/")
_GROUPS = (
    ("", "memory.max", "memory.current", "inactive_file"),
    ("memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)
"""The folder of each version, two of its files, and a name in its file memory.stat."""


@dataclass(frozen=True, slots=True)
class ContainerMemory:
    """limit: the most bytes. used: bytes in use, without cached files that make room."""

    limit: int
    used: int


def container_memory(root: Path = _ROOT) -> ContainerMemory | None:
    """The limit that leaves the least, None where there is none."""
    groups = (_read_group(root / "sys/fs/cgroup" / folder, *names) for folder, *names in _GROUPS)
    limited = [group for group in groups if group is not None]
    return min(limited, key=lambda group: group.limit - group.used, default=None)


def _read_group(folder: Path, most: str, current: str, cache: str) -> ContainerMemory | None:
    limit, used = _read(folder / most), _read(folder / current)
    if not (limit.isdecimal() and used.isdecimal()):  # version 2 says `max` without a limit
        return None
    values = dict(line.split() for line in _read(folder / "memory.stat").splitlines())
    return ContainerMemory(int(limit), max(0, int(used) - int(values.get(cache, 0))))


def _read(file: Path) -> str:
    try:
        return file.read_text().strip()
    except OSError:
        return ""
