"""Measure a GPU against its floors, and this server against vLLM: `make bench-gpu`.

    python -m benchmarks.gpu [--device cuda|cpu] [--model FOLDER] [--streams 1 16 64 256]
                             [--engines ours vLLM "ours on vLLM"] [--prompts 1024 8192]
                             [--backend-option NAME=VALUE] [--json FILE]

Without --model, a checkpoint of gpt-oss-20b's shape with random MXFP4 weights is written to
build/shapes (14 GB). `--device cpu` does the same with a tiny one, to show that the command works.

The engines run one after the other. The floor of decoding is the time to read the weights and the
KV cache of a step once, at the memory bandwidth that a copy has on the device. Experts count as
MXFP4 where the checkpoint has them so and this server can compute with them, else as bfloat16. The
floor of a prompt is the time of its floating-point operations, at the rate of a large product of
matrices in bfloat16. The output has tokens per second, their ratio to the floors, and the ratio of
this server to vLLM. --backend-option is for this server with the backend `transformers`, such as
decode_graphs=false; it may be repeated.
"""

import argparse
import asyncio
import random
import statistics
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from adapters.local.model.weights import why_no_mxfp4
from benchmarks.library import figures
from benchmarks.library.clients import batch_scheduling
from benchmarks.library.engines import (
    OURS,
    OURS_ON_VLLM,
    VLLM,
    Engine,
    Missing,
    Setup,
    installed,
    started,
)
from benchmarks.library.figures import ROOT
from benchmarks.library.processes import NotStarted
from benchmarks.library.shapes import LARGE, TINY, Shape, ensure, read_shape, stores_mxfp4
from benchmarks.library.timing import shortest
from benchmarks.peers import WARMING, load, long_prompt

FOLDER = ROOT / "build/shapes"
CONTEXT = 32
"""Prompt tokens of each stream while decoding is measured."""
ENGINES = (OURS, VLLM, OURS_ON_VLLM)


@dataclass(frozen=True)
class Sizes:
    """copied: bytes of the copy. side: of the square matrices. tries: of both."""

    copied: int
    side: int
    tries: int


ON_CUDA = Sizes(4 << 30, 8192, 20)
ON_CPU = Sizes(256 << 20, 1024, 5)


@dataclass(frozen=True)
class Speed:
    """Of a device. bandwidth: bytes per second. operations: per second, floating-point."""

    bandwidth: float
    operations: float


def speed(device: str, sizes: Sizes) -> Speed:
    """Measure a device."""
    found = Speed(_copied(device, sizes), _multiplied(device, sizes))
    if device.startswith("cuda"):
        torch.cuda.empty_cache()
    return found


