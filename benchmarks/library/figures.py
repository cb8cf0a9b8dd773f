"""Named figures, which every benchmark prints and can write to a file for another program."""

import json
import os
import statistics
import subprocess
import sys
import tempfile
from argparse import ArgumentParser
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]

Figures = dict[str, float]
"""Values by name. A name that contains ` / ` is that of a ratio."""


class BenchmarkFailed(Exception):
    """A benchmark ended with an error. The message has its command and its last output."""


def add_option(parser: ArgumentParser) -> None:
    parser.add_argument("--json", type=Path, metavar="FILE", help="where to write the figures")


def write(figures: Figures, file: Path | None) -> None:
    """Write the figures to a file, if there is one."""
    if file is not None:
        file.write_text(json.dumps(figures, indent=1) + "\n")


def measure(
    module: str,
    arguments: Sequence[str] = (),
    *,
    python: str = sys.executable,
    environment: Mapping[str, str] | None = None,
) -> Figures:
    """Run a benchmark in a process of its own, and return its figures.

    module: its name below `benchmarks`. environment: variables in addition to those of this
    process. Raises BenchmarkFailed.
    """
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "figures.json"
        command = [python, "-m", f"benchmarks.{module}", *arguments, "--json", str(file)]
        done = subprocess.run(
            command,
            cwd=ROOT,
            env={**os.environ, **(environment or {})},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        if done.returncode:
            shown = " ".join(["python", *command[1:-2]])
            raise BenchmarkFailed(f"{shown} ended with {done.returncode}:\n{done.stdout[-2000:]}")
        figures: Figures = json.loads(file.read_text())
    return figures


def median_ratio(over: Sequence[float], under: Sequence[float]) -> float:
    """The median of the ratios of pairs, which were measured one after the other.

    Other load affects both sides of a pair about equally.
    """
    return statistics.median(one / other for one, other in zip(over, under, strict=True))
