"""Compare gpt-oss-server with `--backend vllm` to `vllm serve`, as clients see them.

    make test-vllm   # once: sets up .venv-vllm
    .venv-vllm/bin/python -m benchmarks.vllm [--model FOLDER] [--streams 1 16 64]
                                             [--launches 4] [--requests 64]

Both APIs use one engine with the default checkpoint (`benchmarks.one_engine`), because one of two
engines can be a tenth faster for its whole lifetime. The APIs stream answers to the same requests
one after the other, in a random order for each batch, so that other load affects both alike. A
batch has as many requests as there are streams. The client has the scheduling policy for batch
processes, so that, like a client on another machine, it takes no processor time from the servers.

`masked` answers follow a JSON schema, from which each API makes its own grammar for the whole
answer, with reasoning and headers. Only our API shows the schema to the model, so the instructions
of the requests to vLLM contain it. The run ends if the prompts differ in length.

The output has the medians over all batches of the ratio of ours to vLLM's, and the range of the
launches' medians, of output tokens per second and of CPU seconds per output token of the process
that answers HTTP.
"""

import argparse
import asyncio
import json
import math
import os
import random
import re
import signal
import socket
import statistics
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from adapters.vllm.flags import flags
from benchmarks import masks
from demo.checkpoint import ensure
from harmony.messages import DeveloperContent, ResponseFormat
from harmony.render import developer_text

# Chunked prefill is set because our default on a CPU differs from vLLM's. Prefixes are not cached,
# because the second API would find the prompts of the first.
ENGINE = {
    "max_model_len": "4096",
    "enforce_eager": "true",
    "max_num_seqs": "64",
    "enable_chunked_prefill": "false",
    "max_num_batched_tokens": "4096",
    "enable_prefix_caching": "false",
}
# What is set already wins: on a GPU, VLLM_TARGET_DEVICE is cuda.
ENVIRONMENT = {
    "VLLM_TARGET_DEVICE": "cpu",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "HF_HUB_OFFLINE": "1",
}
NAME = "model"
WARMING_STREAMS = 16
START_SECONDS = 600
GONE_SECONDS = 10
OUR_PORT, THEIR_PORT = 8310, 8311
LOG = Path("/tmp/benchmark-vllm.log")
INSTRUCTIONS = "Answer in the form that is asked for."
# The tasks to which the default checkpoint gives its longest answers.
TASKS = (
    "What is {} + 25?",
    "Who are you and what can you do, {}?",
    "Say hello to number {}.",
    "What can you not do? I ask for the time number {}.",
)


@dataclass(frozen=True)
class Api:
    """A process that answers HTTP."""

    port: int
    process: int

    @property
    def cpu(self) -> float:
        """Its processor time in seconds, from the scheduler: ticks miss short wake-ups."""
        threads = Path(f"/proc/{self.process}/task").glob("*/schedstat")
        return sum(int(thread.read_text().split()[0]) for thread in threads) / 1e9


@contextmanager
def apis(model: str) -> Iterator[tuple[Api, Api]]:
    """Our API and vLLM's, ready for requests."""
    for port in (OUR_PORT, THEIR_PORT):
        _wait_for_free_port(port)
    with LOG.open("w") as output:
        launcher = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.one_engine", *_arguments(model)],
            env={**ENVIRONMENT, **os.environ},
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        for port in (OUR_PORT, THEIR_PORT):
            _wait(port, launcher)
        children = Path(f"/proc/{launcher.pid}/task/{launcher.pid}/children").read_text()
        *_, theirs, ours = map(int, children.split())  # in the order of their start
        with _batch_scheduling():
            yield Api(OUR_PORT, ours), Api(THEIR_PORT, theirs)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(launcher.pid, signal.SIGKILL)
        launcher.wait()


def _arguments(model: str) -> list[str]:
    ours = ["serve", "--backend", "vllm", "--model", model, "--served-model-name", NAME]
    ours += ["--log-level", "warning", "--port", str(OUR_PORT)]
    ours += [f"--engine-arg={name}={value}" for name, value in ENGINE.items()]
    theirs = ["serve", model, "--served-model-name", NAME, "--disable-log-stats"]
    theirs += ["--disable-uvicorn-access-log", "--port", str(THEIR_PORT)]
    theirs += ["--scheduling-policy", "priority", *flags(ENGINE)]
    return [*ours, "--", *theirs]


