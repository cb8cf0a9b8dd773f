"""What each process of a session gets: its environment, its resource limits, and its core."""

import os
import sys
from contextlib import suppress

from server.tools.python.sandbox import SandboxLimits

_CPU_SECONDS = 3600
"""CPU time of one process. Cells end after their own time; this ends threads that go on."""
_OPEN_FILES = 256
_RESERVED = 1 << 31
"""Bytes of addresses beside the memory: of shared libraries, and of arenas that are not used."""
GUARD_PROCESSES = 4
"""Processes that confine a session, and do not count for its limit: the guard's, bubblewrap's."""
_ELSEWHERE = 512
"""Processes of this user in other containers: the kernel counts them, and nobody sees them here."""


def usable_cores() -> list[int | None]:
    """The CPU cores that sessions may run on; [None] where the system does not say."""
    return [*sorted(os.sched_getaffinity(0))] if hasattr(os, "sched_getaffinity") else [None]


def kernel_limits(limits: SandboxLimits, *, sessions: int | None) -> dict[str, int]:
    """Resource limits of each process.

    sessions: how many may run at once as the same user; None: each has a user of its own. The
    kernel counts all processes of a user together, so that without room for those of the others a
    session could start no thread because of them. With more room than that, a program that forks
    without end would take what the container has before `Watch` ends it.
    """
    each = limits.processes + GUARD_PROCESSES
    others = 0 if sessions is None else sessions * each + _ELSEWHERE + _threads_of_user()
    return {
        "DATA": limits.memory,
        "AS": limits.memory + _RESERVED,
        "FSIZE": limits.disk,
        "NPROC": each + others,
        "CPU": _CPU_SECONDS,
        "NOFILE": _OPEN_FILES,
        "CORE": 0,
        "MEMLOCK": 1 << 16,
        "MSGQUEUE": 0,
        "SIGPENDING": 256,
    }


def _threads_of_user() -> int:
    """The processes and threads of this user, as far as they can be seen from here."""
    count = 0
    for entry in os.scandir("/proc"):
        with suppress(OSError):
            if entry.name.isdigit() and entry.stat().st_uid == os.getuid():
                count += len(os.listdir(f"/proc/{entry.name}/task"))
    return count


def environment(temporary: str) -> dict[str, str]:
    """The environment of a session's process: nothing of this server's."""
    return {
        "HOME": temporary,
        "TMPDIR": temporary,
        "IPYTHONDIR": f"{temporary}/.ipython",
        "MPLCONFIGDIR": f"{temporary}/.matplotlib",
        "MPLBACKEND": "module://matplotlib_inline.backend_inline",
        "PATH": f"{sys.prefix}/bin:/usr/local/bin:/usr/bin:/bin",
        "LANG": "C.UTF-8",
        "SHELL": "/bin/sh",
        "TERM": "dumb",
        "NO_COLOR": "1",
        "COLUMNS": "120",
        # A session has one core.
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
    }
