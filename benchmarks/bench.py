"""Print the table of this server's speed, with what it is compared with: `make bench`.

    make test-vllm test-llama-cpp   # once: installs vLLM, and builds llama.cpp
    python -m benchmarks.bench [--only NAME ...] [--quick] [--docs]

Each line of the table is a figure of a benchmark, with the value that is to be reached. The figures
and the table are written to build/bench. --docs also writes the table into docs/benchmarks.md, and
the plot into docs/images; the page keeps the sections of what did not run. --only runs some of the
benchmarks, and draws the plot if `peers` is among them. --quick runs each benchmark with little
work, to see that it runs; its figures are not for the page. What needs vLLM or llama.cpp is left
out where these are not installed. The exit status is 1 if a benchmark broke or lacks the figure of
a goal, never because of a figure's value.
"""

import argparse
import json
import platform
import re
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from adapters.local.model.precision import multiplies_bfloat16
from benchmarks.library.engines import PEERS, VLLM_PYTHON, installed
from benchmarks.library.figures import ROOT, BenchmarkFailed, Figures, measure
from benchmarks.library.processes import LOGS
from benchmarks.plot import draw

DOCS = ROOT / "docs/benchmarks.md"
PLOT = ROOT / "docs/images/benchmark.png"
BEGIN, END = "<!-- results of `make bench` -->", "<!-- end of the results -->"


@dataclass(frozen=True)
class Goal:
    """A figure, and what it has to reach: at least, or at most."""

    figure: str
    least: float | None = None
    most: float | None = None

    def is_met(self, value: float) -> bool:
        return (self.least is None or value >= self.least) and (
            self.most is None or value <= self.most
        )

    @property
    def bound(self) -> str:
        return f"≥ {self.least:,g}" if self.least is not None else f"≤ {self.most:,g}"


@dataclass(frozen=True)
class Part:
    """One benchmark of the table.

    quick: the arguments with which it does little work. needs: a file that must exist.
    """

    title: str
    module: str
    arguments: str
    quick: str
    goals: tuple[Goal, ...]
    python: str = sys.executable
    needs: Path | None = None

    def command(self, *, quick: bool) -> list[str]:
        return shlex.split(f"{self.arguments} {self.quick if quick else ''}")


def _apis(streams: int) -> tuple[Goal, ...]:
    kinds = [f"{api}{masked}" for masked in ("", " masked") for api in ("chat", "responses")]
    rates = [Goal(f"{kind}, {streams} streams, tokens/s: ours / vLLM", least=1.0) for kind in kinds]
    name = "CPU per token: ours / vLLM"
    return (*rates, *(Goal(f"{kind}, {streams} streams, {name}", most=0.35) for kind in kinds))


