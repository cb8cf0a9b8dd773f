"""Compare this server with other engines: speed, processor time and memory.

    make test-vllm test-llama-cpp   # once: installs vLLM, and builds llama.cpp
    python -m benchmarks.peers [--engines ours vLLM llama.cpp generate] [--streams 1 4 16 64]
                               [--contexts 32 512] [--prompts 512 4096 20000] [--tokens 64]
                               [--rounds 3] [--json FILE]

All engines are started at once, with random weights of the demo checkpoint's shape, and answer one
after the other, in a random order in each round. Meanwhile the others are stopped: idle engines
take processor time. Prompts are random ids, and hardly an answer ends early.

The first table has a line for each number of streams and tokens of context: the decoded tokens per
second, from the first token to the last, and the processor time of all processes of the engine for
each token. The second table has a line for each length of a prompt: seconds until its first token,
seconds until the first token of a second turn (the prompt, and 32 more tokens), and the most memory
that the prompt took in addition to that before. The ratios are medians over the rounds.
"""

import argparse
import asyncio
import random
import statistics
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.library import engines, figures
from benchmarks.library.clients import batch_scheduling, usage
from benchmarks.library.engines import OURS, Engine, Missing, Setup, prompt, started
from demo import checkpoint

SECOND_TURN = 32
WARMING = 4
EARLY = 0.05
"""The share of answers that may end early, besides one. With random weights, one in 67,000 tokens
ends an answer."""
MEGABYTE = 1e6


@dataclass(frozen=True)
class Load:
    """The result of some streams at once. cpu_per_token: in seconds."""

    tokens_per_second: float
    cpu_per_token: float


@dataclass(frozen=True)
class Prompt:
    """The result of one prompt. first, second_turn: seconds. memory: bytes over those before."""

    first: float
    second_turn: float
    memory: float


async def load(
    engine: Engine, streams: int, context: int, tokens: int, source: random.Random
) -> Load:
    """Decode `tokens` tokens for each of `streams` prompts of `context` tokens."""
    prompts = [prompt(source, context) for _ in range(streams)]
    cpu = engine.process.cpu
    answers = await asyncio.gather(*(engine.sample(one, tokens) for one in prompts))
    cpu = engine.process.cpu - cpu
    sampled = [usage(answer).output_tokens for answer in answers]
    ended = sum(count < tokens for count in sampled)
    if ended > EARLY * streams + 1:
        raise SystemExit(f"{engine.name} ended {ended} of {streams} answers early")
    seconds = max(answer.seconds for answer in answers) - min(answer.first for answer in answers)
    return Load((sum(sampled) - streams) / seconds, cpu / sum(sampled))


async def long_prompt(engine: Engine, length: int, source: random.Random) -> Prompt:
    ids = prompt(source, length)
    engine.process.reset_peak()
    before = engine.process.memory
    # A first token that is only a part of a character has no text before the second one.
    first = await engine.sample(ids, 2)
    memory = max(0, engine.process.peak_memory - before)
    second = await engine.sample([*ids, *prompt(source, SECOND_TURN)], 2)
    return Prompt(first.first, second.first, memory)


@contextmanager
def alone(engine: Engine, found: Sequence[Engine]) -> Iterator[None]:
    """A context in which the other engines are stopped."""
    with ExitStack() as stack:
        for other in found:
            if other is not engine:
                stack.enter_context(other.process.stopped())
        yield


Case = tuple[int, int]
"""A number of streams, and the tokens of context of each."""


def loads(
    found: list[Engine], cases: list[Case], tokens: int, rounds: int, source: random.Random
) -> Iterator[tuple[Case, dict[str, list[Load]]]]:
    """Each case with the loads of each engine, one for each round. A first round is left out."""
    for case in cases:
        results: dict[str, list[Load]] = {engine.name: [] for engine in found}
        for number in range(rounds + 1):
            for engine in source.sample(found, len(found)):
                with alone(engine, found):
                    one = asyncio.run(load(engine, *case, tokens if number else WARMING, source))
                if number:
                    results[engine.name].append(one)
        yield case, results


