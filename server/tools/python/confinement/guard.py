"""Runs a program, and leaves none of its processes behind. Standard library only.

The program is killed, with all its processes, when the guard's standard input ends: when the server
closes it, or dies. The guard ends when the program has ended. Its exit status is the program's, or
128 and the number of the signal that ended it.

It is started in a session of its own, so that no terminal reaches it or the program.

The argument is JSON: `command`; `descriptors`, a mapping of descriptors of the program to those of
the guard.
"""

import fcntl
import json
import os
import select
import signal
import sys
from contextlib import suppress

from server.tools.process_tree import (
    NOT_STARTED,
    become_subreaper,
    end_all,
    end_with_parent,
    exit_status,
)


def main() -> None:
    """The program of the guard."""
    plan = json.loads(sys.argv[1])
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    become_subreaper()
    ended, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake)
    descriptors = {int(target): source for target, source in plan["descriptors"].items()}
    program = os.fork()
    if program == 0:
        _become(plan["command"], descriptors)
    for each in {1, 2, *descriptors.values()}:
        os.close(each)
    status = _wait(program, ended)
    # The group holds all processes: none may leave it.
    end_all(program)
    os._exit(status)


def _become(command: list[str], descriptors: dict[int, int]) -> None:
    """Replace this process with the program."""
    try:
        _offer_to_the_kernel()
        os.setpgid(0, 0)
        end_with_parent()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        # Through copies, because a target may be the source of another one.
        copies = {target: _above(source) for target, source in descriptors.items()}
        for target, source in copies.items():
            os.dup2(source, target)
        os.closerange(max(descriptors, default=2) + 1, 1 << 16)
        os.execve(command[0], command, {})
    except OSError as error:
        os.write(2, f"{command[0]}: {error}\n".encode())
    os._exit(NOT_STARTED)


def _offer_to_the_kernel() -> None:
    """Let the kernel end this process first where memory ends: the server may share its cgroup.

    Not the guard, which ends what the program leaves behind. To raise the value needs no right.
    """
    with suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")


def _above(source: int) -> int:
    """A copy of the descriptor whose number is no target. It is closed on exec."""
    return fcntl.fcntl(source, fcntl.F_DUPFD_CLOEXEC, 64)


def _wait(program: int, ended: int) -> int:
    """Wait until the program ends, or must end. Returns the exit status."""
    while True:
        ready = select.select([0, ended], [], [])[0]
        if ended in ready:
            os.read(ended, 4096)
        with suppress(ChildProcessError):
            while True:
                child, status = os.waitpid(-1, os.WNOHANG)
                if child == 0:
                    break
                if child == program:
                    return exit_status(status)
        if 0 in ready:
            return 128 + signal.SIGKILL
