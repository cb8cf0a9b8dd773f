"""Measure events per second of streamed answers, compared with sse-starlette alone.

    python -m benchmarks.sse [--streams 1 64] [--tokens 400] [--rounds 5] [--json FILE]

One process serves every arm over sockets, another reads. The baseline `sse-starlette` is an
EventSourceResponse with encoded events: it encodes nothing, but is no lower bound, since this
server frames events faster. The other arms run the whole server with the scripted engine, one token
in each chunk. Each round runs every arm once, in a random order. The output has the medians over
the rounds of events per second of wall time and of the server's processor time, and the medians of
the rounds' ratios by processor time. Garbage is collected as `serve` does it.
"""

import argparse
import asyncio
import json
import multiprocessing
import random
import tempfile
import time
from collections.abc import AsyncIterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import uvicorn
from sse_starlette import EventSourceResponse
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from uvloop import new_event_loop

from benchmarks.library import figures
from benchmarks.library.clients import post
from benchmarks.library.timing import Rate, median, ratio
from server.app import create_app
from server.commands.backends import open_backend
from server.commands.garbage import reduce_garbage_collections
from server.http.connections.config import Config
from server.settings import Settings

MODEL = "scripted"
PROMPT = {"role": "user", "content": "Hello"}
BASELINE = "sse-starlette"
ARMS: dict[str, dict[str, Any]] = {
    BASELINE: {},
    "chat": {"model": MODEL, "messages": [PROMPT], "stream": True},
    "responses": {"model": MODEL, "input": [PROMPT], "stream": True},
}
PATHS = {BASELINE: "/baseline", "chat": "/v1/chat/completions", "responses": "/v1/responses"}
BASELINE_EVENT = {
    "type": "response.output_text.delta",
    "item_id": "msg_0123456789abcdef0123456789abcdef",
    "output_index": 0,
    "content_index": 0,
    "delta": " word",
    "logprobs": [],
    "sequence_number": 100,
}


# The server's process


def baseline(tokens: int) -> Starlette:
    data = json.dumps(BASELINE_EVENT, separators=(",", ":"))
    event = f"event: {BASELINE_EVENT['type']}\ndata: {data}\n\n".encode()

    async def events() -> AsyncIterator[bytes]:
        for _ in range(tokens):
            await asyncio.sleep(0)
            yield event

    async def answer(request: Request) -> Response:
        await request.body()
        return EventSourceResponse(events(), sep="\n")

    return Starlette(routes=[Route(PATHS[BASELINE], answer, methods=["POST"])])


async def run_server(pipe: Connection, tokens: int, script: str) -> None:
    """Serve both applications; answer each message on the pipe with the processor time so far."""
    settings = Settings(backend="scripted", script=script, max_running=1024)
    backend = open_backend(settings, lambda stage, fraction: None)
    await backend.start()
    servers = [
        uvicorn.Server(Config(app, settings.limits, port=0, log_config=None, access_log=False))
        for app in (baseline(tokens), create_app(settings, backend))
    ]
    tasks = [asyncio.create_task(server.serve()) for server in servers]
    while not all(server.started for server in servers):  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    reduce_garbage_collections()
    pipe.send([server.servers[0].sockets[0].getsockname()[1] for server in servers])
    while await asyncio.to_thread(pipe.recv):
        pipe.send(time.process_time())
    for server in servers:
        server.should_exit = True
    await asyncio.gather(*tasks)


def serve(pipe: Connection, tokens: int, script: str) -> None:
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(run_server(pipe, tokens, script))


# The clients' process


async def read_stream(port: int, path: str, body: bytes) -> int:
    """Events of one streamed answer."""
    answer = await post(port, path, body)
    return answer.content.count(b"data: {")


class Bench:
    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe
        baseline_port, port = pipe.recv()
        self._ports = {arm: baseline_port if arm == BASELINE else port for arm in ARMS}

    async def measure(self, arm: str, streams: int) -> Rate:
        """The rate of events. Processor time is that of the server."""
        body = json.dumps(ARMS[arm]).encode()
        used, began = self._processor_time(), time.perf_counter()
        counts = await asyncio.gather(
            *[read_stream(self._ports[arm], PATHS[arm], body) for _ in range(streams)]
        )
        wall, used = time.perf_counter() - began, self._processor_time() - used
        return Rate(sum(counts) / wall, sum(counts) / used)

    def _processor_time(self) -> float:
        self._pipe.send(True)
        return float(self._pipe.recv())


def rounds(bench: Bench, streams: int, count: int) -> list[dict[str, Rate]]:
    results = []
    for _ in range(count):
        order = random.sample(list(ARMS), len(ARMS))
        results.append({arm: asyncio.run(bench.measure(arm, streams)) for arm in order})
    return results


def report(streams: int, results: list[dict[str, Rate]]) -> figures.Figures:
    """Print the medians over the rounds, and return them."""
    found: figures.Figures = {}
    for arm in ARMS:
        rates, baseline = ([result[name] for result in results] for name in (arm, BASELINE))
        rate, share = median(rates), ratio(rates, baseline).processor
        found[f"{streams} streams: {arm}, events per processor second"] = rate.processor
        if arm != BASELINE:
            found[f"{streams} streams: {arm} / {BASELINE}"] = share
        print(
            f"{streams:3} streams  {arm:14} {rate.clock:8.0f} events per second"
            f"  {rate.processor:8.0f} events per processor second  {share:5.2f} of {BASELINE}",
            flush=True,
        )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--streams", type=int, nargs="+", default=[1, 64])
    parser.add_argument("--tokens", type=int, default=400)
    parser.add_argument("--rounds", type=int, default=5)
    figures.add_option(parser)
    options = parser.parse_args()
    completion = f"<|channel|>final<|message|>{' word' * options.tokens}<|return|>"
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "script.jsonl"
        script.write_text(json.dumps({"prompt_contains": None, "completion": completion}))
        ours, theirs = multiprocessing.Pipe()
        arguments = (theirs, options.tokens, str(script))
        process = multiprocessing.get_context("spawn").Process(target=serve, args=arguments)
        process.start()
        bench = Bench(ours)
        rounds(bench, 1, 1)
        found: figures.Figures = {}
        for streams in options.streams:
            found |= report(streams, rounds(bench, streams, options.rounds))
        ours.send(False)
        process.join()
    figures.write(found, options.json)


if __name__ == "__main__":
    main()