def _wait_for_free_port(port: int) -> None:
    """Wait GONE_SECONDS for processes of an earlier launch; exit if the port is still in use."""
    limit = time.monotonic() + GONE_SECONDS
    while True:
        try:
            socket.create_server(("127.0.0.1", port)).close()
            return
        except OSError as error:
            if time.monotonic() > limit:
                raise SystemExit(f"port {port} is in use: {error}") from error
            time.sleep(0.1)


def _wait(port: int, launcher: subprocess.Popen[bytes]) -> None:
    limit = time.monotonic() + START_SECONDS
    while time.monotonic() < limit and launcher.poll() is None:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/health"):
                return
        except (urllib.error.URLError, ConnectionError):
            time.sleep(0.5)
    raise SystemExit(f"an API did not start; see {LOG}")


@contextmanager
def _batch_scheduling() -> Iterator[None]:
    """Keep this process from running in a server's place after each write of the server."""
    os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
    try:
        yield
    finally:
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))


@dataclass(frozen=True)
class Kind:
    """A kind of request. api: `chat` or `responses`."""

    api: str
    masked: bool

    def request(self, number: int, tokens: int, *, shown: bool) -> tuple[str, dict[str, Any]]:
        """The path and the body of a request. shown: whether its instructions have the schema."""
        task = TASKS[number % len(TASKS)].format(number % 90 + 7)
        messages = [{"role": "user", "content": task}]
        form = None
        if self.masked:
            masked = masks.schema(number)
            form = masked["response_format"]["json_schema"]
            instructions = with_schema(form) if shown else INSTRUCTIONS
            messages = [{"role": "developer", "content": instructions}, *masked["messages"]]
        body: dict[str, Any] = {"model": NAME, "stream": True, "temperature": 1.0}
        if self.api == "chat":
            body |= {"messages": messages, "max_tokens": tokens, "reasoning_effort": "high"}
            body |= {"stream_options": {"include_usage": True}}
            if form:
                body["response_format"] = {"type": "json_schema", "json_schema": form}
            return "/v1/chat/completions", body
        body |= {"input": messages, "max_output_tokens": tokens, "reasoning": {"effort": "high"}}
        if form:
            body["text"] = {"format": {"type": "json_schema", **form}}
        return "/v1/responses", {**body, "store": False}


def with_schema(form: dict[str, Any]) -> str:
    """Instructions with which vLLM's prompt equals ours with INSTRUCTIONS and the schema."""
    shown = (ResponseFormat(form["name"], form["schema"]),)
    text = developer_text(DeveloperContent(INSTRUCTIONS, response_formats=shown))
    return text.removeprefix("# Instructions\n\n")


@dataclass(frozen=True)
class Usage:
    prompt_tokens: int
    output_tokens: int


async def send(port: int, path: str, body: dict[str, Any]) -> Usage:
    """Send one request and read the stream; returns its usage.

    A plain socket keeps the client's processor time low.
    """
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 24)
    content = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    head += f"content-length: {len(content)}\r\nconnection: close\r\n\r\n"
    writer.write(head.encode() + content)
    answer = await reader.read()
    writer.close()
    names = (rb"(?:prompt|input)_tokens", rb"(?:completion|output)_tokens")
    counts = [re.findall(rb'"%b":\s*(\d+)' % name, answer) for name in names]
    if not all(counts) or int(counts[1][-1]) == 0:
        raise SystemExit(f"{path} answered {answer[:300]!r} ... {answer[-600:]!r}")
    return Usage(*(int(found[-1]) for found in counts))


@dataclass(frozen=True)
class Measured:
    prompt_tokens: int
    tokens_per_second: float
    cpu_per_token: float


async def measure(api: Api, requests: list[tuple[str, dict[str, Any]]]) -> Measured:
    """Send all requests at once."""
    cpu, start = api.cpu, time.perf_counter()
    used = await asyncio.gather(*(send(api.port, *one) for one in requests))
    seconds = time.perf_counter() - start
    output = sum(one.output_tokens for one in used)
    prompt = sum(one.prompt_tokens for one in used)
    return Measured(prompt, output / seconds, (api.cpu - cpu) / output)


