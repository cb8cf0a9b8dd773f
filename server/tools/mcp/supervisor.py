"""Runs a program on its own standard input, and leaves none of its processes behind.

The program's output is passed on in lines that the server can read.

The program ends when its input is closed, as MCP demands, or is killed: when the server closes the
input, or dies. The supervisor ends when the program has ended. Its exit status is the program's, or
128 and the number of the signal that ended it. The arguments are the program and its arguments.
Standard library only.
"""

import os
import select
import signal
import sys
import threading
import time
from contextlib import suppress

from server.tools.mcp.program_output import pass_on
from server.tools.process_tree import (
    NOT_STARTED,
    become_subreaper,
    end_all,
    end_with_parent,
    exit_status,
)

GRACE_SECONDS = 0.5
"""How long the program may run on after its input was closed, and again after SIGTERM."""
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def main() -> None:
    """The program of the supervisor."""
    become_subreaper()
    for number in _SIGNALS:
        # The program is ended by `_end`. A handler is no more there after exec.
        signal.signal(number, lambda *_: None)
    output, its_output = os.pipe()
    program = os.fork()
    if program == 0:
        os.dup2(its_output, 1)
        _become(sys.argv[1:])
    os.close(its_output)
    passing = threading.Thread(target=_pass_on, args=(output,), daemon=True)
    passing.start()
    is_closed = threading.Event()
    threading.Thread(target=_end, args=(program, is_closed), daemon=True).start()
    status = _wait(program)
    end_all(program)
    while passing.is_alive() and not is_closed.is_set():
        passing.join(GRACE_SECONDS)
    # A server that has closed the input may not read the last messages.
    passing.join(GRACE_SECONDS)
    os._exit(status)


def _become(command: list[str]) -> None:
    """Replace this process with the program."""
    os.setpgid(0, 0)
    end_with_parent()
    try:
        os.execvp(command[0], command)
    except OSError as error:
        os.write(2, f"{command[0]}: {error}\n".encode())
    os._exit(NOT_STARTED)


def _pass_on(output: int) -> None:
    """Pass the program's output on, and close the own one when the program has closed its."""
    with suppress(OSError), open(output, "rb") as program, open(1, "wb") as server:
        pass_on(program, server)


def _end(program: int, is_closed: threading.Event) -> None:
    """Set the event, and end the program, when the other end of its standard input is closed."""
    poll = select.poll()
    poll.register(0, 0)  # No event but the end, which is always reported. Nothing is read.
    poll.poll()
    is_closed.set()
    for number in (signal.SIGTERM, signal.SIGKILL):
        time.sleep(GRACE_SECONDS)
        with suppress(ProcessLookupError):
            os.killpg(program, number)


def _wait(program: int) -> int:
    """Wait until the program ends. Returns the exit status."""
    while True:
        child, status = os.wait()
        if child == program:
            return exit_status(status)
