"""An MCP server of the SDK: `python tools.py stdio`, or `python tools.py http|sse PORT`.

Over HTTP it prints the port once it listens; PORT may be 0.
"""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Annotated

import uvicorn
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.utilities.types import Image
from mcp_types import (
    ElicitRequest,
    ElicitRequestFormParams,
    InputRequiredResult,
    ToolAnnotations,
)
from pydantic import BaseModel, Field

server = MCPServer("tools")
calls = 0


class Place(BaseModel):
    city: str
    country: str | None = None


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def add(a: int, b: Annotated[int, Field(description="The second number")] = 1) -> int:
    """Add two numbers."""
    global calls
    calls += 1
    return a + b


@server.tool()
def count() -> str:
    """How many times `add` ran."""
    return str(calls)


@server.tool()
def weather(place: Place, unit: str | None = None) -> str:
    """The weather of a place."""
    return f"Sunny in {place.city}"


@server.tool()
def fail() -> str:
    """Fail."""
    raise ValueError("it did not work")


@server.tool()
def picture() -> Image:
    """A picture."""
    return Image(data=b"\x89PNG" * 10, format="png")


@server.tool()
def secret() -> str:
    """The environment variable TOKEN."""
    return f"the token is {os.environ.get('TOKEN')}"


@server.tool()
async def freeze(seconds: float = 3600) -> str:
    """Keep the server from all other work."""
    time.sleep(seconds)  # noqa: ASYNC251
    return "done"


@server.tool()
async def slow(steps: int, context: Context) -> str:
    """Report progress, then return."""
    for step in range(steps):
        await context.report_progress(step, steps)
        await asyncio.sleep(0.01)
    return "done"


def _write_process(path: Path, pid: int) -> None:
    partial = path.with_suffix(".partial")
    partial.write_text(str(pid))
    partial.rename(path)


def _wait_for_child() -> None:
    with subprocess.Popen(["sleep", "3600"], start_new_session=True) as child:
        _write_process(Path(os.environ["CHILD"]), child.pid)
        _write_process(Path(os.environ["HANGING"]), os.getpid())


@server.tool()
async def hang() -> str:
    """Never return. The file HANGING, where it is given, gets the process's number."""
    if path := os.environ.get("HANGING"):
        _write_process(Path(path), os.getpid())
    await asyncio.sleep(3600)
    return "late"


@server.tool()
async def block() -> str:
    """Block the process, which ignores a termination, beside a process that it has started.

    The file HANGING gets the process's number, and CHILD that of the other one.
    """
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    _wait_for_child()
    return "late"


@server.tool()
def region(name: Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})]) -> str:
    """A tool of whose argument the client has to repeat a value in a header."""
    return f"in {name}"


@server.tool()
async def prepare(rounds: int, context: Context) -> InputRequiredResult | str:
    """Return once the client has sent the call again so many times with the state that it got."""
    state = int(context.request_state or 0)
    return (
        f"after {state}" if state == rounds else InputRequiredResult(request_state=f"{state + 1}")
    )


@server.tool()
async def ask() -> InputRequiredResult:
    """Ask for input, which the client has not offered to give."""
    schema = {"type": "object", "properties": {}}
    question = ElicitRequestFormParams(message="Who are you?", requested_schema=schema)
    return InputRequiredResult(input_requests={"name": ElicitRequest(params=question)})


@server.tool()
def process() -> int:
    """The number of the server's process."""
    return os.getpid()


@server.tool()
def die() -> str:
    """End the process."""
    os._exit(1)


if sys.argv[1] == "stdio":
    server.run("stdio")
else:
    app = server.streamable_http_app() if sys.argv[1] == "http" else server.sse_app()
    listener = socket.create_server(("127.0.0.1", int(sys.argv[2])))
    print(listener.getsockname()[1], flush=True)  # noqa: T201
    uvicorn.Server(uvicorn.Config(app)).run([listener])
