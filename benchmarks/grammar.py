"""Measure how long a request with ten tools waits for its grammar, new or cached.

    python -m benchmarks.grammar [--rounds 30]

`cold` is a request with new schemas. `plain` schemas need no check in the grammar sandbox,
`checked` schemas do. The output has the medians over the rounds of the time that server and engine
take together, as wall time and as processor time, which other load affects less. The processor time
of the sandbox is not included.
"""

import argparse
import asyncio
import statistics
import time
from typing import Any

from adapters.grammars import GrammarCompiler
from harmony.mask_tokenizer import mask_tokenizer
from harmony.vocab import VOCAB_SIZE
from server.inbound.grammar import ConstraintRequest, Masking, constrain
from server.inbound.grammar_sandbox import shared
from server.inbound.tool_choice import read_tool_choice
from server.inbound.tools import read_tools

TOOLS = 10


def constraint_request(number: int, *, plain: bool) -> ConstraintRequest:
    """A request with ten strict tools, which differ from those of any other number."""
    tools = read_tools(
        [
            {"type": "function", "name": f"tool_{number}_{one}", "strict": True}
            | {
                "description": "Tells the weather.",
                "parameters": schema(number * TOOLS + one, plain=plain),
            }
            for one in range(TOOLS)
        ]
    )
    return ConstraintRequest(tools, read_tool_choice("auto", tools))


def schema(number: int, *, plain: bool) -> dict[str, Any]:
    """An object with four properties, whose names differ from those of any other number."""
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


async def delay(compiler: GrammarCompiler, request: ConstraintRequest) -> tuple[float, float]:
    """Milliseconds of wall time and of processor time."""
    clock, processor = time.perf_counter(), time.process_time()
    grammar = constrain(request, Masking()).grammar
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
    await delay(compiler, constraint_request(-1, plain=False))
    delays: dict[str, list[tuple[float, float]]] = {}
    for number in range(rounds):
        for plain in (True, False):
            kind = "plain" if plain else "checked"
            request = constraint_request(number, plain=plain)
            delays.setdefault(f"{kind}, cold", []).append(await delay(compiler, request))
            request = constraint_request(number, plain=plain)
            delays.setdefault(f"{kind}, cached", []).append(await delay(compiler, request))
    print(f"{TOOLS} tools{'':12} ms   ms of CPU")
    for name, pairs in delays.items():
        clock, processor = (statistics.median(values) for values in zip(*pairs, strict=True))
        print(f"{name:14} {clock:8.3f} {processor:11.3f}")
    compiler.close()


if __name__ == "__main__":
    asyncio.run(main())
