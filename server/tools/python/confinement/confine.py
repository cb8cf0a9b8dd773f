"""Confines this process, then replaces it with a program. Standard library only.

The process runs no foreign code before it is confined. The argument is a `Confinement` as JSON.
"""

import ctypes
import json
import os
import resource
import signal
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from server.tools.python.confinement import landlock, seccomp

_PR_SET_PDEATHSIG, _PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS = 1, 24, 38
_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL = 47, 4
_CAPABILITIES_VERSION = 0x20080522
_LAST_CAPABILITY = 63

FAILED = 126
"""The exit status where the process could not be confined."""


@dataclass(frozen=True, slots=True)
class Confinement:
    """What a process may do.

    command, environment, folder: the program, which runs in the folder. limits: resource limits,
    by the name of the constant without `RLIMIT_`. read, write: the paths for Landlock; None: no
    Landlock. filter: what the seccomp filter refuses beside the rest; None: no filter. user: the
    user and group that the process becomes; None: it stays what it is. core: the CPU core that it
    runs on; None: all.
    """

    command: tuple[str, ...]
    environment: Mapping[str, str]
    folder: str
    limits: Mapping[str, int] = field(default_factory=dict)
    read: tuple[str, ...] | None = None
    write: tuple[str, ...] = ()
    filter: Mapping[str, bool] | None = None
    user: int | None = None
    core: int | None = None

    def to_json(self) -> str:
        """The argument of this program."""
        return json.dumps(asdict(self))


def main() -> None:
    """The program. Its exit status is `FAILED` where the process cannot be confined."""
    try:
        confinement = Confinement(**json.loads(sys.argv[1]))
        apply(confinement)
        os.execve(confinement.command[0], confinement.command, dict(confinement.environment))
    except (OSError, ValueError) as error:
        os.write(2, f"the process cannot be confined: {error}\n".encode())
    os._exit(FAILED)


def apply(confinement: Confinement) -> None:
    """Confine this process, for good. It is killed when its parent ends. Raises OSError."""
    os.umask(0o077)
    if confinement.core is not None:
        os.sched_setaffinity(0, {confinement.core})
    os.nice(5)
    os.chdir(confinement.folder)
    _drop_privileges(confinement.user)
    # Not earlier, because a change of the user undoes it.
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    for name, most in confinement.limits.items():
        _limit(getattr(resource, f"RLIMIT_{name}"), most)
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)
    if confinement.read is not None:
        landlock.restrict(confinement.read, confinement.write)
    if confinement.filter is not None:
        seccomp.install(seccomp.Filter(**confinement.filter))


def _limit(kind: int, most: int) -> None:
    """Set a limit, or the lower one that holds already."""
    hard = resource.getrlimit(kind)[1]
    most = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(kind, (most, most))


def _drop_privileges(user: int | None) -> None:
    """Become the user, and lose all capabilities, also those of programs that are run later."""
    if user is not None:
        for capability in range(_LAST_CAPABILITY + 1):
            # Fails for numbers that the kernel does not have.
            ctypes.CDLL(None).prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
    library = ctypes.CDLL(None, use_errno=True)
    # Fails where the kernel has no ambient capabilities, and then there are none.
    library.prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    header = (ctypes.c_uint32 * 2)(_CAPABILITIES_VERSION, 0)
    if library.capset(header, (ctypes.c_uint32 * 6)()) != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"capset: {os.strerror(error)}")


def _prctl(option: int, value: int) -> None:
    library = ctypes.CDLL(None, use_errno=True)
    if library.prctl(option, ctypes.c_ulong(value), 0, 0, 0) != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"prctl {option}: {os.strerror(error)}")
