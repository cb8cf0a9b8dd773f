"""Measure answers that call MCP servers, alone and beside answers whose server hangs.

    python -m benchmarks.mcp_servers [--answers 75] [--hanging 25] [--rounds 30]

Each server is a process. In every arm, the same answers at once call three servers that work.
Before they start, the answers of the arm's fourth server have begun to wait: in `call`, for a call
that does not return; in `list`, for the list of tools. Each round runs every arm once, in a random
order.
The output has the medians over the rounds of an answer's median duration and of the gateway's
processor time for an answer, and the medians of the rounds' ratios to `alone`. A round's ratio is
between 0.5 and 1.8, so that fewer rounds say little.
"""

import argparse
import asyncio
import json
import random
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from benchmarks.library.processes import LOGS, free_port, process_seconds, running
from server.ids import new_id

WORKING = ("one", "two", "three")
ARMS = {"alone": None, "call": "hung", "list": "deaf"}
"""By arm: the server of the answers that wait."""
FINAL = "<|channel|>final<|message|>Done.<|return|>"


def call(label: str, tool: str) -> dict[str, str]:
    header = f"<|channel|>commentary to=functions.{label}__{tool} <|constrain|>json"
    return {"prompt_contains": f"use {label}", "completion": f"{header}<|message|>{{}}<|call|>"}


LINES = [
    {"prompt_contains": "to=assistant", "completion": FINAL},
    *(call(label, "work") for label in WORKING),
    call("hung", "hang"),
    {"completion": FINAL},
]


def serve(port: int) -> None:
    """Run an MCP server."""
    from mcp.server.mcpserver import MCPServer

    server = MCPServer("bench")

    @server.tool()
    async def work() -> str:
        """Return at once."""
        return "done"

    @server.tool()
    async def hang() -> str:
        """Never return."""
        await asyncio.Event().wait()
        return ""

    server.run("streamable-http", host="127.0.0.1", port=port)


# The processes