PARTS = (
    Part(
        "Streaming: the whole server, scripted engine, and sse-starlette with encoded events",
        "sse",
        "--streams 64",
        "--tokens 50 --rounds 1",
        (
            Goal("64 streams: chat, events per processor second", least=75_000),
            Goal("64 streams: responses, events per processor second", least=65_000),
            Goal("64 streams: chat / sse-starlette", least=0.84),
            Goal("64 streams: responses / sse-starlette", least=0.73),
        ),
    ),
    Part(
        "The backend vllm, and vLLM's own API, in front of one engine",
        "vllm",
        "--streams 1 16 --launches 1 --requests 32",
        "--launches 1 --requests 1 --tokens 8",
        (*_apis(1), *_apis(16)),
        str(VLLM_PYTHON),
        VLLM_PYTHON,
    ),
    Part(
        "The backend transformers, and its continuous batching alone",
        "local",
        "--streams 16 --arms manager greedy sampled 'sampled, JSON grammar' 'sampled, top_p'",
        "--rounds 1 --tokens 4",
        (
            Goal("16 streams: greedy / manager", least=1.0),
            Goal("16 streams: sampled / manager", least=0.98),
            Goal("16 streams: sampled, JSON grammar / manager", least=0.95),
            Goal("16 streams: sampled, top_p / manager", least=0.9),
        ),
    ),
    Part(
        "Forced tokens, and sampling them",
        "forced",
        "--streams 1 16",
        "--rounds 1",
        (
            Goal("json, ten keys, 1 streams: forced / sampled", least=1.9),
            Goal("json, ten keys, 16 streams: forced / sampled", least=1.5),
            Goal("tool call, 1 streams: forced / sampled", least=1.5),
            Goal("chat, 1 streams: forced / sampled", least=1.05),
        ),
    ),
    Part(
        "The backend transformers, and vLLM's CPU build",
        "peers",
        "--engines ours vLLM --streams 16 --contexts 32 512 --prompts 20000",
        "--tokens 4 --rounds 1 --streams 2 --contexts 16 32 --prompts 64",
        (
            Goal("16 streams of 32 tokens, tokens/s: ours / vLLM", least=1.2),
            Goal("16 streams of 512 tokens, tokens/s: ours / vLLM", least=1.0),
            Goal("prompt of 20000 tokens: ours, first token s", most=2.5),
            Goal("prompt of 20000 tokens, first token s: ours / vLLM", most=1.0),
            Goal("prompt of 20000 tokens: ours, second turn s", most=0.3),
            Goal("prompt of 20000 tokens: ours, memory MB", most=300),
        ),
        needs=VLLM_PYTHON,
    ),
    Part(
        "A default server from its start",
        "lifetime",
        "",
        "--rounds 1 --tokens 4",
        (
            Goal("start, s", most=4.0),
            Goal("first / later requests", most=1.2),
            Goal("busy / idle machine", most=2.5),
            Goal("memory after the start, MB", most=500),
            Goal("memory after use, MB", most=700),
        ),
    ),
    Part(
        "Commands",
        "startup",
        "",
        "--rounds 1",
        (Goal("gpt-oss-server --help, s", most=0.3),),
    ),
)
CURVES = Part(
    "Engines over streams: the plot",
    "peers",
    f"--engines {' '.join(installed(PEERS))} --streams 1 4 16 64 --contexts 32 --prompts",
    "--tokens 4 --rounds 1 --streams 1 2",
    (),
)


Run = Callable[[Part, bool], Figures]


def run(part: Part, quick: bool) -> Figures:
    return measure(part.module, part.command(quick=quick), python=part.python)


def check_goals(part: Part, found: Figures) -> None:
    """Raises BenchmarkFailed if a goal has no figure: a renamed figure would leave the table."""
    missing = [goal.figure for goal in part.goals if goal.figure not in found]
    if missing:
        raise BenchmarkFailed(f"{shown(part)} has no figure {', nor '.join(missing)}")


def shown(part: Part) -> str:
    """The command that measures the part, as a reader types it."""
    return f"python -m benchmarks.{part.module} {part.arguments}".strip()


def picture() -> list[str]:
    """The plot in a page of the documentation."""
    text = (
        "Tokens per second and processor time per token of each engine, over the number of streams"
    )
    return [f"![{text}](images/{PLOT.name})", "", f"{machine()} The plot: `{shown(CURVES)}`", ""]


def four_digits(value: float) -> str:
    """A figure as people write it: 151,800, and not 1.518e+05."""
    return f"{float(f'{value:.4g}'):,.10g}"


def rows(part: Part, found: Figures) -> list[str]:
    """The section of one benchmark: Markdown.

    Figures that were not measured are left out: those of little work have other names. Each section
    names its machine, because the others of the page may come from another one.
    """
    lines = [
        f"| {goal.figure} | {four_digits(found[goal.figure])} | {goal.bound} "
        f"| {'yes' if goal.is_met(found[goal.figure]) else 'no'} |"
        for goal in part.goals
        if goal.figure in found
    ]
    return [
        f"**{part.title}** (`{shown(part)}`)",
        "",
        machine(),
        "",
        "| figure | measured | to reach | reached |",
        "|---|---|---|---|",
        *lines,
        "",
    ]


