"""Measure what citations add to a stream: `python -m benchmarks.cited_streams`.

    python -m benchmarks.cited_streams [--tokens 4000] [--rounds 25]

The whole application streams answers of the scripted engine, one token in each chunk, in this
process and without sockets. There are three arms: a request without tools; one with `web_search`,
whose answer searches the documentation and has no citation; and the same with a citation marker in
every 100 tokens. Each round streams a short and a long answer of each arm, in a random order. The
output has the median of the processor time for each further token of the long answers, and the
median of the rounds' ratios to the first arm. Sockets would add the same to each arm.
"""

import argparse
import asyncio
import gc
import json
import random
import re
import statistics
import tempfile
import time
from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Any

from benchmarks.sse import MODEL, PATHS
from harmony.tokenizer import decode, encode
from server.app import create_app
from server.commands.backends import open_backend
from server.settings import Settings

ARMS = ("without", "tool", "cited")
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
        first = final if arm == "without" else search
        lines += [
            {"prompt_contains": query, "completion": final},
            {"prompt_contains": f"ask {arm} {tokens}.", "completion": first},
        ]
    return lines


def body(api: str, arm: str, tokens: int) -> bytes:
    messages = [{"role": "user", "content": f"ask {arm} {tokens}."}]
    field = "messages" if api == "chat" else "input"
    request: dict[str, Any] = {"model": MODEL, field: messages, "stream": True, "store": False}
    return json.dumps(request if arm == "without" else request | {"tools": TOOLS}).encode()


async def stream(app: Any, path: str, content: bytes) -> int:
    """Events of one streamed answer."""
    headers = [(b"host", b"localhost"), (b"content-length", b"%d" % len(content))]
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": headers,
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
        "state": {},
    }
    events = 0
    unread = [content]

    async def receive() -> dict[str, Any]:
        if unread:
            return {"type": "http.request", "body": unread.pop(), "more_body": False}
        await asyncio.Event().wait()
        raise AssertionError

    async def send(message: Mapping[str, Any]) -> None:
        nonlocal events
        events += message.get("body", b"").count(b"data: {")

    await app(scope, receive, send)
    return events


async def microseconds(app: Any, api: str, tokens: int) -> dict[str, float]:
    """Processor time of each further token, by arm: one round."""
    cases = list(product(ARMS, (SHORT, tokens)))
    taken = {}
    for arm, length in random.sample(cases, len(cases)):
        request = body(api, arm, length)
        gc.collect()
        before = time.process_time()
        events = await stream(app, PATHS[api], request)
        taken[arm, length] = time.process_time() - before
        assert events > length * (EVERY - 10) // EVERY, events
    further = tokens - SHORT
    return {arm: (taken[arm, tokens] - taken[arm, SHORT]) / further * 1e6 for arm in ARMS}


async def measure(file: str, tokens: int, count: int) -> None:
    settings = Settings(backend="scripted", script=file, max_running=1024)
    backend = open_backend(settings, lambda stage, fraction: None)
    await backend.start()
    app = create_app(settings, backend)
    async with app.router.lifespan_context(app):
        for api in APIS:
            await microseconds(app, api, tokens)
            rounds = [await microseconds(app, api, tokens) for _ in range(count)]
            for arm in ARMS:
                time_of_token = statistics.median(each[arm] for each in rounds)
                ratio = statistics.median(each[arm] / each["without"] for each in rounds)
                print(f"{api:10} {arm:8} {time_of_token:6.2f} us per token  ratio {ratio:5.3f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tokens", type=int, default=4000)
    parser.add_argument("--rounds", type=int, default=25)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "script.jsonl"
        file.write_text("\n".join(map(json.dumps, script([SHORT, options.tokens]))))
        asyncio.run(measure(str(file), options.tokens, options.rounds))


if __name__ == "__main__":
    main()
