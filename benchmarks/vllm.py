"""gpt-oss-server with `--backend vllm` against `vllm serve`, at what clients see.

    make test-vllm   # once: sets up .venv-vllm
    .venv-vllm/bin/python -m benchmarks.vllm [--model FOLDER] [--streams 1 16 64]
                                             [--launches 8] [--rounds 1]

Both servers run at once with the same engine arguments and the default checkpoint, and stream
answers to the same requests; each round asks each of them in an order drawn anew, so that a
machine's moods fall on both alike. A server is asked once the other's engine has come to rest: its
workers look for work for seconds after the last, and would halve the speed of the one beside it.
The client is a batch process: as one on a machine of its own, it takes the processor from nobody.
An engine may be a tenth faster or slower than the next for as long as it lives, ours as vLLM's, so
both are launched several times, which says more than many rounds of one launch.
Masked: answers keep to a JSON schema, of which each server makes its own grammar for the whole
answer, reasoning and headers. Only ours shows the schema to the model, so that vLLM is asked with
it in the instructions: both prompts must have equally many tokens, or the run ends.
Printed are medians over all rounds of each round's ratio, ours to vLLM's, and within what the
launches' own medians lie: output tokens per second, and CPU seconds per output token of the process
that answers HTTP (the engine has processes of its own, alike on both sides).
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

# Chunked prefill is named because our default on a CPU is not vLLM's own.
ENGINE = {
    "max_model_len": "4096",
    "enforce_eager": "true",
    "max_num_seqs": "64",
    "enable_chunked_prefill": "false",
    "max_num_batched_tokens": "4096",
}
ENVIRONMENT = {
    "VLLM_TARGET_DEVICE": "cpu",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "HF_HUB_OFFLINE": "1",
}
NAME = "model"
LEAST_REQUESTS = 8  # of a round: a single one says little
WARMING_STREAMS = 16
START_SECONDS = 600
REST_SECONDS = 0.3
RESTS_BELOW = 0.1  # of a processor
INSTRUCTIONS = "Answer in the form that is asked for."
# Of the things that the default checkpoint says most about.
TASKS = (
    "What is {} + 25?",
    "Who are you and what can you do, {}?",
    "Say hello to number {}.",
    "What can you not do? I ask for the time number {}.",
)


class Server:
    """A server process; `cpu` is its own processor time in seconds, without its children's."""

    def __init__(self, name: str, command: list[str]) -> None:
        self.name = name
        self.port = 8300 + len(name)
        self._refuse_leftovers()
        words = [sys.executable, "-m", *command, "--port", str(self.port)]
        self.log = Path(f"/tmp/benchmark-{name}.log")
        with self.log.open("w") as output:
            self.process = subprocess.Popen(
                words,
                env={**os.environ, **ENVIRONMENT},
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    def _refuse_leftovers(self) -> None:
        """Else what an earlier run left would be measured."""
        try:
            socket.create_server(("127.0.0.1", self.port)).close()
        except OSError as error:
            raise SystemExit(f"port {self.port} is another's: {error}") from error

    def wait(self) -> None:
        limit = time.monotonic() + START_SECONDS
        while time.monotonic() < limit and self.process.poll() is None:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/health"):
                    return
            except (urllib.error.URLError, ConnectionError):
                time.sleep(0.5)
        raise SystemExit(f"{self.name} did not start; see {self.log}")

    @property
    def cpu(self) -> float:
        return cpu_seconds(self.process.pid)

    async def rest(self) -> None:
        """Return when none of its processes computes any more."""
        spent = math.inf
        while spent > RESTS_BELOW * REST_SECONDS:
            before = self._cpu_of_all()
            await asyncio.sleep(REST_SECONDS)
            spent = self._cpu_of_all() - before

    def _cpu_of_all(self) -> float:
        own = os.getpgid(self.process.pid)
        ids = (int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit())
        return sum(cpu_seconds(one) for one in ids if group_of(one) == own)


def cpu_seconds(process: int) -> float:
    """By the scheduler's figures: clock ticks miss short wake-ups."""
    threads = Path(f"/proc/{process}/task").glob("*/schedstat")
    return sum(int(thread.read_text().split()[0]) for thread in threads) / 1e9


def group_of(process: int) -> int | None:
    with suppress(ProcessLookupError):
        return os.getpgid(process)
    return None


@contextmanager
def servers(model: str) -> Iterator[tuple[Server, Server]]:
    arguments = [f"--engine-arg={name}={value}" for name, value in ENGINE.items()]
    ours = [*("server", "serve", "--backend", "vllm", "--model", model, *arguments)]
    ours += ["--served-model-name", NAME, "--log-level", "warning"]
    theirs = [*("vllm.entrypoints.cli.main", "serve", model, *flags(ENGINE))]
    theirs += ["--served-model-name", NAME, "--disable-log-stats"]
    theirs += ["--disable-uvicorn-access-log", "--scheduling-policy", "priority"]
    running: list[Server] = []
    try:
        for name, command in (("ours", ours), ("vllm-serve", theirs)):
            running.append(Server(name, command))
        for server in running:
            server.wait()
        with _giving_way():
            yield running[0], running[1]
    finally:
        for server in running:
            with suppress(ProcessLookupError):
                os.killpg(server.process.pid, signal.SIGKILL)
            server.process.wait()


@contextmanager
def _giving_way() -> Iterator[None]:
    """Else each write of a server would run this process in the server's place."""
    os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
    try:
        yield
    finally:
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))


