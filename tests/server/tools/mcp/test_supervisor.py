"""The supervisor of programs: how they run, and that nothing of them is left."""

import os
import select
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from server.tools.process_tree import NOT_STARTED

SECONDS = 60.0
START = "from server.tools.mcp.supervisor import main; main()"
PRINT_PID = "import os; print(os.getpid(), flush=True);"
IGNORE = "import signal; signal.signal(15, signal.SIG_IGN);"
START_CHILD = (
    "import subprocess; child = subprocess.Popen(['sleep', '3600'], start_new_session=True,"
    " stdin=subprocess.DEVNULL); print(child.pid, flush=True);"
)
linux = pytest.mark.skipif(sys.platform != "linux", reason="waits by pidfd")


@contextmanager
def supervised(*command: str) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-c", START, *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def python(code: str) -> tuple[str, ...]:
    return (sys.executable, "-c", code)


def next_pid(process: subprocess.Popen[str]) -> int:
    """A descriptor of the process whose number is the next line."""
    assert process.stdout is not None
    return os.pidfd_open(int(process.stdout.readline()))


def has_ended(pidfd: int) -> bool:
    """Whether a process ends."""
    ended, _, _ = select.select([pidfd], [], [], SECONDS)
    os.close(pidfd)
    return bool(ended)


def test_the_program_has_the_input_and_the_output() -> None:
    with supervised(*python("print(input().upper(), flush=True)")) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("hello\n")
        process.stdin.flush()
        assert process.stdout.readline() == "HELLO\n"
        assert process.wait(SECONDS) == 0


@pytest.mark.parametrize(
    ("command", "status"),
    [
        (python("raise SystemExit(3)"), 3),
        (python("import os; os.kill(os.getpid(), 9)"), 128 + 9),
        (("/nowhere/program",), NOT_STARTED),
    ],
)
def test_its_status_is_that_of_the_program(command: tuple[str, ...], status: int) -> None:
    with supervised(*command) as process:
        assert process.wait(SECONDS) == status


def test_all_output_arrives_before_the_end() -> None:
    code = "import sys; sys.stdout.buffer.write(b'\\xff' + b'x' * 1_000_000)"
    with supervised(*python(code)) as process:
        assert process.stdout is not None
        assert process.stdout.read() == "\ufffd" + "x" * 1_000_000
        assert process.wait(SECONDS) == 0


@linux
def test_a_program_that_closes_its_output_closes_it_for_the_server() -> None:
    code = "import os, time; os.close(1); time.sleep(3600)"
    with supervised(*python(code)) as process:
        assert process.stdout is not None
        assert process.stdout.read() == ""
        assert process.poll() is None


@linux
@pytest.mark.parametrize("ignore", ["", IGNORE])
def test_the_program_ends_when_its_input_is_closed(ignore: str) -> None:
    with supervised(*python(f"{ignore}{PRINT_PID}import time; time.sleep(3600)")) as process:
        program = next_pid(process)
        assert process.stdin is not None
        process.stdin.close()
        assert has_ended(program)
        # On a slow machine, the second signal may come before the first one has an effect.
        assert process.wait(SECONDS) in ({128 + 9} if ignore else {128 + 15, 128 + 9})


@linux
def test_a_termination_of_the_supervisor_does_not_leave_the_program() -> None:
    with supervised(*python(f"{IGNORE}{PRINT_PID}import time; time.sleep(3600)")) as process:
        program = next_pid(process)
        process.terminate()
        process.kill()
        assert has_ended(program)


@linux
def test_what_the_program_has_started_ends_with_it() -> None:
    with supervised(*python(f"{START_CHILD} input()")) as process:
        assert process.stdin is not None
        child = next_pid(process)
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.wait(SECONDS) == 0
        assert has_ended(child)