def _copied(device: str, sizes: Sizes) -> float:
    """Bytes per second. A copy reads each byte once and writes it once."""
    source = torch.empty(sizes.copied, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    return 2 * sizes.copied / _shortest(device, sizes.tries, lambda: target.copy_(source))


def _multiplied(device: str, sizes: Sizes) -> float:
    """Floating-point operations per second."""
    one = torch.randn(sizes.side, sizes.side, dtype=torch.bfloat16, device=device)
    return 2 * sizes.side**3 / _shortest(device, sizes.tries, lambda: one @ one)


def _shortest(device: str, tries: int, work: Callable[[], object]) -> float:
    """Seconds of the fastest of some tries."""

    def wait() -> None:
        if device.startswith("cuda"):
            torch.cuda.synchronize(device)

    def finished() -> None:
        work()
        wait()

    wait()
    return shortest(finished, tries)


@dataclass(frozen=True)
class Floors:
    """The tokens per second that a device permits. packed: whether the experts stay MXFP4."""

    shape: Shape
    speed: Speed
    packed: bool

    def decode(self, streams: int, context: int) -> float:
        step = self.shape.decode_bytes(streams, context, packed=self.packed) / self.speed.bandwidth
        return streams / step

    def prefill(self, tokens: int) -> float:
        return tokens * self.speed.operations / self.shape.prefill_operations(tokens)


def why_not_packed(folder: Path, device: str) -> str | None:
    """The reason why the experts of a checkpoint are bfloat16 on a device; None if they stay MXFP4.

    A server whose packed experts did not load does not start, so that this needs no look at it.
    """
    if not stores_mxfp4(folder):
        return "the checkpoint has no MXFP4"
    return why_no_mxfp4(torch.device(device))


@dataclass(frozen=True)
class Work:
    """What each engine is measured with."""

    streams: Sequence[int]
    prompts: Sequence[int]
    tokens: int
    rounds: int


def measure(engine: Engine, work: Work) -> Iterator[tuple[str, float]]:
    """The names of the cases, and the engine's tokens per second: the medians over the rounds."""
    source = random.Random(0)
    for streams in work.streams:
        asyncio.run(load(engine, streams, CONTEXT, WARMING, source))
        rates = [
            asyncio.run(load(engine, streams, CONTEXT, work.tokens, source)).tokens_per_second
            for _ in range(work.rounds)
        ]
        yield decode_name(streams), statistics.median(rates)
    for length in work.prompts:
        asyncio.run(long_prompt(engine, length, source))
        taken = [asyncio.run(long_prompt(engine, length, source)).first for _ in range(work.rounds)]
        yield prefill_name(length), length / statistics.median(taken)


def decode_name(streams: int) -> str:
    return f"decode, {streams} streams"


def prefill_name(length: int) -> str:
    return f"prefill, {length} tokens"


def compare(rates: dict[str, dict[str, float]], floors: dict[str, float]) -> figures.Figures:
    """The rates, by engine and case, and their ratios to the floors and to vLLM."""
    found: figures.Figures = {}
    for engine, cases in rates.items():
        for case, rate in cases.items():
            found[f"{case}: {engine}, tokens/s"] = rate
            found[f"{case}: {engine} / floor"] = rate / floors[case]
            if engine != VLLM and VLLM in rates:
                found[f"{case}: {engine} / vLLM"] = rate / rates[VLLM][case]
    return found


def show(found: figures.Figures) -> None:
    for name, value in found.items():
        print(f"{name:44} {value:12.3f}" if " / " in name else f"{name:44} {value:12.1f}")


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--model", type=Path, help="a gpt-oss checkpoint's folder")
    parser.add_argument("--engines", nargs="+", choices=ENGINES, default=installed(ENGINES))
    parser.add_argument("--streams", type=int, nargs="+", default=[1, 16, 64, 256])
    parser.add_argument("--prompts", type=int, nargs="+", default=[1024, 8192])
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--backend-option", action="append", default=[], metavar="NAME=VALUE")
    figures.add_option(parser)
    options = parser.parse_args(argv)
    is_cuda = options.device.startswith("cuda")
    if is_cuda and not torch.cuda.is_available():
        print("torch finds no CUDA device; --device cpu shows that this works", file=sys.stderr)
        return 1
    shape, name = (LARGE, "20b") if is_cuda else (TINY, "tiny")
    folder = options.model or ensure(shape, FOLDER / name)
    found_speed = speed(options.device, ON_CUDA if is_cuda else ON_CPU)
    reason = why_not_packed(folder, options.device)
    print(
        f"{found_speed.bandwidth / 1e9:.0f} GB/s copied,"
        f" {found_speed.operations / 1e12:.1f} TFLOP/s in bfloat16;"
        f" experts are read as {f'bfloat16: {reason}' if reason else 'MXFP4'}",
        flush=True,
    )
    floors = Floors(read_shape(folder), found_speed, packed=reason is None)
    context = max(options.prompts) + CONTEXT + options.tokens + 64
    most = max(options.streams)
    choices = (f"batch_requests={most}", *options.backend_option)
    setup = Setup(folder, most, context, options.device, choices)
    work = Work(options.streams, options.prompts, options.tokens, options.rounds)
    rates: dict[str, dict[str, float]] = {}
    for engine_name in options.engines:
        try:
            with started([engine_name], setup) as (engine,), batch_scheduling():
                rates[engine_name] = {}
                for case, rate in measure(engine, work):
                    print(f"{engine_name}: {case}: {rate:.1f} tokens/s", flush=True)
                    rates[engine_name][case] = rate
        except (Missing, NotStarted) as error:
            print(f"left out: {engine_name}: {error}", file=sys.stderr, flush=True)
    limits = {decode_name(n): floors.decode(n, CONTEXT + work.tokens // 2) for n in work.streams}
    limits |= {prefill_name(n): floors.prefill(n) for n in work.prompts}
    found = compare(rates, limits)
    show(found)
    figures.write(found, options.json)
    return 0 if rates else 1


if __name__ == "__main__":
    sys.exit(main())
