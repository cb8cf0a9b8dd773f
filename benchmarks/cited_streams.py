"""Measure what citations add to a stream: `python -m benchmarks.cited_streams`.

    python -m benchmarks.cited_streams [--streams 2] [--tokens 30000] [--rounds 9]

The whole server streams answers of the scripted engine over sockets, one token in each chunk. Each
answer searches the documentation first. The answers of one arm have a citation marker in every 100
tokens; those of the other have words instead. Each round streams short and long answers of both
arms, in a random order. The output has the server's processor time for each further token of the
long answers, and the median of the rounds' ratios.
"""

import argparse
import asyncio
import json
import multiprocessing
import random
import re
import statistics
import tempfile
from itertools import product
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from benchmarks.sse import MODEL, PATHS, read_stream, serve
from harmony.tokenizer import decode, encode

ARMS = ("plain", "cited")
APIS = ("chat", "responses")
SHORT = 400
EVERY = 100
"""One marker in so many tokens."""
MARKER = "【0†L9】"
WORDS = [token for token in range(1000, 20_000) if re.fullmatch(" [a-z]{4,}", decode([token]))]
TOOLS = [{"type": "web_search"}]


def answer(arm: str, tokens: int) -> str:
    """A text of `tokens` tokens. Its words are drawn, as a text that repeats itself is ended."""
    source = random.Random(tokens)
    marker = encode(MARKER)
    sequence: list[int] = []
    while len(sequence) < tokens:
        sequence += source.choices(WORDS, k=EVERY - len(marker))
        sequence += marker if arm == "cited" else source.choices(WORDS, k=len(marker))
    text = decode(sequence)
    assert encode(text) == sequence
    return text


def script(lengths: list[int]) -> list[dict[str, Any]]:
    """Script lines: the question names the arm, the query repeats it."""
    lines = []
    for arm, tokens in product(ARMS, lengths):
        query = json.dumps({"query": f"{arm} {tokens}"})
        final = f"<|channel|>final<|message|>{answer(arm, tokens)}<|return|>"
        search = f"<|channel|>analysis to=browser.search code<|message|>{query}<|call|>"
        lines += [
            {"prompt_contains": query, "completion": final},
            {"prompt_contains": f"ask {arm} {tokens}.", "completion": search},
        ]
    return lines


def body(api: str, arm: str, tokens: int) -> bytes:
    messages = [{"role": "user", "content": f"ask {arm} {tokens}."}]
    field = "messages" if api == "chat" else "input"
    return json.dumps({"model": MODEL, field: messages, "tools": TOOLS, "stream": True}).encode()


class Bench:
    """Measures one server."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe
        _, self._port = pipe.recv()

    async def seconds(self, api: str, arm: str, tokens: int, streams: int) -> float:
        """Processor seconds of the server for some streams at once."""
        request, before = body(api, arm, tokens), self._processor_time()
        counts = await asyncio.gather(
            *[read_stream(self._port, PATHS[api], request) for _ in range(streams)]
        )
        assert min(counts) > tokens * (EVERY - 10) // EVERY
        return self._processor_time() - before

    def _processor_time(self) -> float:
        self._pipe.send(True)
        return float(self._pipe.recv())

    def microseconds(self, api: str, tokens: int, streams: int) -> dict[str, float]:
        """Of each further token, by arm: one round."""
        cases = list(product(ARMS, (SHORT, tokens)))
        taken = {
            case: asyncio.run(self.seconds(api, *case, streams))
            for case in random.sample(cases, len(cases))
        }
        further = streams * (tokens - SHORT)
        return {arm: (taken[arm, tokens] - taken[arm, SHORT]) / further * 1e6 for arm in ARMS}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--streams", type=int, default=2)
    parser.add_argument("--tokens", type=int, default=30_000)
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "script.jsonl"
        file.write_text("\n".join(map(json.dumps, script([SHORT, options.tokens]))))
        ours, theirs = multiprocessing.Pipe()
        process = multiprocessing.get_context("spawn").Process(
            target=serve, args=(theirs, options.tokens, str(file))
        )
        process.start()
        bench = Bench(ours)
        for api in APIS:
            bench.microseconds(api, options.tokens, 1)
            rounds = [
                bench.microseconds(api, options.tokens, options.streams)
                for _ in range(options.rounds)
            ]
            plain, cited = (statistics.median(each[arm] for each in rounds) for arm in ARMS)
            ratio = statistics.median(each["cited"] / each["plain"] for each in rounds)
            print(
                f"{api:10} {plain:6.1f} us per token  {cited:6.1f} us with citations"
                f"  ratio {ratio:5.3f}"
            )
        ours.send(False)
        process.join()


if __name__ == "__main__":
    main()
