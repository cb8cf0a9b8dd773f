"""Whether a grammar compiles, found out where that does no harm.

A few hundred characters of JSON Schema can keep the compiler busy for minutes, and rules that lead
to ever more rules overflow its stack, which ends the process. What clients send is therefore
compiled first in processes that may be killed (`compiler`), one line of report for each grammar.
"""

import atexit
import signal
import subprocess
import sys
import threading
from collections import OrderedDict
from collections.abc import Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager, suppress
from functools import cache
from hashlib import sha256
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from queue import LifoQueue

from server.errors import RateLimited, Unavailable

SECONDS = 2.0
"""How much of a processor's time a grammar may take to compile."""

_WORKERS = 4
_WAITING = 8
_FOLLOWING = 64
_TRIES = 2
_KEPT_REPORTS = 4096
_START_SECONDS = 60.0
_STARVED_SECONDS = 30.0
# -P: the folder that the server runs in may hold modules of any name, which would be imported.
_COMMAND = (sys.executable, "-P", str(Path(__file__).resolve().with_name("grammar_compiler.py")))


class GrammarSandbox:
    """Compiles grammars on trial; reports are kept by content. Safe to share between threads."""

    def __init__(self, seconds: float = SECONDS) -> None:
        self._reports: OrderedDict[bytes, Future[str]] = OrderedDict()
        self._lock = threading.Lock()
        self._places = threading.BoundedSemaphore(_WORKERS + _WAITING)
        self._followers = threading.BoundedSemaphore(_FOLLOWING)
        self._workers = [_Worker(seconds) for _ in range(_WORKERS)]
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
        """Why `grammar` (Lark text) does not compile, as a clause; None where it does.

        Raises RateLimited where too many wait already, Unavailable where it could not be found out.
        """
        key = sha256(grammar.encode("utf-8", "surrogatepass")).digest()
        with self._lock:
            kept = self._reports.get(key)
            report = self._reports.setdefault(key, Future())
            if len(self._reports) > _KEPT_REPORTS:
                self._reports.popitem(last=False)
        if kept is None:
            self._conclude(key, report, grammar)
        elif not report.done():  # a burst of equal requests is one trial
            self._follow(report)
        return report.result() or None

    def close(self) -> None:
        """End the processes; those of trials in progress too."""
        for worker in self._workers:
            worker.close()

    def _try(self, grammar: str) -> str:
        with self._worker() as worker:
            for _ in range(_TRIES):
                with suppress(_Accident):
                    return worker.report(grammar)
        raise Unavailable("A grammar could not be tried; please try again shortly.")

    @contextmanager
    def _worker(self) -> Iterator["_Worker"]:
        """Those who wait hold a thread each: they are few, and none for long."""
        if not self._places.acquire(blocking=False):
            raise RateLimited("Too many grammars are being tried; please try again shortly.")
        try:
            worker = self._idle.get()
            try:
                yield worker
            finally:
                self._idle.put(worker)
        finally:
            self._places.release()

    def _conclude(self, key: bytes, report: "Future[str]", grammar: str) -> None:
        try:
            report.set_result(self._try(grammar))
        except BaseException as error:  # which says nothing about the grammar
            with self._lock:
                if self._reports.get(key) is report:
                    del self._reports[key]
            report.set_exception(error)

    def _follow(self, report: "Future[str]") -> None:
        """Wait for another's trial."""
        if not self._followers.acquire(blocking=False):
            raise RateLimited("Too many grammars are being tried; please try again shortly.")
        try:
            wait([report])
        finally:
            self._followers.release()


@cache
def shared() -> GrammarSandbox:
    """The trials of this process."""
    trials = GrammarSandbox()
    atexit.register(trials.close)
    return trials


class _Accident(Exception):
    """The process ended or starved, which says nothing about the grammar."""


class _Worker:
    """A process for trials, started when it is first needed and again after each death."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._process: subprocess.Popen[bytes] | None = None
        self._pipe: Connection
        self._closed = False

    def start(self) -> None:
        if self._closed:
            raise _Accident
        if self._process is not None:
            return
        self._pipe, theirs = Pipe()
        command = [*_COMMAND, str(theirs.fileno()), str(self._seconds)]
        with theirs:
            self._process = subprocess.Popen(
                command,
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C is the server's to handle
            )

    def close(self) -> None:
        self._closed = True
        self._stop()

    def _stop(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            self._pipe.close()

    def report(self, grammar: str) -> str:
        """The report on a grammar, empty where it compiles. Raises _Accident where there is none.

        How the process ended tells what of that is the grammar's doing.
        """
        self.start()
        try:
            self._receive(_START_SECONDS)
            self._pipe.send_bytes(grammar.encode("utf-8", "replace"))
            return self._receive(_STARVED_SECONDS)
        except (EOFError, OSError) as error:
            match self._ended(error):
                case signal.SIGPROF:
                    return f"it takes longer than {self._seconds:g} s to compile"
                case signal.SIGABRT | signal.SIGBUS | signal.SIGSEGV:
                    return "it is too deep or too large to compile"
            raise _Accident from error

    def _ended(self, error: Exception) -> int | None:
        """The signal that the process ended by; None where it was none, or is ended here."""
        process, code = self._process, 0
        if process is not None and not isinstance(error, TimeoutError):
            code = process.wait()
        self._stop()
        return -code if code < 0 else None

    def _receive(self, seconds: float) -> str:
        if not self._pipe.poll(seconds):
            raise TimeoutError
        return self._pipe.recv_bytes().decode()
