"""MCP over each transport, end to end, and `kill -9` within a call: of either server."""

import os
import select
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from openai import OpenAI

from tests.clients.conftest import Start
from tests.clients.mcp_service import StartTools, start_tools
from tests.server.tools.mcp.conftest import SERVERS

__all__ = ["start_tools"]  # a fixture

CALL = "<|channel|>commentary to=functions.tools__{} <|constrain|>json<|message|>{}<|call|>"
LINES = [
    {
        "prompt_contains": "to=assistant",
        "completion": "<|channel|>final<|message|>Done.<|return|>",
    },
    {"prompt_contains": "wait", "completion": CALL.format("hang", "{}")},
    {"prompt_contains": "stuck", "completion": CALL.format("block", "{}")},
    {"prompt_contains": "add", "completion": CALL.format("add", '{"a":1,"b":2}')},
]
TOOL: Any = {"type": "mcp", "server_label": "tools", "require_approval": "never"}
TRANSPORTS = ("http", "sse", "stdio")
WAIT_SECONDS = 60.0


def ask(client: OpenAI, text: str, **fields: Any) -> Any:
    return client.responses.create(model="scripted", input=text, tools=[TOOL], **fields)


def configure(transport: str, start_tools: StartTools, folder: Path) -> tuple[list[str], Path]:
    """A server in the operator's file: the gateway's options, and the file that a call writes."""
    file, hanging = folder / "mcp.toml", folder / "hanging"
    lines = ["[servers.tools]"]
    if transport == "stdio":
        paths = f'HANGING = "{hanging}", CHILD = "{folder / "child"}"'
        program = [sys.executable, str(SERVERS / "tools.py"), transport]
        lines += [f"command = {program}", f"env = {{ {paths} }}"]
    else:
        url = start_tools(transport, HANGING=str(hanging))
        lines += [f'url = "{url}"', "allow_private = true"]
    file.write_text("\n".join(lines))
    store = f"sqlite:///{folder / 'store.db'}"
    return ["--hosted-tools", "mcp", "--mcp", str(file), "--store", store], hanging


def wait_for_call(hanging: Path) -> int:
    """Wait until the call runs. Returns the number of the process that runs it."""
    deadline = time.monotonic() + WAIT_SECONDS
    while not hanging.exists():
        assert time.monotonic() < deadline, "the call did not begin"
        time.sleep(0.02)
    return int(hanging.read_text())


def wait_for_end(pidfd: int) -> None:
    """Wait until a process has ended."""
    ended, _, _ = select.select([pidfd], [], [], WAIT_SECONDS)
    os.close(pidfd)
    assert ended, "the process still runs"


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_killed_mcp_server_fails_its_call_alone(
    transport: str, start: Start, start_tools: StartTools, tmp_path: Path
) -> None:
    options, hanging = configure(transport, start_tools, tmp_path)
    _, url = start(LINES, *options)
    with OpenAI(base_url=url, api_key="any", max_retries=0) as client:
        added = ask(client, "add")
        assert [item.type for item in added.output] == ["mcp_list_tools", "mcp_call", "message"]
        assert added.output[1].output == "3"

        with ask(client, "wait", stream=True) as stream:
            for event in stream:
                if event.type == "response.mcp_call_arguments.done":
                    os.kill(wait_for_call(hanging), signal.SIGKILL)
                last = event
        call = last.response.output[1]
        assert (call.status, call.error.type) == ("failed", "mcp_protocol_error")
        assert last.response.status == "completed"
        assert last.response.output_text == "Done."


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_killed_gateway_leaves_a_failed_response(
    transport: str, start: Start, start_tools: StartTools, tmp_path: Path
) -> None:
    options, hanging = configure(transport, start_tools, tmp_path)
    gateway, url = start(LINES, *options)
    with OpenAI(base_url=url, api_key="any", max_retries=0) as client:
        response_id = ask(client, "wait", background=True).id
        wait_for_call(hanging)
    gateway.kill()
    gateway.wait()

    _, url = start(LINES, *options)
    with OpenAI(base_url=url, api_key="any", max_retries=0) as client:
        response = client.responses.retrieve(response_id)
        deadline = time.monotonic() + WAIT_SECONDS
        while response.status in ("queued", "in_progress") and time.monotonic() < deadline:
            response = client.responses.retrieve(response_id)
        assert response.status == "failed"
        assert response.error is not None
        assert "stopped before" in response.error.message
        # The new process calls the server again.
        assert ask(client, "add").output[1].output == "3"


@pytest.mark.parametrize("text", ["wait", "get stuck"])
@pytest.mark.skipif(sys.platform != "linux", reason="waits by pidfd")
def test_a_program_ends_with_its_killed_gateway(
    text: str, start: Start, start_tools: StartTools, tmp_path: Path
) -> None:
    options, hanging = configure("stdio", start_tools, tmp_path)
    gateway, url = start(LINES, *options)
    with OpenAI(base_url=url, api_key="any", max_retries=0) as client:
        ask(client, text, background=True)
        running = [os.pidfd_open(wait_for_call(hanging))]
    if (child := tmp_path / "child").exists():
        running.append(os.pidfd_open(int(child.read_text())))
    gateway.kill()
    gateway.wait()
    for pidfd in running:
        wait_for_end(pidfd)
