"""How long a request with ten tools waits for its grammar: made anew, and known already.

    python -m benchmarks.grammar [--rounds 30]

Cold is a request whose like was never seen: plain tools, whose schemas need no trial, and others.
Printed are medians over the rounds of server and engine together, by the clock and, for machines
that others use too, of the process's processor time (without that of trials).
"""

import argparse
import asyncio
import statistics
import time
from typing import Any

from adapters.grammars import GrammarCompiler
from harmony.vocab import VOCAB_SIZE
from server.commands.backends import mask_tokenizer
from server.inbound.grammar import ConstraintRequest, Masking, constrain
from server.inbound.grammar_sandbox import shared
from server.inbound.tool_choice import read_tool_choice
from server.inbound.tools import read_tools

TOOLS = 10


def wish(number: int, *, plain: bool) -> ConstraintRequest:
    """Ten strict tools that no other number has, each with a schema of its own."""
    tools = read_tools(
        [
            {"type": "function", "name": f"tool_{number}_{one}", "strict": True}
            | {"description": "Tells the weather.", "parameters": schema(one, plain=plain)}
            for one in range(TOOLS)
        ]
    )
    return ConstraintRequest(tools, read_tool_choice("auto", tools))


def schema(number: int, *, plain: bool) -> dict[str, Any]:
    """Four properties, of names that no other number has."""
    days = {"type": "integer"} if plain else {"type": "integer", "minimum": 1, "maximum": 14}
    properties = {
        f"city_{number}": {"type": "string", "description": "Where."},
        f"unit_{number}": {"type": "string", "enum": ["celsius", "fahrenheit"]},
        f"days_{number}": days,
        f"tags_{number}": {"type": "array", "items": {"type": "string"}},
    }
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


async def delay(compiler: GrammarCompiler, asked: ConstraintRequest) -> tuple[float, float]:
    """Milliseconds by the clock, and of processor time."""
    clock, processor = time.perf_counter(), time.process_time()
    grammar = constrain(asked, Masking()).grammar
    assert grammar is not None
    await compiler.compile(grammar)
    clock, processor = time.perf_counter() - clock, time.process_time() - processor
    return clock * 1e3, processor * 1e3


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=30)
    rounds = parser.parse_args().rounds
    tokenizer = mask_tokenizer()
    compiler = GrammarCompiler(lambda: tokenizer, VOCAB_SIZE)
    shared().start()
    await delay(compiler, wish(-1, plain=False))
    delays: dict[str, list[tuple[float, float]]] = {}
    for number in range(rounds):
        for plain in (True, False):
            kind = "plain" if plain else "tried"
            asked = wish(number, plain=plain)
            delays.setdefault(f"{kind}, cold", []).append(await delay(compiler, asked))
            asked = wish(number, plain=plain)
            delays.setdefault(f"{kind}, cached", []).append(await delay(compiler, asked))
    print(f"{TOOLS} tools{'':12} ms   ms of CPU")
    for name, pairs in delays.items():
        clock, processor = (statistics.median(values) for values in zip(*pairs, strict=True))
        print(f"{name:14} {clock:8.3f} {processor:11.3f}")
    compiler.close()


if __name__ == "__main__":
    asyncio.run(main())
