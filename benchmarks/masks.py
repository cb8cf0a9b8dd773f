"""What it costs the transformers backend to hold answers to their grammars.

    python -m benchmarks.masks [--model FOLDER] [--streams 1 16] [--rounds 20]

The default checkpoint answers the same requests twice, held to the grammar that the server makes
of them with `--constrain always` and free, so that both sides sample nearly the same tokens: plain
chat, chat with tools, answers by a JSON schema. Each round runs every arm once, in an order drawn
anew. Printed are medians over the rounds of each round's ratio, held to free, of tokens per second
and of tokens per second of processor time (set OMP_NUM_THREADS=1 for it: threads that wait spin),
and how many answers were equal. `benchmarks.local` has the other end: random weights, which want
nothing that a grammar allows.
"""

import argparse
import asyncio
import random
import statistics
import time
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from adapters.base import Backend, BackendConfig, GenerationRequest, SamplingParams
from adapters.local.backend import LocalBackend
from demo import checkpoint
from harmony.tokenizer import decode, encode_with_control
from harmony.vocab import STOP_TOKENS
from server.commands.backends import mask_tokenizer
from server.generation.turn import prompt
from server.http.json_body import validate
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
    asked = {"role": "user", "content": f"What is the weather in {city}?"}
    return {
        "messages": [asked],
        "tools": [
            _tool("get_weather", {"city": {"type": "string"}}),
            _tool("get_time", {"zone": {"type": "string"}}),
            _tool("send_mail", {"to": {"type": "string"}, "text": {"type": "string"}}),
        ],
    }


def schema(number: int) -> dict[str, Any]:
    name = NAMES[number % len(NAMES)]
    said = f"{name} lives in {CITIES[number % len(CITIES)]}."
    form = _object({"name": {"type": "string"}, "city": {"type": "string"}})
    return {
        "messages": [{"role": "user", "content": said}],
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


def request(body: dict[str, Any], sampling: SamplingParams, seed: int) -> GenerationRequest:
    """As the server makes it, held to its grammar."""
    asked = {"model": "m", "reasoning_effort": "low", **body}
    context = CompileContext(
        "a", "2026-01-01", MemoryStore(), Recall(), Sealer(), Masking("always")
    )
    compiled = asyncio.run(chat.compile(validate(asked, CreateChatCompletion), context))
    (plan,) = compiled.plans
    assert plan.grammar is not None
    return GenerationRequest(
        "b", prompt(plan), LONGEST, STOP_TOKENS, sampling, seed=seed, grammar=plan.grammar
    )


@dataclass(frozen=True)
class Run:
    """One arm in one round: its answers, and how fast they came."""

    answers: list[tuple[int, ...]]
    clock: float
    processor: float

    @property
    def tokens(self) -> int:
        return sum(map(len, self.answers))


async def run(backend: Backend, requests: list[GenerationRequest]) -> Run:
    async def answer(one: GenerationRequest) -> tuple[int, ...]:
        chunks = [chunk async for chunk in backend.generate(one)]
        return tuple(token_id for chunk in chunks for token_id in chunk.token_ids)

    clock, processor = time.perf_counter(), time.process_time()
    answers = list(await asyncio.gather(*map(answer, requests)))
    return Run(answers, time.perf_counter() - clock, time.process_time() - processor)


async def compare(backend: Backend, kind: str, way: str, streams: int, rounds: int) -> None:
    pairs: list[tuple[Run, Run]] = []
    for turn in range(rounds + 1):
        numbers = range(turn * streams, (turn + 1) * streams)
        held = [request(KINDS[kind](number), SAMPLINGS[way], number) for number in numbers]
        free = [replace(one, grammar=None) for one in held]
        # Else the arm that comes second would find the prompts in the cache.
        await run(backend, [replace(one, max_tokens=1) for one in free])
        arms = {"held": partial(run, backend, held), "free": partial(run, backend, free)}
        ran = {name: await arms[name]() for name in random.sample(list(arms), 2)}
        pairs.append((ran["held"], ran["free"]))
    show(kind, way, streams, pairs[1:])  # the first warms up


def show(kind: str, way: str, streams: int, pairs: list[tuple[Run, Run]]) -> None:
    median = statistics.median
    speeds = [
        median(side.tokens / side.clock for side in sides) for sides in zip(*pairs, strict=True)
    ]
    clock = median((a.tokens / a.clock) / (b.tokens / b.clock) for a, b in pairs)
    processor = median((a.tokens / a.processor) / (b.tokens / b.processor) for a, b in pairs)
    both = [pair for a, b in pairs for pair in zip(a.answers, b.answers, strict=True)]
    equal = sum(a == b for a, b in both) / len(both)
    print(
        f"{streams:7} {kind:7} {way:8} {speeds[0]:6.1f} {speeds[1]:6.1f}"
        f" {clock:9.3f} {processor:7.3f} {equal:7.0%}",
        flush=True,
    )


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default=None, help="checkpoint; the demo's by default")
    parser.add_argument("--streams", type=int, nargs="+", default=[1, 16])
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--rounds", type=int, default=20)
    given = parser.parse_args()
    folder = given.model or str(checkpoint.ensure())
    assert mask_tokenizer() is not None  # built before anything is timed
    config = BackendConfig(folder, {}, encode_with_control, decode, mask_tokenizer)
    backend = LocalBackend(config)
    await backend.start()
    print("streams asked   tokens    held   free  held/free  of CPU  equal")
    for streams in given.streams:
        for kind in given.kinds:
            for way in SAMPLINGS:
                await compare(backend, kind, way, streams, given.rounds)
    await backend.stop()


if __name__ == "__main__":
    asyncio.run(main())
