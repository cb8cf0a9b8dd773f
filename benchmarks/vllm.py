"""Compare gpt-oss-server with `--backend vllm` to `vllm serve`, as clients see them.

    make test-vllm   # once: sets up .venv-vllm
    .venv-vllm/bin/python -m benchmarks.vllm [--model FOLDER] [--streams 1 16 64]
                                             [--launches 4] [--requests 64] [--json FILE]

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
import math
import os
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from adapters.vllm.flags import flags
from benchmarks import masks
from benchmarks.library import figures
from benchmarks.library.clients import batch_scheduling, post, usage
from benchmarks.library.engines import CPU_ENVIRONMENT
from benchmarks.library.processes import LOGS, free_port, process_seconds, running
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
ENVIRONMENT = {**CPU_ENVIRONMENT, "VLLM_CPU_KVCACHE_SPACE": "1"}
NAME = "model"
WARMING_STREAMS = 16
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
        """Its processor time in seconds, without that of the engine's processes."""
        return process_seconds(self.process)


@contextmanager
def apis(model: str) -> Iterator[tuple[Api, Api]]:
    """Our API and vLLM's, ready for requests."""
    ports = free_port(), free_port()
    command = [sys.executable, "-m", "benchmarks.one_engine", *_arguments(model, *ports)]
    ours, theirs = (f"http://127.0.0.1:{port}/health" for port in ports)
    with running(command, ours, LOGS / "one-engine.log", {**ENVIRONMENT, **os.environ}) as launcher:
        launcher.wait_until_ready(theirs)
        children = Path(f"/proc/{launcher.pid}/task/{launcher.pid}/children").read_text()
        *_, their_process, our_process = map(int, children.split())  # in the order of their start
        with batch_scheduling():
            yield Api(ports[0], our_process), Api(ports[1], their_process)


def _arguments(model: str, our_port: int, their_port: int) -> list[str]:
    ours = ["serve", "--backend", "vllm", "--model", model, "--served-model-name", NAME]
    ours += ["--log-level", "warning", "--port", str(our_port)]
    ours += [f"--engine-arg={name}={value}" for name, value in ENGINE.items()]
    theirs = ["serve", model, "--served-model-name", NAME, "--disable-log-stats"]
    theirs += ["--disable-uvicorn-access-log", "--port", str(their_port)]
    theirs += ["--scheduling-policy", "priority", *flags(ENGINE)]
    return [*ours, "--", *theirs]


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
class Measured:
    prompt_tokens: int
    tokens_per_second: float
    cpu_per_token: float


async def measure(api: Api, requests: list[tuple[str, dict[str, Any]]]) -> Measured:
    """Send all requests at once."""
    cpu, start = api.cpu, time.perf_counter()
    answers = await asyncio.gather(*(post(api.port, *one) for one in requests))
    seconds = time.perf_counter() - start
    used = list(map(usage, answers))
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
            shown = api is pair[1]
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

    def show(self, launches: list[list[Batch]]) -> figures.Figures:
        """Print the line, and return its ratios."""
        masked = "yes" if self.kind.masked else "no"
        speed = _compared(launches, lambda one: one.tokens_per_second)
        cpu = _compared(launches, lambda one: one.cpu_per_token * 1e6)
        print(f"{self.kind.api:10} {masked:7} {self.streams:7}  {speed}   {cpu}")
        name = f"{self.kind.api}{' masked' if self.kind.masked else ''}, {self.streams} streams"
        return {
            f"{name}, tokens/s: ours / vLLM": speed.ratio,
            f"{name}, CPU per token: ours / vLLM": cpu.ratio,
        }


@dataclass(frozen=True)
class Compared:
    """Medians of a figure: ours, vLLM's, and of their ratio; the lowest and highest of a launch."""

    ours: float
    theirs: float
    ratio: float
    lowest: float
    highest: float

    def __str__(self) -> str:
        spread = f"({self.lowest:.2f}-{self.highest:.2f})"
        return f"{self.ours:6.0f} {self.theirs:6.0f}  {self.ratio:5.2f} {spread}"


def _compared(launches: list[list[Batch]], figure: Callable[[Measured], float]) -> Compared:
    by_launch = [[(figure(ours), figure(theirs)) for ours, theirs in one] for one in launches]
    ours, theirs = zip(*chain.from_iterable(by_launch), strict=True)
    each = [figures.median_ratio(*zip(*launch, strict=True)) for launch in by_launch]
    return Compared(
        statistics.median(ours),
        statistics.median(theirs),
        figures.median_ratio(ours, theirs),
        min(each),
        max(each),
    )


def compare(rows: list[Row], model: str, options: argparse.Namespace) -> figures.Figures:
    """Run all launches, and print the table of all results so far after each."""
    found: figures.Figures = {}
    launches: dict[Row, list[list[Batch]]] = {row: [] for row in rows}
    for number in range(options.launches):
        with apis(model) as pair:
            for kind in dict.fromkeys(row.kind for row in rows):
                asyncio.run(Row(kind, WARMING_STREAMS).batch(pair, 0, options.tokens))
                for row in (row for row in rows if row.kind == kind):
                    launches[row].append(asyncio.run(row.batches(pair, options)))
        print(f"\nlaunches: {number + 1} of {options.launches}")
        found = show(launches)
    return found


def show(launches: dict[Row, list[list[Batch]]]) -> figures.Figures:
    """Print the table, and return its ratios."""
    side = f"{'ours':>6} {'vLLM':>6}  {'ratio (launches)':17}"
    print(f"{'':26}  {'tokens/s':{len(side)}}   CPU us/token")
    print(f"{'api':10} {'masked':7} {'streams':>7}  {side}   {side}")
    found: figures.Figures = {}
    for row, batches in launches.items():
        found |= row.show(batches)
    sys.stdout.flush()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", help="a checkpoint's folder; the demo's by default")
    parser.add_argument("--streams", type=int, nargs="+", default=[1, 16, 64])
    parser.add_argument("--tokens", type=int, default=160)
    parser.add_argument("--launches", type=int, default=4)
    parser.add_argument(
        "--requests", type=int, default=64, help="the least of a row, API and launch"
    )
    parser.add_argument("--free", action="store_true", help="leave out the masked answers")
    figures.add_option(parser)
    options = parser.parse_args()
    masks_used = (False,) if options.free else (False, True)
    kinds = [Kind(api, masked) for masked in masks_used for api in ("chat", "responses")]
    rows = [Row(kind, streams) for kind in kinds for streams in options.streams]
    figures.write(compare(rows, options.model or str(ensure()), options), options.json)


if __name__ == "__main__":
    main()
