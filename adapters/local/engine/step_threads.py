"""How many threads compute a step on a CPU: fewer while other processes use its cores.

The threads of a step wait for each other some hundred times. Where one of them shares its core with
another process, all wait for it. With both cores of a machine in use, answers took 1.2 and 1.8
times as long as on an idle one, and 3.2 and 5.1 times without this (`benchmarks/lifetime.py`).
"""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

_INTERVAL = 0.2
# A longer interval says little about the present.
_LONGEST = 2.0
_STAT = Path("/proc/stat")


@dataclass(frozen=True, slots=True)
class Usage:
    """Seconds since some start: of the clock, and of cores used by this and by all processes."""

    at: float
    own: float
    everyone: float


def usage() -> Usage | None:
    """The machine's usage at present; None where it is not known."""
    try:
        with _STAT.open() as file:
            fields = [int(field) for field in file.readline().split()[1:]]
    except (OSError, ValueError):
        return None
    # user, nice, system, idle, iowait, irq, softirq, steal; the time of guests is in user and nice.
    busy = sum(fields[:3]) + sum(fields[5:8])
    own = os.times()
    return Usage(time.monotonic(), own.user + own.system, busy / os.sysconf("SC_CLK_TCK"))


class StepThreads:
    """Sets torch's number of threads for the thread that calls `adjust` before each step."""

    def __init__(
        self,
        read: Callable[[], Usage | None] = usage,
        apply: Callable[[int], None] = torch.set_num_threads,
    ) -> None:
        self._read = read
        self._apply = apply
        self._most = self._count = torch.get_num_threads()
        self._last = read()

    def adjust(self) -> None:
        """Use as many threads as there are cores that others leave free, one at least."""
        last = self._last
        if last is None or self._most == 1 or time.monotonic() - last.at < _INTERVAL:
            return
        self._last = now = self._read()
        if now is None or not 0 < now.at - last.at <= _LONGEST:
            return
        others = (now.everyone - last.everyone - (now.own - last.own)) / (now.at - last.at)
        wanted = min(max(1, self._most - round(others)), self._most)
        if wanted != self._count:
            self._count = wanted
            self._apply(wanted)
