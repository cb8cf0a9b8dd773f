"""Find slow-downs in less than three minutes: `make bench-quick`.

    python -m benchmarks.quick [--only NAME ...] [--bounds FILE]

Some benchmarks run with little work. Their ratios are compared with the bounds in bounds.toml. A
benchmark with a ratio below its bound runs again, up to three times. The command fails if a ratio
is below its bound in all three.
"""

import argparse
import shlex
import sys
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.library.figures import ROOT, BenchmarkFailed, Figures, measure

BOUNDS = Path(__file__).with_name("bounds.toml")
TRIES = 3
# Waiting threads spin, which would count as work.
ENVIRONMENT = {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}


@dataclass(frozen=True)
class Ratio:
    """A ratio of a benchmark: what it usually is, and the least that is accepted."""

    name: str
    usual: float
    least: float


@dataclass(frozen=True)
class Benchmark:
    """command: the module's name below `benchmarks`, and its arguments. about: what is compared."""

    command: tuple[str, ...]
    about: str
    ratios: tuple[Ratio, ...]

    @property
    def name(self) -> str:
        return self.command[0]


@dataclass(frozen=True)
class Outcome:
    """The values of a ratio, one for each try."""

    benchmark: Benchmark
    ratio: Ratio
    values: tuple[float, ...]

    @property
    def is_slower(self) -> bool:
        return all(value < self.ratio.least for value in self.values)


Run = Callable[[Benchmark], Figures]


def read_bounds(file: Path) -> list[Benchmark]:
    content = tomllib.loads(file.read_text(encoding="utf-8"))
    return [
        Benchmark(
            tuple(shlex.split(entry["command"])),
            entry["about"],
            tuple(Ratio(**ratio) for ratio in entry["ratio"]),
        )
        for entry in content["benchmark"]
    ]


def run(benchmark: Benchmark) -> Figures:
    module, *arguments = benchmark.command
    return measure(module, arguments, environment=ENVIRONMENT)


def judge(benchmark: Benchmark, run: Run, tries: int = TRIES) -> list[Outcome]:
    """Run a benchmark until each of its ratios has reached its bound once, at most `tries` times.

    Raises KeyError for a ratio that the benchmark does not have.
    """
    values: dict[Ratio, list[float]] = {ratio: [] for ratio in benchmark.ratios}
    waiting = benchmark.ratios
    for _ in range(tries):
        figures = run(benchmark)
        for ratio in waiting:
            values[ratio].append(figures[ratio.name])
        waiting = tuple(ratio for ratio in waiting if values[ratio][-1] < ratio.least)
        if not waiting:
            break
    return [Outcome(benchmark, ratio, tuple(each)) for ratio, each in values.items()]


def line(outcome: Outcome) -> str:
    measured = " ".join(f"{value:.2f}" for value in outcome.values)
    verdict = "SLOWER" if outcome.is_slower else "ok"
    ratio = outcome.ratio
    name = f"{outcome.benchmark.name}: {ratio.name}"
    return f"{name:58} {measured:14} {ratio.least:5.2f} {ratio.usual:6.2f}  {verdict}"


def explain(slower: Sequence[Outcome], bounds: Path) -> str:
    """What a reader of a failed build needs: what became slower, and how to measure it again."""
    parts = [f"{len(slower)} of the ratios were below their bounds in {TRIES} tries each."]
    for benchmark in dict.fromkeys(outcome.benchmark for outcome in slower):
        parts += [
            f"- {benchmark.name} measures {benchmark.about}. To measure it alone:",
            f"    OMP_NUM_THREADS=1 python -m benchmarks.{shlex.join(benchmark.command)}",
        ]
    shown = bounds.relative_to(ROOT) if bounds.is_relative_to(ROOT) else bounds
    parts.append(f"If the slow-down is intended, lower the bounds in {shown}, and say why.")
    return "\n".join(parts)


def main(argv: Sequence[str] | None = None, run: Run = run) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", metavar="NAME", help="of the benchmarks to run")
    parser.add_argument("--bounds", type=Path, default=BOUNDS)
    options = parser.parse_args(argv)
    outcomes: list[Outcome] = []
    print(f"{'ratio':58} {'measured':14} {'least':5} {'usual':6}", flush=True)
    for benchmark in read_bounds(options.bounds):
        if options.only and benchmark.name not in options.only:
            continue
        try:
            found = judge(benchmark, run)
        except BenchmarkFailed as error:
            print(error, file=sys.stderr)
            return 1
        print("\n".join(map(line, found)), flush=True)
        outcomes += found
    slower = [outcome for outcome in outcomes if outcome.is_slower]
    if slower:
        print(explain(slower, options.bounds), file=sys.stderr)
    return int(bool(slower))


if __name__ == "__main__":
    sys.exit(main())
