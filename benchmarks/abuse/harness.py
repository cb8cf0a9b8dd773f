"""A server to attack, and what an attack costs it: stalls of others, and memory."""

import asyncio
import http.client
import json
import multiprocessing
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).parents[2]
SCRIPT = {"completion": "<|channel|>final<|message|>Hello.<|return|>"}
SETTLE_SECONDS = 2.0
"""How long after an attack its memory may take to be given back."""

INTERVAL_SECONDS = 0.005
"""Between two looks of the observer."""


@dataclass(frozen=True)
class Target:
    """Where the server listens."""

    host: str
    port: int


Attack = Callable[[Target], Awaitable[str]]
"""Does the worst to a server; returns a few words on how it answered, for the table."""


async def post(target: Target, path: str, body: bytes, *headers: str) -> str:
    """Send a request on a connection of its own; the answer's status, or how it failed."""
    reader, writer = await asyncio.open_connection(target.host, target.port)
    head = [
        f"POST {path} HTTP/1.1",
        f"Host: {target.host}:{target.port}",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        "Connection: close",
        *headers,
    ]
    try:
        writer.write("\r\n".join([*head, "", ""]).encode() + body)
        answer = await reader.read()
        return answer.split(b" ", 2)[1].decode() if answer else "closed"
    except OSError as error:
        return type(error).__name__
    finally:
        writer.close()


@dataclass(frozen=True)
class Row:
    """One attack and its bounds.

    stall: seconds, the longest round trip of `/health` that another client may see. memory: bytes
    by which the server and its helper processes may grow, at any time. options: of `serve`.
    script: lines of the scripted engine's file.
    """

    name: str
    attack: Attack
    stall: float = 0.1
    memory: int = 50_000_000
    options: tuple[str, ...] = ()
    script: tuple[dict[str, Any], ...] = (SCRIPT,)


@dataclass(frozen=True)
class Result:
    """What an attack cost: seconds, and bytes at most and two seconds later."""

    stall: float
    peak: int
    kept: int
    answer: str

    def holds(self, row: Row) -> bool:
        """Whether the row's bounds hold."""
        return self.stall <= row.stall and self.peak <= row.memory


def measure(row: Row) -> Result:
    """Attack a fresh server and see what it costs."""
    with (
        server(*row.options, script=row.script) as (process, target),
        observer(process.pid, target) as pipe,
    ):
        pipe.recv()  # it has seen the idle server
        answer = asyncio.run(row.attack(target))
        time.sleep(SETTLE_SECONDS)
        pipe.send(True)
        stall, peak, kept = pipe.recv()
    return Result(stall, peak, kept, answer)


@contextmanager
def server(
    *options: str, script: Sequence[dict[str, Any]] = (SCRIPT,)
) -> Iterator[tuple[subprocess.Popen[str], Target]]:
    """A server process with the scripted engine and a store in memory, on a free port."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "script.jsonl"
        file.write_text("\n".join(map(json.dumps, script)), encoding="utf-8")
        command = [sys.executable, "-m", "server", "serve", "--backend", "scripted"]
        process = subprocess.Popen(
            [*command, "--script", str(file), "--port", "0", "--store", "memory", *options],
            cwd=ROOT,
            env=os.environ | {"GPT_OSS_LOG_LEVEL": "error"},
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            assert process.stdout is not None
            found = re.search(r"http://([\d.]+):(\d+)", process.stdout.readline())
            assert found is not None
            yield process, Target(found[1], int(found[2]))
        finally:
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=60)


@contextmanager
def observer(pid: int, target: Target) -> Iterator[Connection]:
    """A process that watches the server; the pipe says when it begins, and takes the end."""
    ours, theirs = multiprocessing.Pipe()
    context = multiprocessing.get_context("spawn")
    process = context.Process(target=_observe, args=(theirs, pid, target))
    process.start()
    try:
        yield ours
    finally:
        process.kill()
        process.join()


def _observe(pipe: Connection, pid: int, target: Target) -> None:
    idle = _memory(pid)
    stall, peak = 0.0, idle
    _round_trip(target)
    pipe.send(True)
    while not pipe.poll(INTERVAL_SECONDS):
        stall = max(stall, _round_trip(target))
        peak = max(peak, _memory(pid))
    pipe.send((stall, peak - idle, _memory(pid) - idle))


def _round_trip(target: Target) -> float:
    """Seconds until `/health` answers on a new connection, however it does."""
    began = time.perf_counter()
    connection = http.client.HTTPConnection(target.host, target.port, timeout=120)
    try:
        connection.request("GET", "/health")
        connection.getresponse().read()
    finally:
        connection.close()
    return time.perf_counter() - began


def _memory(pid: int) -> int:
    """Bytes in memory of a process and all that it started."""
    process = psutil.Process(pid)
    total = 0
    for each in (process, *process.children(recursive=True)):
        try:
            total += each.memory_info().rss
        except psutil.NoSuchProcess:
            continue
    return total
