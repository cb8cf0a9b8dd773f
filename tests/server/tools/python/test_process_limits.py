"""The limits of a session's processes: of the kernel, and what they leave to others."""

import os
from collections.abc import Callable
from typing import Any

from server.tools.python.process_limits import GUARD_PROCESSES, kernel_limits
from server.tools.python.sandbox import SandboxLimits

LIMITS = SandboxLimits(processes=64)


def test_a_session_with_a_user_of_its_own_has_its_processes_alone() -> None:
    assert kernel_limits(LIMITS, sessions=None)["NPROC"] == 64 + GUARD_PROCESSES


def test_sessions_of_one_user_do_not_take_each_others_processes() -> None:
    """The kernel counts all of a user together, those in other containers included."""
    others = kernel_limits(LIMITS, sessions=12)["NPROC"] - (64 + GUARD_PROCESSES)
    threads_here = len(os.listdir("/proc/self/task"))
    assert others >= 12 * (64 + GUARD_PROCESSES) + 512 + threads_here


def test_sessions_of_one_user_start_threads_beside_each_other(open_box: Callable[..., Any]) -> None:
    threads = "import threading, time\nfor _ in range(56):\n    threading.Thread("
    code = f"{threads}target=time.sleep, args=(600,), daemon=True).start()"
    with open_box("user-landlock") as box:
        names = [f"session-{number}" for number in range(7)]
        for name in names:
            box.create(name)
            box.cell(name, "1")
        assert {box.cell(name, code).outcome for name in names} == {"completed"}