Batch = tuple[Measured, Measured]
"""The results of our API and of vLLM's for one batch."""


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    kind: Kind
    streams: int

    async def batch(self, pair: tuple[Api, Api], number: int, tokens: int) -> Batch:
        """Run the batch of this number. Exits if the two APIs' prompts differ in length."""
        numbers = range(number * self.streams, (number + 1) * self.streams)
        results: dict[Api, Measured] = {}
        for api in random.sample(pair, 2):
            shown = api.port == THEIR_PORT
            requests = [self.kind.request(one, tokens, shown=shown) for one in numbers]
            results[api] = await measure(api, requests)
        ours, theirs = (results[api] for api in pair)
        if ours.prompt_tokens != theirs.prompt_tokens:
            raise SystemExit(f"{self}: prompts differ: {ours} {theirs}")
        return ours, theirs

    async def batches(self, pair: tuple[Api, Api], options: argparse.Namespace) -> list[Batch]:
        """All batches of one launch."""
        count = math.ceil(options.requests / self.streams)
        return [await self.batch(pair, number, options.tokens) for number in range(1, count + 1)]

    def show(self, launches: list[list[Batch]]) -> None:
        masked = "yes" if self.kind.masked else "no"
        speed = _columns(launches, lambda one: one.tokens_per_second)
        cpu = _columns(launches, lambda one: one.cpu_per_token * 1e6)
        print(f"{self.kind.api:10} {masked:7} {self.streams:7}  {speed}   {cpu}")


def _columns(launches: list[list[Batch]], figure: Callable[[Measured], float]) -> str:
    """Our figure, vLLM's, their ratio, and the lowest and highest ratio of a launch."""
    median = statistics.median
    by_launch = [[(figure(ours), figure(theirs)) for ours, theirs in one] for one in launches]
    pairs = list(chain.from_iterable(by_launch))
    ours, theirs = (median(side) for side in zip(*pairs, strict=True))
    ratio = median(one / other for one, other in pairs)
    each = sorted(median(one / other for one, other in launch) for launch in by_launch)
    return f"{ours:6.0f} {theirs:6.0f}  {ratio:5.2f} ({each[0]:.2f}-{each[-1]:.2f})"


def compare(rows: list[Row], model: str, options: argparse.Namespace) -> None:
    """Run all launches, and print the table of all results so far after each."""
    launches: dict[Row, list[list[Batch]]] = {row: [] for row in rows}
    for number in range(options.launches):
        with apis(model) as pair:
            for kind in dict.fromkeys(row.kind for row in rows):
                asyncio.run(Row(kind, WARMING_STREAMS).batch(pair, 0, options.tokens))
                for row in (row for row in rows if row.kind == kind):
                    launches[row].append(asyncio.run(row.batches(pair, options)))
        print(f"\nlaunches: {number + 1} of {options.launches}")
        show(launches)


def show(launches: dict[Row, list[list[Batch]]]) -> None:
    side = f"{'ours':>6} {'vLLM':>6}  {'ratio (launches)':17}"
    print(f"{'':26}  {'tokens/s':{len(side)}}   CPU us/token")
    print(f"{'api':10} {'masked':7} {'streams':>7}  {side}   {side}")
    for row, batches in launches.items():
        row.show(batches)
    sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--model", help="a checkpoint's folder; the demo's by default")
    parser.add_argument("--streams", type=int, nargs="+", default=[1, 16, 64])
    parser.add_argument("--tokens", type=int, default=160)
    parser.add_argument("--launches", type=int, default=4)
    parser.add_argument(
        "--requests", type=int, default=64, help="the least of a row, API and launch"
    )
    options = parser.parse_args()
    kinds = [Kind(api, masked) for masked in (False, True) for api in ("chat", "responses")]
    rows = [Row(kind, streams) for kind in kinds for streams in options.streams]
    compare(rows, options.model or str(ensure()), options)


if __name__ == "__main__":
    main()