def start_server(stack: ExitStack) -> int:
    """Start an MCP server. Returns its port."""
    port = free_port()
    command = [sys.executable, "-m", "benchmarks.mcp_servers", "--serve", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    stack.callback(process.wait)
    stack.callback(process.kill)
    while process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return port
        except OSError:
            time.sleep(0.05)
    raise RuntimeError("an MCP server ended")


def start_gateway(stack: ExitStack, deaf: int) -> tuple[int, str]:
    """Start the gateway and its MCP servers. deaf: the port of `deaf`. Returns its pid and URL."""
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    ports = {**{label: start_server(stack) for label in (*WORKING, "hung")}, "deaf": deaf}
    servers = folder / "mcp.toml"
    servers.write_text(
        "".join(
            f'[servers.{label}]\nurl = "http://127.0.0.1:{port}/mcp"\nallow_private = true\n'
            for label, port in ports.items()
        )
    )
    script = folder / "script.jsonl"
    script.write_text("".join(json.dumps(line) + "\n" for line in LINES))
    port = free_port()
    command = [sys.executable, "-m", "server", "serve", "--port", str(port)]
    command += ["--backend", "scripted", "--script", str(script), "--log-level", "error"]
    command += ["--mcp", str(servers), "--hosted-tools", "mcp", "--max-running", "8"]
    url = f"http://127.0.0.1:{port}"
    process = stack.enter_context(running(command, f"{url}/health", LOGS / "mcp-servers.log"))
    return process.pid, url


# The clients


@dataclass(frozen=True)
class Result:
    """Seconds for an answer: the median duration, and the gateway's processor time."""

    duration: float
    processor: float


class Bench:
    """deaf: the connections to the server that does not answer."""

    def __init__(
        self, client: httpx.AsyncClient, pid: int, deaf: list[asyncio.StreamWriter]
    ) -> None:
        self._client = client
        self._pid = pid
        self._deaf = deaf

    async def measure(self, arm: str, answers: int, hanging: int) -> Result:
        label = ARMS[arm]
        async with self._waiting(label, hanging if label else 0):
            used = process_seconds(self._pid)
            durations = await asyncio.gather(
                *(self._answer(WORKING[index % len(WORKING)]) for index in range(answers))
            )
            used = process_seconds(self._pid) - used
        return Result(statistics.median(durations), used / answers)

    async def _answer(self, label: str) -> float:
        start = time.perf_counter()
        answer = await self._client.post("/v1/responses", json=body(label))
        kinds = [item["type"] for item in answer.json()["output"]]
        assert kinds == ["mcp_list_tools", "mcp_call", "message"], kinds
        return time.perf_counter() - start

    @asynccontextmanager
    async def _waiting(self, label: str | None, count: int) -> AsyncIterator[None]:
        """Have answers that wait for a server: for its calls, or for lists of their own."""
        async with AsyncExitStack() as stack:
            tasks = []
            for _ in range(count):
                begun = asyncio.Event()
                tasks.append(asyncio.create_task(self._wait(str(label), begun)))
                stack.callback(tasks[-1].cancel)
                if label == "hung":
                    await begun.wait()
            while label == "deaf" and len(self._deaf) < count:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            await self._idle()
            yield
            assert not any(task.done() for task in tasks), "an answer did not wait"
        await asyncio.gather(*tasks, return_exceptions=True)
        while self._deaf:
            self._deaf.pop().close()
        await self._idle()

    async def _idle(self) -> None:
        """Wait until the gateway does next to nothing."""
        used = process_seconds(self._pid)
        while True:
            await asyncio.sleep(0.2)
            earlier, used = used, process_seconds(self._pid)
            if used - earlier < 0.002:
                return

    async def _wait(self, label: str, begun: asyncio.Event) -> None:
        # A list is fetched once for all who send the same headers.
        given = {**body(label, headers={"x-answer": new_id("bench")}), "stream": True}
        async with self._client.stream("POST", "/v1/responses", json=given) as answer:
            async for line in answer.aiter_lines():
                if line == "event: response.mcp_call_arguments.done":
                    begun.set()


def body(label: str, **fields: Any) -> dict[str, Any]:
    tool = {"type": "mcp", "server_label": label, "require_approval": "never", **fields}
    return {"input": f"use {label}", "tools": [tool], "store": False}


async def rounds(pid: int, url: str, options: argparse.Namespace, port: int) -> None:
    connections: list[asyncio.StreamWriter] = []

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(writer)

    results: list[dict[str, Result]] = []
    limits = httpx.Limits(max_connections=None)
    async with (
        await asyncio.start_server(accept, "127.0.0.1", port),
        httpx.AsyncClient(base_url=url, timeout=300, limits=limits) as client,
    ):
        bench = Bench(client, pid, connections)
        await bench.measure("alone", options.answers, 0)
        for _ in range(options.rounds):
            order = random.sample(list(ARMS), len(ARMS))
            results.append(
                {arm: await bench.measure(arm, options.answers, options.hanging) for arm in order}
            )
    report(results)


def report(results: list[dict[str, Result]]) -> None:
    for arm in ARMS:
        for name in ("duration", "processor"):
            figures = [getattr(result[arm], name) for result in results]
            alone = [getattr(result["alone"], name) for result in results]
            ratios = [figure / base for figure, base in zip(figures, alone, strict=True)]
            print(
                f"{arm:6} {name:10}{statistics.median(figures) * 1000:8.1f} ms an answer"
                f"  {statistics.median(ratios):5.2f} of alone"
                f"  ({min(ratios):.2f} to {max(ratios):.2f}); shortest"
                f"{min(figures) * 1000:8.1f} ms  {min(figures) / min(alone):5.2f} of alone"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--answers", type=int, default=75)
    parser.add_argument("--hanging", type=int, default=25)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--serve", type=int, metavar="PORT", help="run an MCP server instead")
    options = parser.parse_args()
    if options.serve:
        serve(options.serve)
        return
    with ExitStack() as stack:
        port = free_port()
        pid, url = start_gateway(stack, port)
        asyncio.run(rounds(pid, url, options, port))


if __name__ == "__main__":
    main()
