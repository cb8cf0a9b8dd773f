"""A server process with an MCP server that its operator configures, for tests of clients."""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from openai import OpenAI

from tests.clients.conftest import Start
from tests.server.tools.mcp.conftest import SERVERS, Processes, free_port, processes

__all__ = ["processes", "service"]  # fixtures

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


@dataclass
class Service:
    """A server, its store and its log."""

    client: OpenAI
    mcp_url: str
    store: Path
    log: Path


@pytest.fixture(scope="module")
def service(
    start: Start, processes: Processes, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("mcp")
    port = free_port()
    processes.start([sys.executable, str(SERVERS / "tools.py"), "http", str(port)], port)
    file = folder / "mcp.toml"
    url = f"http://127.0.0.1:{port}/mcp"
    headers = f'headers = {{ X-Operator = "{OPERATORS}" }}'
    file.write_text(f'[servers.tools]\nurl = "{url}"\nallow_private = true\n{headers}\n')
    log, store = folder / "log", folder / "store.db"
    with open(log, "wb") as stderr:
        options = ("--mcp", str(file), "--store", f"sqlite:///{store}", "--log-level", "debug")
        _, base_url = start(LINES, *options, stderr=stderr)
        with OpenAI(base_url=base_url, api_key="none", max_retries=0) as client:
            yield Service(client, url, store, log)