@dataclass(frozen=True)
class Kind:
    """One way of asking. api: `chat` or `responses`."""

    api: str
    masked: bool

    def asks(self, number: int, tokens: int, *, shown: bool) -> tuple[str, dict[str, Any]]:
        """The path and the body of a request. shown: whether its instructions show the schema."""
        task = TASKS[number % len(TASKS)].format(number % 90 + 7)
        messages = [{"role": "user", "content": task}]
        form = None
        if self.masked:
            masked = masks.schema(number)
            form = masked["response_format"]["json_schema"]
            told = with_schema(form) if shown else INSTRUCTIONS
            messages = [{"role": "developer", "content": told}, *masked["messages"]]
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
    """Instructions of which vLLM makes the prompt that we make of INSTRUCTIONS and the schema."""
    shown = (ResponseFormat(form["name"], form["schema"]),)
    text = developer_text(DeveloperContent(INSTRUCTIONS, response_formats=shown))
    return text.removeprefix("# Instructions\n\n")


@dataclass(frozen=True)
class Usage:
    prompt_tokens: int
    output_tokens: int


async def ask(port: int, path: str, body: dict[str, Any]) -> Usage:
    """What one streamed answer used. A bare socket: the client shares the processor."""
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


async def measure(
    server: Server, other: Server, asked: list[tuple[str, dict[str, Any]]], streams: int
) -> Measured:
    """Ask all of it, `streams` at once."""
    await other.rest()
    left = iter(asked)

    async def stream() -> list[Usage]:
        return [await ask(server.port, *one) for one in left]

    cpu, began = server.cpu, time.perf_counter()
    used = list(chain.from_iterable(await asyncio.gather(*(stream() for _ in range(streams)))))
    seconds = time.perf_counter() - began
    output = sum(one.output_tokens for one in used)
    prompt = sum(one.prompt_tokens for one in used)
    return Measured(prompt, output / seconds, (server.cpu - cpu) / output)


Round = tuple[Measured, Measured]
"""What was measured: of ours, of vLLM's."""


@dataclass(frozen=True)
class Row:
    """What is measured as one."""

    kind: Kind
    streams: int

    async def round(self, pair: tuple[Server, Server], number: int, tokens: int) -> Round:
        """Each asks other things. Exits where the two servers' prompts differ."""
        count = max(self.streams, LEAST_REQUESTS)
        numbers = range(number * count, (number + 1) * count)
        results: dict[str, Measured] = {}
        for server, other in random.sample([pair, pair[::-1]], 2):
            shown = server.name != "ours"
            asked = [self.kind.asks(one, tokens, shown=shown) for one in numbers]
            results[server.name] = await measure(server, other, asked, self.streams)
        ours, theirs = results["ours"], results["vllm-serve"]
        if ours.prompt_tokens != theirs.prompt_tokens:
            raise SystemExit(f"{self}: prompts differ: {ours} {theirs}")
        return ours, theirs

    async def rounds(self, pair: tuple[Server, Server], options: argparse.Namespace) -> list[Round]:
        """Of one launch."""
        numbers = range(1, options.rounds + 1)
        return [await self.round(pair, number, options.tokens) for number in numbers]

    def show(self, launches: list[list[Round]]) -> None:
        masked = "yes" if self.kind.masked else "no"
        speed = _beside(launches, lambda one: one.tokens_per_second)
        cpu = _beside(launches, lambda one: one.cpu_per_token * 1e6)
        print(f"{self.kind.api:10} {masked:7} {self.streams:7}  {speed}   {cpu}")


def _beside(launches: list[list[Round]], figure: Callable[[Measured], float]) -> str:
    """Ours, vLLM's, the ratio, and the lowest and highest launch's ratio."""
    median = statistics.median
    by_launch = [[(figure(ours), figure(theirs)) for ours, theirs in one] for one in launches]
    pairs = list(chain.from_iterable(by_launch))
    ours, theirs = (median(side) for side in zip(*pairs, strict=True))
    ratio = median(one / other for one, other in pairs)
    each = sorted(median(one / other for one, other in launch) for launch in by_launch)
    return f"{ours:6.0f} {theirs:6.0f}  {ratio:5.2f} ({each[0]:.2f}-{each[-1]:.2f})"


def compare(rows: list[Row], model: str, options: argparse.Namespace) -> None:
    """Show the table after each launch: it takes a while, and the last holds them all."""
    launches: dict[Row, list[list[Round]]] = {row: [] for row in rows}
    for number in range(options.launches):
        with servers(model) as pair:
            for kind in dict.fromkeys(row.kind for row in rows):
                asyncio.run(Row(kind, WARMING_STREAMS).round(pair, 0, options.tokens))
                for row in (row for row in rows if row.kind == kind):
                    launches[row].append(asyncio.run(row.rounds(pair, options)))
        print(f"\nlaunches: {number + 1} of {options.launches}")
        show(launches)


def show(launches: dict[Row, list[list[Round]]]) -> None:
    side = f"{'ours':>6} {'vLLM':>6}  {'ratio (launches)':17}"
    print(f"{'':26}  {'tokens/s':{len(side)}}   CPU us/token")
    print(f"{'api':10} {'masked':7} {'streams':>7}  {side}   {side}")
    for row, rounds in launches.items():
        row.show(rounds)
    sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--model", help="a checkpoint's folder; the demo's by default")
    parser.add_argument("--streams", type=int, nargs="+", default=[1, 16, 64])
    parser.add_argument("--tokens", type=int, default=160)
    parser.add_argument("--launches", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=1)
    options = parser.parse_args()
    kinds = [Kind(api, masked) for masked in (False, True) for api in ("chat", "responses")]
    rows = [Row(kind, streams) for kind in kinds for streams in options.streams]
    compare(rows, options.model or str(ensure()), options)


if __name__ == "__main__":
    main()
