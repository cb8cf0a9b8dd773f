"""A server process with an MCP server that its operator configures, for tests of clients."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from openai import OpenAI

from tests.clients.conftest import Start
from tests.forks import Fork, Forks
from tests.ports import free_port
from tests.server.tools.mcp.conftest import SERVERS, wait_for

__all__ = ["service", "start_tools"]  # fixtures

PROGRAM = """
import os, runpy
os.environ.update({environment!r})
runpy.run_path({path!r}, run_name="__main__")
"""

SECRET = "a-very-secret-token-of-the-client"
BEARER = "a-very-secret-authorization-of-the-client"
OPERATORS = "a-very-secret-token-of-the-operator"
ARGUMENTS = '{"a":1,"b":2}'
CALL = f"<|channel|>commentary to=functions.tools__add <|constrain|>json<|message|>{ARGUMENTS}"
LINES = [
    {
        "prompt_contains": "refused this tool call",
        "completion": "<|channel|>final<|message|>Then not.<|return|>",
    },
    {
        "prompt_contains": "functions.tools__add to=assistant",
        "completion": "<|channel|>final<|message|>It is 3.<|return|>",
    },
    {"completion": f"<|channel|>analysis<|message|>I add.<|end|><|start|>assistant{CALL}<|call|>"},
]


StartTools = Callable[..., str]


@pytest.fixture(scope="module")
def start_tools(forks: Forks) -> Iterator[StartTools]:
    """Starts MCP servers of the SDK: a transport and environment in, the URL out."""
    started: list[Fork] = []

    def start_tools(transport: str = "http", **environment: str) -> str:
        port = free_port()
        program = PROGRAM.format(environment=environment, path=str(SERVERS / "tools.py"))
        started.append(forks.start(transport, str(port), program=program))
        wait_for(port)
        return f"http://127.0.0.1:{port}/{'mcp' if transport == 'http' else transport}"

    yield start_tools
    for process in started:
        process.kill()


@dataclass
class Service:
    """A server, its store and its log."""

    client: OpenAI
    mcp_url: str
    store: Path
    log: Path


@pytest.fixture(scope="module")
def service(
    start: Start, start_tools: StartTools, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("mcp")
    file, url = folder / "mcp.toml", start_tools()
    headers = f'headers = {{ X-Operator = "{OPERATORS}" }}'
    file.write_text(f'[servers.tools]\nurl = "{url}"\nallow_private = true\n{headers}\n')
    log, store = folder / "log", folder / "store.db"
    options = (
        *("--hosted-tools", "mcp", "--mcp", str(file)),
        *("--store", f"sqlite:///{store}", "--log-level", "debug"),
    )
    _, base_url = start(LINES, *options, log=log)
    with OpenAI(base_url=base_url, api_key="none", max_retries=0) as client:
        yield Service(client, url, store, log)
