"""Measure what computing forced tokens together brings, on the default checkpoint.

    python -m benchmarks.forced [--streams 1 16] [--rounds 5] [--cases NAME ...] [--json FILE]

Each round runs every case twice, in a random order: as the backend does it, and with every token
sampled. The output has the tokens per second of both, the ratio (medians over the rounds), the
ratio of tokens per second of processor time, and the share of tokens that were forced. The answers
are not compared; tests/adapters/local/engine/test_forced.py does that.
"""

import argparse
import asyncio
import random
from collections.abc import Iterator
from contextlib import contextmanager

from adapters.base import GenerationRequest, SamplingParams
from adapters.grammars import TokenMask
from adapters.local.backend import LocalBackend
from benchmarks.library import figures
from benchmarks.library.backends import local_backend
from benchmarks.library.timing import Rate, Stopwatch, median, ratio
from demo import checkpoint
from harmony.grammar import AnyObject, CallableTool, GrammarSpec, SchemaJson, turn_grammar
from harmony.messages import Author, Conversation, Message, Role, SystemContent
from harmony.render import render
from harmony.vocab import STOP_TOKENS

TEXT = {"type": "string", "maxLength": 16}
NUMBER = {"type": "integer", "minimum": 0, "maximum": 99_999}
CHOICE = {"type": "string", "enum": ["yes", "no", "unknown"]}
PROPERTIES = {
    **dict.fromkeys(("name", "city", "country", "email", "company"), TEXT),
    **dict.fromkeys(("age", "salary", "phone"), NUMBER),
    **dict.fromkeys(("married", "employed"), CHOICE),
}


def strict(*names: str) -> SchemaJson:
    properties = {name: PROPERTIES[name] for name in names}
    fixed = {"required": list(names), "additionalProperties": False}
    return SchemaJson({"type": "object", "properties": properties, **fixed})


CALL = CallableTool("functions.get_weather", strict("city", "country", "age", "married"))
CASES = {
    "json, ten keys": GrammarSpec(answer=strict(*PROPERTIES), reasoning=False, preambles=False),
    "tool call": GrammarSpec(tools=(CALL,), call_required=True, reasoning=False, preambles=False),
    "chat": GrammarSpec(tools=(CallableTool("functions.f", AnyObject()),)),
}


def prompt(seed: int) -> tuple[int, ...]:
    messages = (
        Message(Author(Role.SYSTEM), SystemContent()),
        Message(Author(Role.USER), f"Tell me about person number {seed}."),
    )
    return tuple(render(Conversation(messages)))


@contextmanager
def sampling_all() -> Iterator[None]:
    """While this holds, no token is forced."""
    original = TokenMask.consume_forced
    TokenMask.consume_forced = lambda self, most, stops: ()  # type: ignore[method-assign]
    try:
        yield
    finally:
        TokenMask.consume_forced = original  # type: ignore[method-assign]


@contextmanager
def counting(forced: list[int]) -> Iterator[None]:
    original = TokenMask.consume_forced

    def counted(self: TokenMask, *arguments: object) -> tuple[int, ...]:
        run = original(self, *arguments)  # type: ignore[arg-type]
        forced[0] += len(run)
        return run

    TokenMask.consume_forced = counted  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        TokenMask.consume_forced = original  # type: ignore[method-assign]


async def measure(
    backend: LocalBackend, spec: GrammarSpec, streams: int, seed: int
) -> tuple[int, Rate]:
    """The number of tokens of some answers at once, and their rate."""

    async def one(number: int) -> int:
        request = GenerationRequest(
            f"b{number}",
            prompt(seed + number),
            128,
            STOP_TOKENS,
            sampling=SamplingParams(temperature=0),
            grammar=turn_grammar(spec),
        )
        return sum([len(chunk.token_ids) async for chunk in backend.generate(request)])

    stopwatch = Stopwatch()
    tokens = sum(await asyncio.gather(*map(one, range(streams))))
    return tokens, stopwatch.rate(tokens)


async def measure_all(cases: list[str], streams: list[int], rounds: int) -> figures.Figures:
    found: figures.Figures = {}
    async with local_backend(checkpoint.ensure()) as backend:
        for name in cases:
            for count in streams:
                found |= await compare(backend, name, count, rounds)
    return found


async def compare(backend: LocalBackend, name: str, streams: int, rounds: int) -> figures.Figures:
    spec = CASES[name]
    await measure(backend, spec, streams, 0)
    rates: dict[str, list[Rate]] = {"forced": [], "sampled": []}
    counts = dict.fromkeys(rates, 0)
    forced = [0]
    for seed in range(rounds):
        for arm in random.sample(list(rates), 2):
            with counting(forced) if arm == "forced" else sampling_all():
                tokens, rate = await measure(backend, spec, streams, 100 * seed)
            counts[arm] += tokens
            rates[arm].append(rate)
    gain = ratio(rates["forced"], rates["sampled"])
    print(
        f"{name:16} {streams:3} streams  sampled {median(rates['sampled']).clock:6.0f} tok/s"
        f"  forced {median(rates['forced']).clock:6.0f} tok/s  ratio {gain.clock:.2f}"
        f"  of CPU {gain.processor:.2f}  share {forced[0] / counts['forced']:.0%}",
        flush=True,
    )
    return {
        f"{name}, {streams} streams: forced / sampled": gain.clock,
        f"{name}, {streams} streams, CPU: forced / sampled": gain.processor,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--streams", type=int, nargs="+", default=[1, 16])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    figures.add_option(parser)
    arguments = parser.parse_args()
    found = asyncio.run(measure_all(arguments.cases, arguments.streams, arguments.rounds))
    figures.write(found, arguments.json)


if __name__ == "__main__":
    main()
