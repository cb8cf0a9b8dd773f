"""Vercel's AI SDK with its provider tool `mcp`, which the server runs."""

from typing import Any

import pytest

from tests.clients.conftest import RunScript
from tests.clients.mcp_service import ARGUMENTS, Service, service, start_tools

__all__ = ["service", "start_tools"]  # fixtures


@pytest.fixture(scope="module")
def results(run_script: RunScript, service: Service) -> Any:
    return run_script("mcp.mjs", str(service.client.base_url), "scripted", service.mcp_url)


@pytest.mark.parametrize("answer", ["whole", "streamed"])
@pytest.mark.parametrize(("policy", "asked"), [("free", 0), ("approved", 1)])
def test_the_ai_sdk_reads_a_call(results: Any, answer: str, policy: str, asked: int) -> None:
    result = {"type": "call", "serverLabel": "tools", "name": "add", "arguments": ARGUMENTS}
    assert results[answer][policy] == {
        "text": "It is 3.",
        "asked": asked,
        "results": [{**result, "output": "3"}],
    }
