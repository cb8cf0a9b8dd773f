"""Measure tokens per second of the transformers backend, compared with transformers alone.

    python -m benchmarks.local [--model FOLDER] [--streams 1 16] [--tokens 64] [--rounds 7]
                               [--arms NAME ...] [--json FILE]

Each round runs every arm once, in a random order, so that other load and cache contents affect all
arms alike. The output has medians over the rounds. Ratios are medians of the rounds' ratios, of
tokens per second and of tokens per second of processor time, which other load affects less (set
OMP_NUM_THREADS=1 for it, because waiting threads spin).
"""

import argparse
import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any

import torch
from transformers import GenerationConfig

from adapters.base import GenerationRequest, SamplingParams
from adapters.local.backend import LocalBackend
from adapters.local.engine.batching import batching
from adapters.local.model.loading import load
from adapters.local.options import Options, parse_options
from benchmarks.library import engines, figures
from benchmarks.library.backends import local_backend
from benchmarks.library.timing import Rate, Stopwatch, median, ratio
from demo import checkpoint
from harmony.vocab import END

PROMPT_TOKENS = 32
GREEDY = SamplingParams(temperature=0)
TEXT = rf"start: /(.|\n)*/ <[{END}]>"  # any text: what most tokens of an answer are
KEYS = "|".join(f"key{number}" for number in range(50))
JSON = r'start: "[" (item ",")* item "]"' + "\n" + rf'item: "{{\"" /({KEYS})/ "\":" /[0-9]+/ "}}"'

Arm = Callable[[list[list[int]], int], Awaitable[int]]


def prompts(streams: int, source: random.Random) -> list[list[int]]:
    return [engines.prompt(source, PROMPT_TOKENS) for _ in range(streams)]


def ours(backend: LocalBackend, **fields: Any) -> Arm:
    async def one(prompt: list[int], tokens: int) -> int:
        request = GenerationRequest("b", tuple(prompt), tokens, frozenset(), **fields)
        return sum([len(chunk.token_ids) async for chunk in backend.generate(request)])

    async def arm(batch: list[list[int]], tokens: int) -> int:
        return sum(await asyncio.gather(*[one(prompt, tokens) for prompt in batch]))

    return arm


def manager_alone(model: Any, options: Options) -> tuple[Arm, Callable[[], None]]:
    """transformers' continuous batching as it is: greedy, nothing streamed."""
    manager = model.init_continuous_batching(
        GenerationConfig(do_sample=False, eos_token_id=-1), batching(model, options)
    )
    manager.start()

    def run(batch: list[list[int]], tokens: int) -> int:
        for prompt in batch:
            manager.add_request(prompt, max_new_tokens=tokens)
        return sum(len(manager.get_result().generated_tokens) for _ in batch)

    async def arm(batch: list[list[int]], tokens: int) -> int:
        return await asyncio.to_thread(run, batch, tokens)

    return arm, lambda: manager.stop(block=True)


def plain_generate(model: Any) -> Arm:
    """`model.generate` on the whole batch at once: no streams, no arrivals, no leaving."""
    model.set_attn_implementation("eager")  # there is no paged cache

    def run(batch: list[list[int]], tokens: int) -> int:
        ids = torch.tensor(batch, device=model.device)
        output = model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            do_sample=False,
            min_new_tokens=tokens,
            max_new_tokens=tokens,
        )
        return (int(output.shape[1]) - PROMPT_TOKENS) * len(batch)

    async def arm(batch: list[list[int]], tokens: int) -> int:
        return await asyncio.to_thread(run, batch, tokens)

    return arm


async def measure(
    arms: dict[str, Arm], streams: int, tokens: int, rounds: int
) -> dict[str, list[Rate]]:
    """Each arm's rate in each round; a first round is thrown away."""
    source = random.Random(streams)
    rates: dict[str, list[Rate]] = {name: [] for name in arms}
    names = list(arms)
    for turn in range(rounds + 1):
        source.shuffle(names)
        for name in names:
            batch = prompts(streams, source)
            stopwatch = Stopwatch()
            rate = stopwatch.rate(await arms[name](batch, tokens))
            if turn:
                rates[name].append(rate)
    return rates


def report(
    rates: dict[str, list[Rate]], streams: int, ratios: list[tuple[str, str]]
) -> figures.Figures:
    """Print the medians over the rounds, and return the ratios and tokens per second."""
    found: figures.Figures = {}
    print(f"\n{streams} stream{'s' if streams > 1 else ''}{'':26} tok/s  tok/s of CPU")
    for name, values in rates.items():
        rate = median(values)
        found[f"{streams} streams: {name}, tokens/s"] = rate.clock
        print(f"  {name:32} {rate.clock:6.1f} {rate.processor:13.1f}")
    for over, under in ratios:
        of = ratio(rates[over], rates[under])
        found[f"{streams} streams: {over} / {under}"] = of.clock
        found[f"{streams} streams, CPU: {over} / {under}"] = of.processor
        print(f"  {over + ' / ' + under:47} {of.clock:.3f} {of.processor:.3f}", flush=True)
    return found


RATIOS = [
    ("greedy", "generate"),
    ("greedy", "manager"),
    ("sampled", "manager"),
    ("greedy, text grammar", "greedy"),
    ("greedy, JSON grammar", "greedy"),
    ("sampled, text grammar", "sampled"),
    ("sampled, JSON grammar", "sampled"),
    ("sampled, JSON grammar", "manager"),
    ("sampled, top_p", "sampled"),
    ("sampled, top_p", "manager"),
]


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default=None, help="checkpoint; random weights by default")
    parser.add_argument("--backend-option", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--streams", type=int, nargs="+", default=[1, 16])
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--arms", nargs="+", help="those to measure; all by default")
    figures.add_option(parser)
    arguments = parser.parse_args()
    folder = arguments.model or str(checkpoint.ensure_random())
    backend_options = dict(option.split("=", 1) for option in arguments.backend_option)
    options = parse_options(backend_options)
    found: figures.Figures = {}
    async with local_backend(folder, **backend_options) as backend:
        alone, stop_alone = manager_alone(load(folder, options, lambda *_: None), options)
        arms = {
            "generate": plain_generate(load(folder, options, lambda *_: None)),
            "manager": alone,
            "greedy": ours(backend, sampling=GREEDY),
            "greedy, text grammar": ours(backend, sampling=GREEDY, grammar=TEXT),
            "greedy, JSON grammar": ours(backend, sampling=GREEDY, grammar=JSON),
            "sampled": ours(backend),
            "sampled, text grammar": ours(backend, grammar=TEXT),
            "sampled, JSON grammar": ours(backend, grammar=JSON),
            "sampled, top_p": ours(backend, sampling=SamplingParams(top_p=0.95)),
        }
        arms = {name: arms[name] for name in arguments.arms or arms}
        ratios = [pair for pair in RATIOS if set(pair) <= set(arms)]
        for streams in arguments.streams:
            rates = await measure(arms, streams, arguments.tokens, arguments.rounds)
            found |= report(rates, streams, ratios)
        stop_alone()
    figures.write(found, arguments.json)


if __name__ == "__main__":
    asyncio.run(main())