def prompts(
    found: list[Engine], lengths: list[int], rounds: int, source: random.Random
) -> Iterator[tuple[int, dict[str, list[Prompt]]]]:
    """Each length with the results of each engine, one for each round."""
    for length in lengths:
        results: dict[str, list[Prompt]] = {engine.name: [] for engine in found}
        for _ in range(rounds):
            for engine in source.sample(found, len(found)):
                with alone(engine, found):
                    results[engine.name].append(asyncio.run(long_prompt(engine, length, source)))
        yield length, results


def compare(name: str, unit: str, values: dict[str, list[float]]) -> figures.Figures:
    """The median of each engine, and the ratios of ours to the others', if these are not 0."""
    found = {
        f"{name}: {engine}, {unit}": statistics.median(each) for engine, each in values.items()
    }
    for engine, each in values.items():
        if OURS in values and engine != OURS and min(each) > 0:
            ratio = figures.median_ratio(values[OURS], each)
            found[f"{name}, {unit}: ours / {engine}"] = ratio
    return found


def show(name: str, unit: str, values: dict[str, list[float]], digits: int) -> figures.Figures:
    """Print one line with the figures of `compare`, and return them."""
    found = compare(name, unit, values)
    cells = [f"{found[f'{name}: {engine}, {unit}']:10.{digits}f}" for engine in values]
    ratios = [
        f"{found[key]:8.2f}" if key in found else f"{'':8}"
        for key in (f"{name}, {unit}: ours / {engine}" for engine in values)
    ]
    print(f"{name:34} {unit:16} {''.join(cells)}  {''.join(ratios)}", flush=True)
    return found


def load_name(case: Case) -> str:
    streams, context = case
    return f"{streams} streams of {context} tokens"


def heading(names: list[str]) -> str:
    ratios = "".join(f"{'' if name == OURS else '/ ' + name:>8.8}" for name in names)
    return f"{'':51} {''.join(f'{name:>10}' for name in names)}  {ratios}"


def measure(found: list[Engine], options: argparse.Namespace) -> figures.Figures:
    """Run all cases, and print their lines."""
    source = random.Random(0)
    cases = [(streams, context) for context in options.contexts for streams in options.streams]
    result: figures.Figures = {}
    print(heading([engine.name for engine in found]), flush=True)
    for case, by_engine in loads(found, cases, options.tokens, options.rounds, source):
        speed = {name: [one.tokens_per_second for one in each] for name, each in by_engine.items()}
        cpu = {name: [one.cpu_per_token * 1e3 for one in each] for name, each in by_engine.items()}
        result |= show(load_name(case), "tokens/s", speed, 1)
        result |= show(load_name(case), "CPU ms/token", cpu, 2)
    for length, answers in prompts(found, options.prompts, options.rounds, source):
        name = f"prompt of {length} tokens"
        first = {name: [one.first for one in each] for name, each in answers.items()}
        second = {name: [one.second_turn for one in each] for name, each in answers.items()}
        memory = {name: [one.memory / MEGABYTE for one in each] for name, each in answers.items()}
        result |= show(name, "first token s", first, 2)
        result |= show(name, "second turn s", second, 2)
        result |= show(name, "memory MB", memory, 0)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--engines", nargs="+", choices=engines.NAMES, default=list(engines.PEERS))
    parser.add_argument("--model", type=Path, help="a checkpoint's folder; random by default")
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--backend-option", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--streams", type=int, nargs="+", default=[1, 4, 16, 64])
    parser.add_argument("--contexts", type=int, nargs="+", default=[32, 512])
    parser.add_argument("--prompts", type=int, nargs="*", default=[512, 4096, 20_000])
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3)
    figures.add_option(parser)
    options = parser.parse_args()
    longest = max([*options.prompts, *options.contexts]) + SECOND_TURN + options.tokens
    setup = Setup(
        options.model or checkpoint.ensure_random(),
        max(options.streams),
        longest + 16,
        options.device,
        tuple(options.backend_option),
    )
    try:
        with started(options.engines, setup) as found, batch_scheduling():
            result = measure(found, options)
    except Missing as error:
        sys.exit(str(error))
    figures.write(result, options.json)


if __name__ == "__main__":
    main()
