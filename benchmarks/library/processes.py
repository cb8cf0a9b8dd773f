"""Server processes: started until they answer, measured, and ended."""

import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from benchmarks.library.figures import ROOT

LOGS = ROOT / "build/bench"
START_SECONDS = 600.0
END_SECONDS = 30.0


class NotStarted(Exception):
    """A server did not start. The message has the end of its output."""


class NotEnded(Exception):
    """A server did not end when it was asked to."""


class Process:
    """A process and all processes that it and its children start.

    command: how it is started. log: the file for its output. environment: variables in addition to
    those of this process.
    """

    def __init__(
        self, command: Sequence[str], log: Path, environment: Mapping[str, str] | None = None
    ) -> None:
        self._log = log
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("w") as output:
            self._popen = subprocess.Popen(
                command,
                cwd=ROOT,
                env={**os.environ, **(environment or {})},
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        self.pid = self._popen.pid

    def wait_until_ready(self, url: str) -> None:
        """Wait for a successful answer to GET `url`. Raises NotStarted."""
        limit = time.monotonic() + START_SECONDS
        while time.monotonic() < limit and self._popen.poll() is None:
            try:
                with urllib.request.urlopen(url, timeout=5):
                    return
            except (urllib.error.URLError, OSError):
                time.sleep(0.02)
        raise NotStarted(f"{url} does not answer:\n{self._log.read_text()[-2000:]}")

    @property
    def killed(self) -> bool:
        """Whether it had to be killed."""
        return self._popen.returncode == -signal.SIGKILL

    @property
    def cpu(self) -> float:
        """The processor time in seconds of all living processes."""
        return sum(map(process_seconds, family(self.pid)))

    @property
    def memory(self) -> int:
        """The resident bytes of all processes, as `family_memory` counts them."""
        return family_memory(self.pid)

    @property
    def proportional_memory(self) -> int:
        """The resident bytes of all processes; what n processes share counts 1/n for each."""
        return sum(map(_proportional, family(self.pid)))

    @property
    def peak_memory(self) -> int:
        """The sum of the most bytes that each process had since `reset_peak`."""
        return sum(_status(pid, "VmHWM") for pid in family(self.pid))

    def reset_peak(self) -> None:
        for pid in family(self.pid):
            Path(f"/proc/{pid}/clear_refs").write_text("5")

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """A context in which none of the processes runs."""
        pids = family(self.pid)
        try:
            _signal(pids, signal.SIGSTOP)
            yield
        finally:
            _signal(pids, signal.SIGCONT)

    def end(self) -> None:
        """End it as a supervisor does, so that it can end the processes that it started."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            self._popen.wait(END_SECONDS)
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._popen.wait()


@contextmanager
def running(
    command: Sequence[str],
    url: str,
    log: Path,
    environment: Mapping[str, str] | None = None,
) -> Iterator[Process]:
    """A server that answers GET `url` when the block begins. Raises NotStarted."""
    process = Process(command, log, environment)
    try:
        process.wait_until_ready(url)
        yield process
    finally:
        process.end()


def free_port() -> int:
    """A port of this machine that nothing uses now."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
    return port


def family(pid: int) -> list[int]:
    """A process, and all processes that it and its children have started."""
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            # The name in parentheses may have spaces.
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            children.setdefault(int(fields[1]), []).append(int(folder.name))
    found = [pid]
    for each in found:
        found += children.get(each, [])
    return found


def process_seconds(pid: int) -> float:
    """The processor time of a process in seconds, without its children; 0 if it has ended.

    Its ended threads count. The number is that of Linux for the clock of another process, which
    Python does not name: ticks of `/proc/PID/stat` are of 10 ms, too long for one token.
    """
    with suppress(OSError):
        return time.clock_gettime((~pid << 3) | 2)
    return 0.0


def memory(pid: int) -> int:
    """The resident bytes of a process, without its children; 0 if it has ended."""
    return _status(pid, "VmRSS")


def family_memory(pid: int) -> int:
    """The resident bytes of a `family`. What its processes share counts for each of them."""
    return sum(map(memory, family(pid)))


def _signal(pids: Sequence[int], number: int) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):  # it has ended in the meantime
            os.kill(pid, number)


def _proportional(pid: int) -> int:
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return memory(pid)  # another user's process tells no more


def _status(pid: int, name: str) -> int:
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1]) * 1024
    return 0
