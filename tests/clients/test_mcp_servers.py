"""The tool `mcp` with the reference servers from npm, over each transport."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from server.tools.mcp.servers import Server
from server.tools.mcp.tool import McpTool
from tests.ports import free_port
from tests.server.tools.mcp.conftest import (
    Processes,
    call,
    context,
    guard,
    new_approvals,
    processes,
    result,
)

__all__ = ["processes"]  # a fixture

Install = Callable[[str], Path]
ENTRY = {"type": "mcp", "server_label": "s", "require_approval": "never"}


@pytest.fixture
def programs(install: Install) -> Path:
    """The folder of the servers' programs."""
    return install("mcp_servers") / "node_modules" / ".bin"


def start(processes: Processes, command: list[str], port: int, path: str, **env: str) -> Server:
    processes.start(command, port, {"PORT": str(port), **env})
    return Server("s", url=f"http://127.0.0.1:{port}/{path}", allow_private=True)


def behind_http(processes: Processes, programs: Path, *command: str, **env: str) -> Server:
    """A server that has only stdio, behind a program that serves it over streamable HTTP."""
    port = free_port()
    gateway = [str(programs / "supergateway"), "--outputTransport", "streamableHttp", "--stateful"]
    options = ["--port", str(port), "--stdio", " ".join(command)]
    return start(processes, [*gateway, *options], port, "mcp", **env)


async def called(server: Server, name: str, arguments: dict[str, Any]) -> str:
    """The result of one call, in a tool of its own."""
    tool = McpTool({"s": server}, guard, new_approvals())
    await tool.start()
    try:
        session = await tool.open(ENTRY, context())
        assert "error" not in session.declaration.opening[0]
        answer = await result(session, call(f"s__{name}", json.dumps(arguments)))
        await session.close()
        assert not answer.failed, answer.text
        return answer.text
    finally:
        await tool.stop()


@pytest.mark.parametrize(
    ("transport", "path"), [("streamableHttp", "mcp"), ("sse", "sse"), ("stdio", "")]
)
async def test_everything(transport: str, path: str, programs: Path, processes: Processes) -> None:
    command = [str(programs / "mcp-server-everything"), transport]
    if transport == "stdio":
        server = Server("s", command=tuple(command))
    else:
        server = start(processes, command, free_port(), path)

    assert await called(server, "echo", {"message": "hello"}) == "Echo: hello"
    assert "42" in await called(server, "get-sum", {"a": 40, "b": 2})
    steps = {"duration": 0.2, "steps": 2}
    assert "2" in await called(server, "trigger-long-running-operation", steps)
    assert "image of type image/png" in await called(server, "get-tiny-image", {})


async def test_filesystem(programs: Path, processes: Processes, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("inside")
    command = (str(programs / "mcp-server-filesystem"), str(tmp_path))
    http = behind_http(processes, programs, *command)

    for server in (http, Server("s", command=command)):
        text = await called(server, "read_text_file", {"path": str(tmp_path / "a.txt")})
        assert "inside" in text


async def test_memory(programs: Path, processes: Processes, tmp_path: Path) -> None:
    # By default its file is beside the program, and outlives the test.
    file = str(tmp_path / "memory.jsonl")
    program = str(programs / "mcp-server-memory")
    server = behind_http(processes, programs, program, MEMORY_FILE_PATH=file)
    entity = {"name": "Ada", "entityType": "person", "observations": ["wrote programs"]}

    assert "Ada" in await called(server, "create_entities", {"entities": [entity]})
