"""Whether a grammar compiles, found out where that does no harm.

A few hundred characters of JSON Schema can keep the compiler busy for minutes, and rules that lead
to ever more rules overflow its stack, which ends the process. What clients send is therefore
compiled first in processes that may be killed, one line of report for each grammar.
"""

import atexit
import resource
import subprocess
import sys
import threading
from collections import OrderedDict
from contextlib import suppress
from functools import cache
from hashlib import sha256
from multiprocessing.connection import Connection, Pipe
from queue import LifoQueue

from llguidance import LLMatcher

SECONDS = 2.0
"""How long a grammar may take to compile."""

_WORKERS = 4
_KEPT_REPORTS = 4096
_START_SECONDS = 60.0
# An engine compiles on a thread of 8 MiB: what fits in here fits in there.
_STACK_BYTES = 1 << 20
_MEMORY_BYTES = 2 << 30


class Trials:
    """Compiles grammars on trial; reports are kept by content. Safe to share between threads."""

    def __init__(self, seconds: float = SECONDS) -> None:
        self._seconds = seconds
        self._reports: OrderedDict[bytes, str] = OrderedDict()
        self._lock = threading.Lock()
        self._workers = [_Worker() for _ in range(_WORKERS)]
        self._idle: LifoQueue[_Worker] = LifoQueue()
        for worker in self._workers:
            self._idle.put(worker)

    def start(self) -> None:
        """Have one process ready: the first grammar need not wait for it."""
        worker = self._idle.get()
        try:
            worker.start()
        finally:
            self._idle.put(worker)

    def problem(self, grammar: str) -> str | None:
        """Why `grammar` (Lark text) does not compile, as a clause; None where it does."""
        key = sha256(grammar.encode("utf-8", "surrogatepass")).digest()
        with self._lock:
            report = self._reports.get(key)
        if report is None:
            report = self._try(grammar)
            self._keep(key, report)
        return report or None

    def close(self) -> None:
        """End the processes; those of trials in progress too."""
        for worker in self._workers:
            worker.stop()

    def _try(self, grammar: str) -> str:
        worker = self._idle.get()
        try:
            return worker.report(grammar, self._seconds)
        finally:
            self._idle.put(worker)

    def _keep(self, key: bytes, report: str) -> None:
        with self._lock:
            self._reports[key] = report
            if len(self._reports) > _KEPT_REPORTS:
                self._reports.popitem(last=False)


@cache
def shared() -> Trials:
    """The trials of this process."""
    trials = Trials()
    atexit.register(trials.close)
    return trials


class _Worker:
    """A process for trials, started when it is first needed and again after each death."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._pipe: Connection

    def start(self) -> None:
        if self._process is not None:
            return
        self._pipe, theirs = Pipe()
        command = [sys.executable, "-m", __name__, str(theirs.fileno())]
        with theirs:
            self._process = subprocess.Popen(
                command,
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C is the server's to handle
            )

    def stop(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            self._pipe.close()

    def report(self, grammar: str, seconds: float) -> str:
        """The report on a grammar, empty where it compiles."""
        self.start()
        try:
            self._receive(_START_SECONDS)
            self._pipe.send_bytes(grammar.encode("utf-8", "replace"))
            return self._receive(seconds)
        except TimeoutError:
            self.stop()
            return f"it takes longer than {seconds:g} s to compile"
        except (EOFError, OSError):
            self.stop()
            return "it is too deep or too large to compile"

    def _receive(self, seconds: float) -> str:
        if not self._pipe.poll(seconds):
            raise TimeoutError
        return self._pipe.recv_bytes().decode()


def _run(pipe: Connection) -> None:
    """The process: says that it is ready, then takes a grammar and tells its report, for ever."""
    while True:
        pipe.send_bytes(b"")
        report: str = LLMatcher.validate_grammar(pipe.recv_bytes().decode())
        # The rest of the report quotes the grammar around the place.
        pipe.send_bytes(report.partition("\n")[0].removesuffix(".").encode())


def _main(descriptor: int) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with suppress(ValueError):  # macOS bounds no memory
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    threading.stack_size(_STACK_BYTES)
    thread = threading.Thread(target=_run, args=[Connection(descriptor)])
    thread.start()
    thread.join()


if __name__ == "__main__":
    _main(int(sys.argv[1]))