def machine() -> str:
    """What the figures depend on. It names neither the host nor its user."""
    cpu = platform.processor() or platform.machine()
    information = Path("/proc/cpuinfo")
    if information.exists():
        models = re.findall(r"^model name\s*: (.+)$", information.read_text(), re.MULTILINE)
        cpu = f"{len(models)} x {models[0]}" if models else cpu
    instructions = torch.backends.cpu.get_cpu_capability()
    if multiplies_bfloat16():
        instructions += ", bfloat16"
    return f"Measured on {cpu} ({instructions}), Python {platform.python_version()}."


def sections(results: str) -> dict[str, str]:
    """The sections of the page's results: a benchmark's by its module, the plot's by its file."""
    found: dict[str, str] = {}
    for section in re.split(r"^(?=\*\*|!\[)", results, flags=re.MULTILINE)[1:]:
        module = re.search(r"benchmarks\.(\w+)", section.splitlines()[0])
        found[module[1] if module else PLOT.name] = f"{section.strip()}\n"
    return found


def write_docs(new: Mapping[str, str], file: Path = DOCS) -> None:
    """Put sections between the two marks of the page, in place of those with the same names.

    The other sections of the page stay: each says how and where it was measured. Raises ValueError
    if the page has no marks.
    """
    page = file.read_text(encoding="utf-8")
    before, begin, rest = page.partition(BEGIN)
    results, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{file} has no marks for the results")
    merged = {**sections(results), **new}
    names = [*(part.module for part in PARTS), PLOT.name]
    table = "\n".join(merged[name] for name in names if name in merged)
    file.write_text(f"{before}{BEGIN}\n\n{table}\n{END}{after}", encoding="utf-8")


def measure_all(parts: Sequence[Part], run: Run, *, quick: bool) -> tuple[dict[Part, Figures], int]:
    """The figures of the parts that ran, printed as soon as they are known; and the exit status."""
    found: dict[Part, Figures] = {}
    status = 0
    for part in parts:
        if part.needs is not None and not part.needs.exists():
            print(f"left out: {part.title}: there is no {part.needs}", flush=True)
            continue
        try:
            figures = run(part, quick)
            if not quick:  # less work may be measured under other names
                check_goals(part, figures)
        except BenchmarkFailed as error:
            print(error, file=sys.stderr)
            status = 1
            continue
        found[part] = figures
        if part.goals:
            print("\n".join(rows(part, figures)), flush=True)
    return found, status


def main(argv: Sequence[str] | None = None, run: Run = run) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    names = list(dict.fromkeys(part.module for part in PARTS))
    parser.add_argument("--only", nargs="+", choices=names, help="of the benchmarks", default=names)
    parser.add_argument("--quick", action="store_true", help="little work, to see that it runs")
    parser.add_argument("--docs", action="store_true", help="write the table and the plot to docs")
    options = parser.parse_args(argv)
    if options.docs and options.quick:
        parser.error("--docs publishes the figures, and those of --quick are of too little work")
    LOGS.mkdir(parents=True, exist_ok=True)
    parts = [part for part in PARTS if part.module in options.only]
    curves = [CURVES] if CURVES.module in options.only else []
    found, status = measure_all([*parts, *curves], run, quick=options.quick)
    by_title = {part.title: figures for part, figures in found.items()}
    (LOGS / "results.json").write_text(json.dumps(by_title, indent=1) + "\n")
    new = {part.module: "\n".join(rows(part, found[part])) for part in parts if part in found}
    if CURVES in found:
        draw(found[CURVES], PLOT if options.docs else LOGS / PLOT.name)
        new[PLOT.name] = "\n".join(picture())
    (LOGS / "results.md").write_text("\n".join(new.values()), encoding="utf-8")
    if options.docs:
        write_docs(new)
    print(f"written to {LOGS.relative_to(ROOT)}")
    return status


if __name__ == "__main__":
    sys.exit(main())
