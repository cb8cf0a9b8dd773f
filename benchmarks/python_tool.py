"""Measure Python sessions: `python -m benchmarks.python_tool [ROUNDS [SESSIONS]]`.

The output has the duration of the first cell of a session, with a process that is ready and without
one; of later cells; of cells of many sessions at once; and the memory of a process without state.
The machine's limits of confinement apply, as in `serve`.
"""

import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.library.processes import memory
from server.tools.python.process import ProcessSandbox
from server.tools.python.sandbox import SandboxLimits
from server.tools.python.usage import processes_below

LIMITS = SandboxLimits()


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    sessions = int(sys.argv[2]) if len(sys.argv) > 2 else 50
    folder = tempfile.mkdtemp(prefix="gpt-oss-benchmark-")
    os.chmod(folder, 0o711)
    try:
        asyncio.run(benchmark(folder, rounds, sessions))
    finally:
        subprocess.run(["rm", "-rf", folder], check=True)


async def benchmark(folder: str, rounds: int, sessions: int) -> None:
    sandbox = ProcessSandbox(Path(folder, "sessions"), most=sessions + rounds + 1)
    start = time.perf_counter()
    await sandbox.start()
    if sandbox.problem is not None:
        sys.exit(sandbox.problem)
    print("layers:", ", ".join(f"{name} {state}" for name, state in sandbox.layers.items()))
    print(f"start of the sandbox            {milliseconds(time.perf_counter() - start)}")
    try:
        await measure(sandbox, rounds, sessions)
    finally:
        await sandbox.stop()


async def measure(sandbox: ProcessSandbox, rounds: int, sessions: int) -> None:
    ready, cold = [], []
    for number in range(rounds):
        await sandbox.create(f"ready{number}", LIMITS)
        ready.append(await cell(sandbox, f"ready{number}"))
        # Other limits than the ready process has: this one starts anew.
        await sandbox.create(f"cold{number}", SandboxLimits(processes=63))
        cold.append(await cell(sandbox, f"cold{number}"))
        if sandbox._warming is not None:
            await sandbox._warming
        await sandbox.close(f"cold{number}")
    show("first cell, process ready", ready)
    show("first cell, process started", cold)
    show("later cells", [await cell(sandbox, "ready0") for _ in range(100)])
    live = sandbox._sessions["ready0"].live
    assert live is not None
    for pid in [live.pid, *processes_below(live.pid)]:
        print(f"memory of {name_of(pid):22}{memory(pid) / 2**20:7.1f} MiB")
    names = [f"many{number}" for number in range(sessions)]
    for name in names:
        await sandbox.create(name, LIMITS)
    start = time.perf_counter()
    await asyncio.gather(*(cell(sandbox, name) for name in names))
    print(f"{sessions} first cells at once         {milliseconds(time.perf_counter() - start)}")
    start = time.perf_counter()
    await asyncio.gather(*(cell(sandbox, name) for name in names))
    print(f"{sessions} later cells at once         {milliseconds(time.perf_counter() - start)}")


async def cell(sandbox: ProcessSandbox, session: str) -> float:
    start = time.perf_counter()
    async for _ in sandbox.run(session, "x = 1\nprint(x)\nx", 60):
        pass
    return time.perf_counter() - start


def show(name: str, durations: list[float]) -> None:
    shortest, median = min(durations), statistics.median(durations)
    print(f"{name:32}{milliseconds(shortest)} shortest, {milliseconds(median)} median")


def milliseconds(seconds: float) -> str:
    return f"{seconds * 1000:8.1f} ms"


def name_of(pid: int) -> str:
    command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    if b"bwrap" in command[0]:
        return "bubblewrap"
    return "worker" if command[-2].endswith(b"worker.py") else "guard"


if __name__ == "__main__":
    main()
