"""OpenAI's agents SDK with MCP servers: those that the server calls, and those that it calls."""

from typing import Any

import pytest
from agents import (
    Agent,
    HostedMCPTool,
    MCPToolApprovalFunctionResult,
    MCPToolApprovalRequest,
    Runner,
)
from agents.mcp import MCPServerStreamableHttp

from tests.clients.agents_sdk import run_config
from tests.clients.conftest import Serve
from tests.clients.mcp_service import LINES, Service, service, start_tools

__all__ = ["service", "start_tools"]  # fixtures

FLAT = [{**line, **{key: line[key].replace("tools__add", "add") for key in line}} for line in LINES]


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize(("approve", "answer"), [(True, "It is 3."), (False, "Then not.")])
async def test_the_approval_callback(
    service: Service, approve: bool, answer: str, streamed: bool
) -> None:
    asked: list[str] = []

    def decide(request: MCPToolApprovalRequest) -> MCPToolApprovalFunctionResult:
        asked.append(request.data.name)
        return {"approve": approve} if approve else {"approve": False, "reason": "too easy"}

    tool = HostedMCPTool(
        tool_config={"type": "mcp", "server_label": "tools", "require_approval": "always"},
        on_approval_request=decide,
    )
    agent = Agent(name="Adder", tools=[tool])
    async with run_config(str(service.client.base_url), "scripted") as run:
        if streamed:
            result: Any = Runner.run_streamed(agent, "1 + 2?", run_config=run)
            async for _ in result.stream_events():
                pass
        else:
            result = await Runner.run(agent, "1 + 2?", run_config=run)
        assert result.final_output == answer
    assert asked == ["add"]


async def test_a_server_that_the_client_calls(service: Service, serve: Serve) -> None:
    async with MCPServerStreamableHttp(params={"url": service.mcp_url}) as server:
        agent = Agent(name="Adder", mcp_servers=[server])
        async with run_config(serve(FLAT), "scripted") as run:
            result = await Runner.run(agent, "1 + 2?", run_config=run)
            assert result.final_output == "It is 3."
