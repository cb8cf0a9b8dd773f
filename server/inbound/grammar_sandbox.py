"""Compiles clients' grammars in separate processes, to find out whether they compile.

A few hundred characters of JSON Schema can keep the compiler busy for minutes, and deeply nested
rules overflow its stack, which ends the process. Grammars from clients are therefore compiled first
in processes that can be killed (`grammar_compiler`). The result is a report of one line, which is
empty if the grammar compiles.
"""

import atexit
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import Future, wait
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from hashlib import sha256
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from queue import LifoQueue

from cachetools import LRUCache

from server import threads
from server.errors import RateLimited, Unavailable

SECONDS = 2.0
"""Seconds of CPU time that a grammar may take to compile."""

_WORKERS = 4
_MAX_QUEUED = 8
_MAX_FOLLOWERS = 64
_ATTEMPTS = 2
_MAX_REPORTS = 4096
_START_SECONDS = 60.0
_REPORT_SECONDS = 30.0
# -P: without it, Python would import modules from the folder that the server runs in.
_COMMAND = (sys.executable, "-P", str(Path(__file__).resolve().with_name("grammar_compiler.py")))


class GrammarSandbox:
    """Compiles grammars in a pool of processes and caches the reports. It is thread-safe.

    seconds: the CPU time that one grammar may take.
    """

    def __init__(self, seconds: float = SECONDS) -> None:
        self._reports: LRUCache[bytes, Future[str]] = LRUCache(_MAX_REPORTS)
        self._lock = threading.Lock()
        self._admitted = threading.BoundedSemaphore(_WORKERS + _MAX_QUEUED)
        self._followers = threading.BoundedSemaphore(_MAX_FOLLOWERS)
        self._workers = [_Worker(seconds) for _ in range(_WORKERS)]
        self._idle: LifoQueue[_Worker] = LifoQueue()
        for worker in self._workers:
            self._idle.put(worker)

    def start(self) -> None:
        """Start one process, so that the first grammar does not wait for it.

        Where that fails, the first grammar tries again.
        """
        with self._worker() as worker, suppress(_NoReport):
            worker.start()

    def problem(self, grammar: str) -> str | None:
        """Why `grammar` (Lark text) does not compile, as a clause; None if it compiles.

        Raises RateLimited if too many grammars wait, Unavailable if no process could compile it.
        """
        key = sha256(grammar.encode("utf-8", "surrogatepass")).digest()
        with self._lock:
            is_new = key not in self._reports
            report = self._reports.setdefault(key, Future())
        if is_new:
            with threads.waiting():
                self._complete(key, report, grammar)
        elif not report.done():  # equal grammars that arrive together are compiled once
            with threads.waiting(), _place(self._followers):
                wait([report])
        return report.result() or None

    def close(self) -> None:
        """End all processes, also those that are compiling."""
        for worker in self._workers:
            worker.close()

    def _compile(self, grammar: str) -> str:
        with _place(self._admitted), self._worker() as worker:
            for _ in range(_ATTEMPTS):
                with suppress(_NoReport):
                    return worker.report(grammar)
        raise Unavailable("A grammar could not be compiled; please try again shortly.")

    @contextmanager
    def _worker(self) -> Iterator["_Worker"]:
        """An idle worker, for which the caller's thread waits."""
        worker = self._idle.get()
        try:
            yield worker
        finally:
            self._idle.put(worker)

    def _complete(self, key: bytes, report: "Future[str]", grammar: str) -> None:
        try:
            report.set_result(self._compile(grammar))
        except BaseException as error:  # the grammar itself may be fine, so nothing is cached
            with self._lock:
                if self._reports.get(key) is report:
                    del self._reports[key]
            report.set_exception(error)


@contextmanager
def _place(places: threading.Semaphore) -> Iterator[None]:
    """One of the places for callers that wait, since each blocks a thread. Raises RateLimited."""
    if not places.acquire(blocking=False):
        raise RateLimited("Too many grammars are being compiled; please try again shortly.")
    try:
        yield
    finally:
        places.release()


@cache
def shared() -> GrammarSandbox:
    """The sandbox that this process uses; it is closed at exit."""
    sandbox = GrammarSandbox()
    atexit.register(sandbox.close)
    return sandbox


class _NoReport(Exception):
    """The process ended for other reasons than the grammar, or got too little CPU time."""


class _Worker:
    """A process that compiles grammars. It is started when it is needed and not running."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._process: subprocess.Popen[bytes] | None = None
        self._pipe: Connection
        self._closed = False

    def start(self) -> None:
        if self._closed:
            raise _NoReport
        if self._process is not None:
            return
        try:
            self._pipe, self._process = self._started()
        except OSError as error:  # such as no file descriptor, or no memory, being left
            raise _NoReport from error

    def _started(self) -> "tuple[Connection, subprocess.Popen[bytes]]":
        pipe, remote = Pipe()
        command = [*_COMMAND, str(remote.fileno()), str(self._seconds)]
        with ExitStack() as opened, remote:
            opened.enter_context(pipe)
            process = subprocess.Popen(
                command,
                pass_fds=[remote.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C must not reach it: the server ends it
            )
            opened.pop_all()  # the pipe stays open
        return pipe, process

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
        """The report on a grammar, empty if it compiles. Raises _NoReport if there is none.

        If the process ends, its signal shows whether the grammar is the reason.
        """
        self.start()
        try:
            self._receive(_START_SECONDS)
            self._pipe.send_bytes(grammar.encode("utf-8", "replace"))
            return self._receive(_REPORT_SECONDS)
        except (EOFError, OSError) as error:
            match self._exit_signal(error):
                case signal.SIGPROF:
                    return f"it takes longer than {self._seconds:g} s to compile"
                case signal.SIGABRT | signal.SIGBUS | signal.SIGSEGV:
                    return "it is too deep or too large to compile"
            raise _NoReport from error

    def _exit_signal(self, error: Exception) -> int | None:
        """The signal that ended the process; None if there was none, or if it is stopped here."""
        process, code = self._process, 0
        if process is not None and not isinstance(error, TimeoutError):
            code = process.wait()
        self._stop()
        return -code if code < 0 else None

    def _receive(self, seconds: float) -> str:
        if not self._pipe.poll(seconds):
            raise TimeoutError
        return self._pipe.recv_bytes().decode()
