"""Measure what computing forced tokens together brings, on the default checkpoint.

    python -m benchmarks.forced [--streams 1 16] [--rounds 5]

Each round runs every case twice, in a random order: as the backend does it, and with every token
sampled. The output has the tokens per second of both, the ratio (medians over the rounds), and the
share of tokens that were forced. The answers are not compared; tests/adapters/local/test_forced.py
does that.
"""

import argparse
import asyncio
import random
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager

from adapters.base import BackendConfig, GenerationRequest, SamplingParams
from adapters.grammars import TokenMask
from adapters.local.backend import LocalBackend
from demo import checkpoint
from harmony.grammar import AnyObject, CallableTool, GrammarSpec, SchemaJson, turn_grammar
from harmony.messages import Author, Conversation, Message, Role, SystemContent
from harmony.render import render
from harmony.tokenizer import decode, encode_with_control
from harmony.vocab import STOP_TOKENS
from server.commands.backends import mask_tokenizer

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

    TokenMask.consume_forced = counted  # type: ignore[method-assign]
    try:
        yield
    finally:
        TokenMask.consume_forced = original  # type: ignore[method-assign]


async def tokens_per_second(
    backend: LocalBackend, spec: GrammarSpec, streams: int, seed: int
) -> tuple[float, int]:
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

    start = time.perf_counter()
    tokens = sum(await asyncio.gather(*map(one, range(streams))))
    return tokens / (time.perf_counter() - start), tokens


async def measure(streams: list[int], rounds: int) -> None:
    backend = LocalBackend(
        BackendConfig(str(checkpoint.ensure()), {}, encode_with_control, decode, mask_tokenizer)
    )
    await backend.start()
    try:
        for name, spec in CASES.items():
            for count in streams:
                await _case(backend, name, spec, count, rounds)
    finally:
        await backend.stop()


async def _case(
    backend: LocalBackend, name: str, spec: GrammarSpec, streams: int, rounds: int
) -> None:
    await tokens_per_second(backend, spec, streams, 0)
    rates: dict[str, list[float]] = {"forced": [], "sampled": []}
    forced, total = [0], 0
    for seed in range(rounds):
        for arm in random.sample(list(rates), 2):
            with counting(forced) if arm == "forced" else sampling_all():
                rate, tokens = await tokens_per_second(backend, spec, streams, 100 * seed)
            rates[arm].append(rate)
            total += tokens if arm == "forced" else 0
    ratio = statistics.median(
        one / other for one, other in zip(rates["forced"], rates["sampled"], strict=True)
    )
    print(
        f"{name:16} {streams:3} streams  sampled {statistics.median(rates['sampled']):6.0f} tok/s"
        f"  forced {statistics.median(rates['forced']):6.0f} tok/s  ratio {ratio:.2f}"
        f"  share {forced[0] / total:.0%}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--streams", type=int, nargs="+", default=[1, 16])
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    asyncio.run(measure(arguments.streams, arguments.rounds))


if __name__ == "__main__":
    main()
