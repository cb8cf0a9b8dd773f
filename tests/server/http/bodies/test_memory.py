"""What bodies that nobody takes cost a server: the trials that found it, within their bounds."""

import asyncio
import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx
import psutil
import pytest

from benchmarks.abuse import anonymous
from benchmarks.abuse.harness import SCRIPT, SETTLE_SECONDS, Row, Target
from tests.forks import Fork, Forks

NAMES = (
    "60 zstd bombs to an unknown path",
    "60 zstd bombs with a key",
    "150 bodies of 30 MB with a wrong key at once",
)


@contextmanager
def server(forks: Forks, folder: Path, *options: str) -> Iterator[tuple[Fork, Target]]:
    """Without hosted tools: the interpreter grows by itself until it waits for its first cell."""
    script = folder / "script.jsonl"
    script.write_text(json.dumps(SCRIPT), encoding="utf-8")
    options = ("--backend", "scripted", "--script", str(script), "--store", "memory", *options)
    process = forks.start("serve", "--port", "0", "--hosted-tools", "none", *options)
    try:
        url = httpx.URL(process.stdout.readline().split()[-1])
        httpx.get(url.join("/health"))
        yield process, Target(url.host, url.port or 80)
    finally:
        process.kill()


def family(process: Fork) -> list[int]:
    children = psutil.Process(process.pid).children(recursive=True)
    return [process.pid, *(child.pid for child in children)]


def memory(process: Fork, line: str) -> int:
    """Bytes of a process and its descendants. line: VmRSS, or VmHWM for the most so far."""
    total = 0
    for pid in family(process):
        with suppress(FileNotFoundError):  # it has ended
            status = Path(f"/proc/{pid}/status").read_text()
            total += int(status.split(f"{line}:")[1].split()[0]) * 1024
    return total


def settled(measure: Callable[[], int], most: int) -> int:
    """What is measured as soon as it is `most`, or after SETTLE_SECONDS."""
    limit = time.monotonic() + SETTLE_SECONDS
    while (measured := measure()) > most and time.monotonic() < limit:
        time.sleep(0.05)
    return measured


@pytest.mark.skipif(sys.platform != "linux", reason="no /proc")
@pytest.mark.parametrize(
    "row", [row for row in anonymous.ROWS if row.name in NAMES], ids=lambda row: row.name
)
def test_bodies_cost_no_more_memory_than_they_may(forks: Forks, tmp_path: Path, row: Row) -> None:
    with server(forks, tmp_path, *row.options) as (process, target):
        for pid in family(process):
            Path(f"/proc/{pid}/clear_refs").write_text("5")  # resets the peak
        before = memory(process, "VmRSS")
        answers = asyncio.run(row.attack(target))
        assert memory(process, "VmHWM") - before <= row.memory, answers
        assert settled(lambda: memory(process, "VmRSS") - before, row.memory) <= row.memory


def test_the_trials_are_there() -> None:
    assert {row.name for row in anonymous.ROWS} >= set(NAMES)
