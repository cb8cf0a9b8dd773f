"""Ends a process and all that it has started. Standard library only: small programs import it."""

import ctypes
import os
import signal
import sys
from contextlib import suppress

NOT_STARTED = 127
"""The exit status of a process that could not become its program."""

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def become_subreaper() -> None:
    """Make processes whose parents have ended children of this one. Only Linux can do that."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def end_with_parent() -> None:
    """Let this process be killed when its parent ends. Only Linux can do that."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def end_all(group: int) -> None:
    """Kill the processes of a group, and all children of this process. Wait for their ends.

    After `become_subreaper`, these are all that its children have started, too.
    """
    with suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)
    with suppress(ChildProcessError):
        while True:
            for child in _children():
                with suppress(ProcessLookupError):
                    os.kill(child, signal.SIGKILL)
            os.waitpid(-1, 0)


def exit_status(status: int) -> int:
    """The exit status of a process that has ended; 128 and the signal's number if one ended it.

    status: as `os.wait` returns it.
    """
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def _children() -> list[int]:
    """The children of this process, as far as the kernel shows them."""
    try:
        with open(f"/proc/self/task/{os.getpid()}/children") as file:
            return [int(each) for each in file.read().split()]
    except OSError:
        return []
