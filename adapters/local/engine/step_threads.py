"""How many threads compute a step on a CPU: fewer while other processes use its cores.

The threads of a step wait for each other some hundred times. Where one of them shares its core with
another process, all wait for it. With both cores of a machine in use, answers took 1.2 and 1.8
times as long as on an idle one, and 3.2 and 5.1 times without this (`benchmarks/lifetime.py`).
"""

import itertools
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch

_INTERVAL = 0.2
# Between steps without a pause there are less than 10 ms.
_PAUSE = 0.05
_STAT = Path("/proc/stat")


@dataclass(frozen=True, slots=True)
class Usage:
    """Seconds since some start: of the clock, and of cores used by this and by all processes.

    Only the cores that this process may use count.
    """

    at: float
    own: float
    everyone: float


def own_cores() -> frozenset[int]:
    """The numbers of the cores that this process may use; empty where the system names none."""
    if sys.platform == "linux":
        return frozenset(os.sched_getaffinity(os.getpid()))
    return frozenset()


def usage(cores: frozenset[int]) -> Usage | None:
    """The usage of the cores at present; None where it is not known."""
    names = {f"cpu{core}" for core in cores}
    busy = 0
    try:
        with _STAT.open() as file:
            for line in itertools.takewhile(lambda line: line.startswith("cpu"), file):
                name, *fields = line.split()
                if name in names:
                    # user, nice, system, idle, iowait, irq, softirq, steal; the time of guests is
                    # in user and nice.
                    busy += sum(map(int, [*fields[:3], *fields[5:8]]))
                    names.remove(name)
    except (OSError, ValueError):
        return None
    own = os.times()
    if names or not cores:
        return None
    return Usage(time.monotonic(), own.user + own.system, busy / os.sysconf("SC_CLK_TCK"))


class StepThreads:
    """Sets torch's number of threads for the thread that runs the steps."""

    def __init__(
        self,
        cores: frozenset[int] | None = None,
        read: Callable[[frozenset[int]], Usage | None] = usage,
        apply: Callable[[int], None] = torch.set_num_threads,
    ) -> None:
        """cores: those that the threads may use; None for those of the process."""
        self._cores = own_cores() if cores is None else cores
        self._read = read
        self._apply = apply
        self._most = self._count = torch.get_num_threads()
        self._last = read(self._cores) if self._most > 1 else None
        self._ended = time.monotonic()

    @contextmanager
    def step(self) -> Iterator[None]:
        """A step. The steps after it have as many threads as there are cores that others leave
        free.

        Others that used the cores in a pause of this process do not slow down its steps. A tool
        that has run in between, for example, would else halve the threads for a long prompt, which
        may be a single step.
        """
        last = self._last
        if last is not None and time.monotonic() - self._ended > _PAUSE:
            self._last = last = self._read(self._cores) or last
        try:
            yield
        finally:
            self._ended = time.monotonic()
            if last is not None and self._ended - last.at >= _INTERVAL:
                self._adjust(last)

    def _adjust(self, last: Usage) -> None:
        """Use one thread at least. There may be more cores than threads: then others have to use
        many of them first."""
        now = self._read(self._cores)
        if now is None or now.at <= last.at:
            return
        self._last = now
        others = (now.everyone - last.everyone - (now.own - last.own)) / (now.at - last.at)
        wanted = min(max(1, len(self._cores) - round(others)), self._most)
        if wanted != self._count:
            self._count = wanted
            self._apply(wanted)
