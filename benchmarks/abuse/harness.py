"""Start a server, attack it, and measure its response times and memory."""

import asyncio
import http.client
import json
import multiprocessing
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from benchmarks.library.processes import NotEnded, Process, family_memory, free_port, running

SCRIPT = {"completion": "<|channel|>final<|message|>Hello.<|return|>"}
SETTLE_SECONDS = 2.0
"""The time after an attack at which memory is measured again."""

INTERVAL_SECONDS = 0.005
"""The time between two measurements of the observer."""


@dataclass(frozen=True)
class Target:
    """The address of the server."""

    host: str
    port: int


@dataclass(frozen=True)
class Answers:
    """How often the server gave each answer: a status, `closed`, or the type of an error.

    note: what else the table shows.
    """

    counts: Mapping[str, int]
    note: str = ""

    def __str__(self) -> str:
        counts = sorted(self.counts.items(), key=lambda pair: -pair[1])
        shown = ", ".join(f"{count} x {answer}" for answer, count in counts)
        return f"{shown} ({self.note})" if self.note else shown


LOST = frozenset({"ConnectionResetError", "BrokenPipeError"})
"""Instead of a refusal: the connection was closed before the client had sent all and read it."""

Attack = Callable[[Target], Coroutine[Any, Any, Answers]]
"""Attacks a server. Returns its answers."""


async def answers_of(requests: Iterable[Coroutine[Any, Any, str]]) -> Answers:
    """Send requests at once."""
    return Answers(Counter(await asyncio.gather(*requests)))


def request(target: Target, method: str, path: str, body: bytes, *headers: str) -> bytes:
    """A request with a body of JSON, as it is sent."""
    head = [
        f"{method} {path} HTTP/1.1",
        f"Host: {target.host}:{target.port}",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        *headers,
    ]
    return "\r\n".join([*head, "", ""]).encode() + body


async def post(target: Target, path: str, body: bytes, *headers: str) -> str:
    """Send a request on a new connection. Returns the status, `closed`, or the error's type."""
    reader, writer = await asyncio.open_connection(target.host, target.port)
    try:
        writer.write(request(target, "POST", path, body, "Connection: close", *headers))
        answer = await reader.read()
        return answer.split(b" ", 2)[1].decode() if answer else "closed"
    except OSError as error:
        return type(error).__name__
    finally:
        writer.close()


@dataclass(frozen=True)
class Row:
    """One attack, its bounds, and the answers that it is to get.

    name: the row's name.
    attack: the attack.
    expected: the permitted answers. Another one means that the attack did not reach what it is for,
      or that the server broke.
    stall: the longest permitted round trip of `/health` on another connection, in seconds.
    memory: the largest permitted growth of the server and its child processes, in bytes.
    options: options of `serve`.
    script: the lines of the scripted engine's file.
    """

    name: str
    attack: Attack
    expected: frozenset[str]
    stall: float = 0.1
    memory: int = 50_000_000
    options: tuple[str, ...] = ()
    script: tuple[dict[str, Any], ...] = (SCRIPT,)


@dataclass(frozen=True)
class Result:
    """What an attack caused.

    stall: the longest round trip of `/health` in seconds.
    peak_memory: the largest growth in bytes.
    memory_after: the growth in bytes after SETTLE_SECONDS.
    answers: what the server answered to the attack.
    """

    stall: float
    peak_memory: int
    memory_after: int
    answers: Answers

    def within_bounds(self, row: Row) -> bool:
        """Whether stall and peak memory are within the row's bounds."""
        return self.stall <= row.stall and self.peak_memory <= row.memory

    def as_expected(self, row: Row) -> bool:
        """Whether the server answered, and only as the row permits."""
        return bool(self.answers.counts) and self.answers.counts.keys() <= row.expected


def measure(row: Row) -> Result:
    """Attack a new server and measure stall and memory."""
    with (
        server(*row.options, script=row.script) as (process, target),
        observer(process.pid, target) as pipe,
    ):
        pipe.recv()  # the idle server has been measured
        answers = asyncio.run(row.attack(target))
        time.sleep(SETTLE_SECONDS)
        pipe.send(True)
        stall, peak_memory, memory_after = pipe.recv()
    return Result(stall, peak_memory, memory_after, answers)


@contextmanager
def server(
    *options: str, script: Sequence[dict[str, Any]] = (SCRIPT,)
) -> Iterator[tuple[Process, Target]]:
    """A server process with the scripted engine and a store in memory, on a free port.

    What it logs, errors alone, is printed at the end. Raises NotEnded if it does not stop.
    """
    target = Target("127.0.0.1", free_port())
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "script.jsonl"
        file.write_text("\n".join(map(json.dumps, script)), encoding="utf-8")
        command = [
            *(sys.executable, "-m", "server", "serve", "--backend", "scripted"),
            *("--script", str(file), "--port", str(target.port), "--store", "memory"),
            *("--log-level", "error", *options),
        ]
        url = f"http://{target.host}:{target.port}/health"
        log = Path(folder) / "server.log"
        try:
            with running(command, url, log) as process:
                yield process, target
        finally:
            print(log.read_text(), end="", file=sys.stderr)
        if process.killed:
            raise NotEnded("the server did not stop after the attack")


@contextmanager
def observer(pid: int, target: Target) -> Iterator[Connection]:
    """A process that measures the server. It sends when it is ready, and its result when asked."""
    pipe, observer_pipe = multiprocessing.Pipe()
    context = multiprocessing.get_context("spawn")
    process = context.Process(target=_observe, args=(observer_pipe, pid, target))
    process.start()
    try:
        yield pipe
    finally:
        process.kill()
        process.join()


def _observe(pipe: Connection, pid: int, target: Target) -> None:
    idle = family_memory(pid)
    stall, peak = 0.0, idle
    _round_trip(target)
    pipe.send(True)
    while not pipe.poll(INTERVAL_SECONDS):
        stall = max(stall, _round_trip(target))
        peak = max(peak, family_memory(pid))
    pipe.send((stall, peak - idle, family_memory(pid) - idle))


def _round_trip(target: Target) -> float:
    """Seconds until `/health` answers on a new connection, with any status."""
    began = time.perf_counter()
    connection = http.client.HTTPConnection(target.host, target.port, timeout=120)
    try:
        connection.request("GET", "/health")
        connection.getresponse().read()
    finally:
        connection.close()
    return time.perf_counter() - began
