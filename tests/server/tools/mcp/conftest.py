"""MCP servers as processes, and the tool with what it needs."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest

from harmony.messages import Channel
from server.store.approvals.memory import MemoryAnsweredRequests
from server.tools.base import ToolCall, ToolContext, ToolEvent, ToolResult
from server.tools.mcp.approvals import Approvals
from server.tools.mcp.rules import NEVER
from server.tools.mcp.servers import Server
from server.tools.mcp.tool import McpTool

SERVERS = Path(__file__).parent / "servers"
OWNER = "owner"
START_SECONDS = 60.0


def seal(owner: str, text: str) -> str:
    return f"sealed-{owner}-{text}"


def unseal(owner: str, sealed: str) -> str:
    if not sealed.startswith(f"sealed-{owner}-"):
        raise ValueError("another owner")
    return sealed.removeprefix(f"sealed-{owner}-")


class BlockedAddress(Exception):
    """The address is not public."""


def guard(transport: Any, allow_private: bool) -> Any:
    """A guard for the tests' addresses, which are literal."""
    inner = transport._pool._network_backend

    class Backend:
        async def connect_tcp(self, host: str, *rest: Any, **options: Any) -> Any:
            if not allow_private and not ip_address(host).is_global:
                raise BlockedAddress(host)
            return await inner.connect_tcp(host, *rest, **options)

        async def sleep(self, seconds: float) -> None:
            await inner.sleep(seconds)

    transport._pool._network_backend = Backend()
    return transport


def new_approvals() -> Approvals:
    return Approvals(MemoryAnsweredRequests(), seal, unseal)


@pytest.fixture
def approvals() -> Approvals:
    return new_approvals()


@pytest.fixture
async def make_tool(approvals: Approvals) -> AsyncIterator[Callable[..., Any]]:
    """Starts a tool with the operator's servers."""
    started: list[McpTool] = []

    async def make(*servers: Server) -> McpTool:
        tool = McpTool({server.label: server for server in servers}, guard, approvals)
        await tool.start()
        assert tool.problem is None
        started.append(tool)
        return tool

    yield make
    for tool in started:
        await tool.stop()


def context(**changes: Any) -> ToolContext:
    given: dict[str, Any] = {"owner": OWNER, "timeout": 30.0, "stored": True, **changes}
    return ToolContext(answer_id="resp_1", param="tools.0", **given)


def call(name: str, content: str = "{}", **changes: Any) -> ToolCall:
    return ToolCall("mcp_1", f"functions.{name}", Channel.COMMENTARY, content, **changes)


async def events(session: Any, made: ToolCall) -> list[ToolEvent]:
    return [event async for event in session.run(made)]


async def result(session: Any, made: ToolCall) -> ToolResult:
    last = (await events(session, made))[-1]
    assert isinstance(last, ToolResult)
    return last


def wait_for(port: int, process: subprocess.Popen[bytes] | None = None) -> None:
    """Wait until a process accepts connections. process: that one, if its end is to be noticed."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return
        except OSError:
            assert process is None or process.poll() is None, "the server ended"
            time.sleep(0.05)
    raise TimeoutError("the server does not listen")


class Processes:
    """The servers that tests have started."""

    def __init__(self) -> None:
        self.running: list[subprocess.Popen[bytes]] = []

    def start(
        self, command: list[str], port: int, env: Mapping[str, str] | None = None
    ) -> subprocess.Popen[bytes]:
        """Start a server, and wait until it listens."""
        process = subprocess.Popen(
            command,
            env={**os.environ, **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self.running.append(process)
        wait_for(port, process)
        return process

    def serve(self, *command: str) -> int:
        """Start one of `SERVERS` on a free port. Returns the port, which it has when it listens."""
        process = subprocess.Popen(
            [sys.executable, *command, "0"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self.running.append(process)
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, "the server ended"
        return int(line)

    def stop(self) -> None:
        for process in self.running:
            process.kill()
            process.communicate()


@pytest.fixture(scope="session")
def processes() -> Iterator[Processes]:
    started = Processes()
    yield started
    started.stop()


@pytest.fixture(scope="session")
def http_url(processes: Processes) -> str:
    """The SDK's server over streamable HTTP."""
    return f"http://127.0.0.1:{processes.serve(str(SERVERS / 'tools.py'), 'http')}/mcp"


@pytest.fixture(scope="session")
def sse_url(processes: Processes) -> str:
    """The SDK's server over SSE, as old servers have it."""
    return f"http://127.0.0.1:{processes.serve(str(SERVERS / 'tools.py'), 'sse')}/sse"


@pytest.fixture(scope="module")
def program() -> tuple[str, ...]:
    """The command of the SDK's server over stdio."""
    return (sys.executable, str(SERVERS / "tools.py"), "stdio")


@pytest.fixture(scope="module")
def hostile(processes: Processes) -> Callable[[str], Server]:
    """The hostile server that misbehaves as the path says."""
    port = processes.serve(str(SERVERS / "hostile.py"))

    def at(path: str, **changes: Any) -> Server:
        given = {"allow_private": True, "approvals": (NEVER,), **changes}
        return Server("h", url=f"http://127.0.0.1:{port}{path}", **given)

    return at
