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

from adapters.local.masks import GrammarCompiler
from harmony.vocab import VOCAB_SIZE
from server.backends import mask_tokenizer
from server.inbound.grammar import Masking, Wish, constrain
from server.inbound.tool_choice import read_tool_choice
from server.inbound.tools import read_tools
from server.inbound.trial import shared

TOOLS = 10


def wish(number: int, *, plain: bool) -> Wish:
    """Ten strict tools that no other number has."""
    properties = {
        "city": {"type": "string", "description": "Where."},
        "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
        "days": {"type": "integer"} if plain else {"type": "integer", "minimum": 1, "maximum": 14},
        "tags": {"type": "array", "items": {"type": "string"}},
    }
    schema = {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
    tools = read_tools(
        [
            {"type": "function", "name": f"tool_{number}_{one}", "parameters": schema}
            | {"description": "Tells the weather.", "strict": True}
            for one in range(TOOLS)
        ]
    )
    return Wish(tools, read_tool_choice("auto", tools))


async def delay(compiler: GrammarCompiler, asked: Wish) -> tuple[float, float]:
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
