"""What the processes of a session use together: the kernel's limits hold for each one alone."""

import os
import re
import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

_MOST_PROCESSES = 4096
_MOST_MAPS = 16 << 20
"""Bytes of the lists of a session's mappings. Larger ones would delay the checks of others."""
_ENDLESS = 1 << 60
_MAPPED = re.compile(rb"^(\w+-\w+) \S+ \S+ \S+ (\d+) +(/.*) \(deleted\)$", re.MULTILINE)
"""A line of /proc/PID/maps: the addresses, the inode and the path of a file without a name."""
_LIMITED = re.compile(rb"/dev/shm/[^/]+")
"""Files whose space the kernel limits."""
_SHARED_ZEROS = b"/dev/zero"
"""What the kernel calls shared memory without a file."""

_File = tuple[int, bytes]
"""A file without a name: its inode, and the path that it had. No two of a session have both."""


class _TooManyMappings(Exception):
    """The mappings of a session take longer to read than others can wait."""


@dataclass(frozen=True, slots=True)
class Usage:
    """memory: bytes. processes: processes and threads."""

    memory: int
    processes: int


def processes_below(root: int, most: int = _MOST_PROCESSES) -> list[int]:
    """The processes that descend from one, without it. most: where there are more, only a part."""
    found: list[int] = []
    pending = [root]
    while pending and len(found) <= most:
        children = list(_children(pending.pop()))
        found += children
        pending += children
    return found


def measure(root: int, most_memory: int, most_processes: int) -> Usage:
    """What the processes below a guard use. Processes that end meanwhile are left out.

    most_memory: beyond this sum, pages that processes share are counted once. most_processes: of
    more, only a part is counted, and no memory. A program that forks without end would otherwise be
    faster than its count.
    """
    pids = processes_below(root, most_processes)
    if len(pids) > most_processes:
        return Usage(0, len(pids))
    memory, threads = 0, 0
    for pid in pids:
        status = _fields(f"/proc/{pid}/status")
        threads += status.get("Threads", 1)
        memory += _resident(status if "RssAnon" in status else _status_of_any_thread(pid))
    if memory > most_memory:
        memory = sum(_proportional(pid) for pid in pids)
    return Usage(memory, threads)


def deleted_files(root: int) -> int:
    """The bytes of files that the processes below a guard use, and that have no name any more.

    Mapped files count whether or not they are open. They are endless where only root may ask for
    their size and this server is not, where their lists are too long, and where they are shared
    memory that no limit covers.
    """
    processes = [_threads(pid) for pid in processes_below(root)]
    try:
        # Before the descriptors: of a file that is opened and mapped meanwhile, only these may be
        # seen.
        mapped = _mapped_files(processes)
        sizes, opened = _opened_files(processes)
        unknown = set()
        for file in mapped.keys() - opened:
            try:
                status = os.stat(mapped[file])
            except PermissionError:
                unknown.add(file)
            except OSError:
                continue  # It is not mapped any more.
            else:
                sizes[status.st_dev, status.st_ino] = status.st_blocks * 512
            if file[1] == _SHARED_ZEROS:
                unknown.add(file)
        # Once more: a file that is not needed any more is closed before its mapping ends.
        if unknown and unknown & _mapped_files(processes).keys():
            return _ENDLESS
    except _TooManyMappings:
        return _ENDLESS
    return sum(sizes.values())


def _opened_files(
    processes: Sequence[Sequence[int]],
) -> tuple[dict[tuple[int, int], int], set[_File]]:
    """The bytes of the open files without a name, by device and inode; and these files."""
    sizes: dict[tuple[int, int], int] = {}
    opened: set[_File] = set()
    for descriptor in _descriptors(processes):
        with suppress(OSError):
            status = os.stat(descriptor)
            if stat.S_ISREG(status.st_mode) and status.st_nlink == 0:
                sizes[status.st_dev, status.st_ino] = status.st_blocks * 512
                path = os.readlink(os.fsencode(descriptor)).removesuffix(b" (deleted)")
                opened.add((status.st_ino, path))
    return sizes, opened


def _mapped_files(processes: Sequence[Sequence[int]]) -> dict[_File, str]:
    """The files without a name that are mapped, with a link to each one, which root may follow.

    Raises _TooManyMappings.
    """
    found: dict[_File, str] = {}
    left = _MOST_MAPS
    for threads in processes:
        for thread in threads:
            content = _read(f"/proc/{thread}/maps", left)
            left -= len(content)
            if not left:
                raise _TooManyMappings
            for addresses, inode, path in _MAPPED.findall(content):
                if not _LIMITED.fullmatch(path):
                    found[int(inode), path] = f"/proc/{thread}/map_files/{addresses.decode()}"
            if content:
                break  # All threads of a process have the same mappings.
    return found


def _read(path: str, most: int) -> bytes:
    with suppress(OSError), open(path, "rb") as file:
        return file.read(most)
    return b""


def _descriptors(processes: Sequence[Sequence[int]]) -> Iterator[str]:
    """The paths of the open descriptors. Threads may have descriptors of their own."""
    for threads in processes:
        for thread in threads:
            with suppress(OSError):
                for descriptor in os.listdir(f"/proc/{thread}/fd"):
                    yield f"/proc/{thread}/fd/{descriptor}"


def _threads(pid: int) -> list[int]:
    """The threads of a process. The first may have ended: then it shows nothing of the process."""
    with suppress(OSError):
        return [int(thread) for thread in os.listdir(f"/proc/{pid}/task")]
    return []


def _status_of_any_thread(pid: int) -> dict[str, int]:
    """The status of a process whose first thread may have ended; empty if all have."""
    statuses = (_fields(f"/proc/{thread}/status") for thread in _threads(pid))
    return next((status for status in statuses if "RssAnon" in status), {})


def _resident(status: dict[str, int]) -> int:
    return (status.get("RssAnon", 0) + status.get("RssShmem", 0)) * 1024


def _children(pid: int) -> Iterator[int]:
    with suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with suppress(OSError), open(f"/proc/{pid}/task/{thread}/children") as file:
                yield from map(int, file.read().split())


def _proportional(pid: int) -> int:
    for thread in _threads(pid):
        rollup = _fields(f"/proc/{thread}/smaps_rollup")
        if "Pss_Anon" in rollup:
            return (rollup["Pss_Anon"] + rollup.get("Pss_Shmem", 0)) * 1024
    return _status_of_any_thread(pid).get("RssAnon", 0) * 1024


def _fields(path: str) -> dict[str, int]:
    """The numbers of a file with lines such as `RssAnon: 12 kB`."""
    found: dict[str, int] = {}
    with suppress(OSError), open(path) as file:
        for line in file:
            name, _, value = line.partition(":")
            number = value.split()
            if number and number[0].isdigit():
                found[name] = int(number[0])
    return found
