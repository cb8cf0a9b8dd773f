"""Measure what grammars cost the transformers backend.

    python -m benchmarks.masks [--model FOLDER] [--streams 1 16] [--rounds 20]

The default checkpoint answers each request twice: masked, with the grammar that the server makes
with `--constrain always`, and free. Both sample nearly the same tokens. There are plain chats,
chats with tools, and answers with a JSON schema. Each round runs both arms in a random order. The
output has the medians of the rounds' ratios, masked to free, of tokens per second and of tokens per
second of processor time (set OMP_NUM_THREADS=1 for it, because waiting threads spin), and the share
of equal answers. `benchmarks.local` measures the opposite case: random weights, whose samples
grammars always change.
"""

import argparse
import asyncio
import random
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from adapters.base import Backend, GenerationRequest, SamplingParams
from benchmarks.library.backends import local_backend
from benchmarks.library.timing import Rate, Stopwatch, median, ratio
from demo import checkpoint
from harmony.vocab import STOP_TOKENS
from server.generation.turn import prompt
from server.http.bodies.json_text import validate
from server.inbound import chat
from server.inbound.compiled import CompileContext
from server.inbound.grammar import Masking
from server.replay.recall import Recall
from server.replay.sealing import Sealer
from server.schemas.chat import CreateChatCompletion
from server.store.responses.memory import MemoryStore

CITIES = ("Oslo", "Lima", "Kyoto", "Perth", "Quito", "Turin", "Accra", "Minsk")
NAMES = ("Mira", "Otto", "Lena", "Hugo", "Rosa", "Ivan", "Nora", "Emil")
LONGEST = 64


def text(number: int) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": f"What is {number % 90 + 7} + 25?"}]}


def tools(number: int) -> dict[str, Any]:
    city = CITIES[number % len(CITIES)]
    message = {"role": "user", "content": f"What is the weather in {city}?"}
    return {
        "messages": [message],
        "tools": [
            _tool("get_weather", {"city": {"type": "string"}}),
            _tool("get_time", {"zone": {"type": "string"}}),
            _tool("send_mail", {"to": {"type": "string"}, "text": {"type": "string"}}),
        ],
    }


def schema(number: int) -> dict[str, Any]:
    name = NAMES[number % len(NAMES)]
    sentence = f"{name} lives in {CITIES[number % len(CITIES)]}."
    form = _object({"name": {"type": "string"}, "city": {"type": "string"}})
    return {
        "messages": [{"role": "user", "content": sentence}],
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "person", "strict": True, "schema": form},
        },
    }


def _tool(name: str, properties: dict[str, Any]) -> dict[str, Any]:
    function = {"name": name, "strict": True, "parameters": _object(properties)}
    return {"type": "function", "function": {**function, "description": f"Can {name}."}}


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


KINDS = {"text": text, "tools": tools, "schema": schema}
SAMPLINGS = {"greedy": SamplingParams(temperature=0), "sampled": SamplingParams()}


async def request(body: dict[str, Any], sampling: SamplingParams, seed: int) -> GenerationRequest:
    """The request that the server makes of a body, with its grammar."""
    fields = {"model": "m", "reasoning_effort": "low", **body}
    context = CompileContext(
        "a", "2026-01-01", MemoryStore(), Recall(), Sealer(), Masking("always")
    )
    compiled = await chat.compile(validate(fields, CreateChatCompletion), context)
    (plan,) = compiled.plans
    grammar = plan.constraint.grammar
    assert grammar is not None
    return GenerationRequest(
        "b", prompt(plan), LONGEST, STOP_TOKENS, sampling, seed=seed, grammar=grammar
    )


@dataclass(frozen=True)
class Run:
    """One arm in one round: its answers, and the rate of their tokens."""

    answers: list[tuple[int, ...]]
    rate: Rate


async def run(backend: Backend, requests: list[GenerationRequest]) -> Run:
    async def answer(one: GenerationRequest) -> tuple[int, ...]:
        chunks = [chunk async for chunk in backend.generate(one)]
        return tuple(token_id for chunk in chunks for token_id in chunk.token_ids)

    stopwatch = Stopwatch()
    answers = list(await asyncio.gather(*map(answer, requests)))
    return Run(answers, stopwatch.rate(sum(map(len, answers))))


async def compare(backend: Backend, kind: str, way: str, streams: int, rounds: int) -> None:
    pairs: list[tuple[Run, Run]] = []
    for round_number in range(rounds + 1):
        numbers = range(round_number * streams, (round_number + 1) * streams)
        masked = [await request(KINDS[kind](number), SAMPLINGS[way], number) for number in numbers]
        free = [replace(one, grammar=None) for one in masked]
        # Otherwise only the second arm would find the prompts in the cache.
        await run(backend, [replace(one, max_tokens=1) for one in free])
        arms = {"masked": partial(run, backend, masked), "free": partial(run, backend, free)}
        results = {name: await arms[name]() for name in random.sample(list(arms), 2)}
        pairs.append((results["masked"], results["free"]))
    show(kind, way, streams, pairs[1:])  # the first warms up


def show(kind: str, way: str, streams: int, pairs: list[tuple[Run, Run]]) -> None:
    masked, free = ([run.rate for run in arm] for arm in zip(*pairs, strict=True))
    of = ratio(masked, free)
    both = [pair for a, b in pairs for pair in zip(a.answers, b.answers, strict=True)]
    equal = sum(a == b for a, b in both) / len(both)
    print(
        f"{streams:7} {kind:7} {way:8} {median(masked).clock:6.1f} {median(free).clock:6.1f}"
        f" {of.clock:9.3f} {of.processor:7.3f} {equal:7.0%}",
        flush=True,
    )


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default=None, help="checkpoint; the demo's by default")
    parser.add_argument("--streams", type=int, nargs="+", default=[1, 16])
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--rounds", type=int, default=20)
    options = parser.parse_args()
    async with local_backend(options.model or checkpoint.ensure()) as backend:
        print("streams kind    tokens   masked   free     ratio  of CPU   equal")
        for streams in options.streams:
            for kind in options.kinds:
                for way in SAMPLINGS:
                    await compare(backend, kind, way, streams, options.rounds)


if __name__ == "__main__":
    asyncio.run(main())
