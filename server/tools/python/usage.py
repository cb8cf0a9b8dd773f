"""What the processes of a session use together: the kernel's limits hold for each one alone."""

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

_MOST_PROCESSES = 4096


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
        memory += (status.get("RssAnon", 0) + status.get("RssShmem", 0)) * 1024
        threads += status.get("Threads", 1)
    if memory > most_memory:
        memory = sum(_proportional(pid) for pid in pids)
    return Usage(memory, threads)


def deleted_files(root: int) -> int:
    """The bytes of files that the processes below a guard use, and that have no name any more."""
    files: dict[tuple[int, int], int] = {}
    for pid in processes_below(root):
        with suppress(OSError):
            for descriptor in os.listdir(f"/proc/{pid}/fd"):
                with suppress(OSError):
                    status = os.stat(f"/proc/{pid}/fd/{descriptor}")
                    if stat.S_ISREG(status.st_mode) and status.st_nlink == 0:
                        files[status.st_dev, status.st_ino] = status.st_blocks * 512
    return sum(files.values())


def _children(pid: int) -> Iterator[int]:
    with suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with suppress(OSError), open(f"/proc/{pid}/task/{thread}/children") as file:
                yield from map(int, file.read().split())


def _proportional(pid: int) -> int:
    rollup = _fields(f"/proc/{pid}/smaps_rollup") or _fields(f"/proc/{pid}/status")
    if "Pss_Anon" in rollup:
        return (rollup["Pss_Anon"] + rollup.get("Pss_Shmem", 0)) * 1024
    return rollup.get("RssAnon", 0) * 1024


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
