"""MCP servers that hang: other answers go on, and a cancelled answer ends its call."""

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest
from openai import AsyncOpenAI

from tests.clients.conftest import Serve
from tests.server.tools.mcp.conftest import SERVERS, Processes, free_port, processes

__all__ = ["processes"]  # a fixture

ANSWER = "<|channel|>final<|message|>Done.<|return|>"
LABELS = ("one", "two", "three", "four")


def call(function: str, arguments: str = "{}") -> str:
    header = f"<|channel|>commentary to=functions.{function} <|constrain|>json"
    return f"{header}<|message|>{arguments}<|call|>"


LINES = [
    {"prompt_contains": "to=assistant", "completion": ANSWER},
    {"prompt_contains": "please wait", "completion": call("four__hang")},
    *(
        {"prompt_contains": f"use {label}", "completion": call(f"{label}__add", '{"a":1}')}
        for label in LABELS
    ),
]


@pytest.fixture(scope="module")
def base_url(serve: Serve, processes: Processes, tmp_path_factory: pytest.TempPathFactory) -> str:
    file = Path(tmp_path_factory.mktemp("mcp")) / "mcp.toml"
    tables = []
    for label in LABELS:
        port = free_port()
        processes.start([sys.executable, str(SERVERS / "tools.py"), "http", str(port)], port)
        tables.append(
            f'[servers.{label}]\nurl = "http://127.0.0.1:{port}/mcp"\nallow_private = true\n'
            'require_approval = "never"\n'
        )
    file.write_text("\n".join(tables))
    return serve(LINES, "--mcp", str(file), "--tool-timeout", "mcp=20", "--max-running", "8")


def entry(label: str) -> Any:
    return {"type": "mcp", "server_label": label, "require_approval": "never"}


async def answered(client: AsyncOpenAI, label: str, text: str) -> Any:
    return await client.responses.create(model="scripted", input=text, tools=[entry(label)])


async def test_a_server_that_hangs_delays_no_other_answer(base_url: str) -> None:
    async with AsyncOpenAI(base_url=base_url, api_key="any", max_retries=0) as client:
        hanging = [asyncio.create_task(answered(client, "four", "please wait")) for _ in range(25)]
        labels = LABELS[:3] * 25
        others = await asyncio.gather(
            *(answered(client, label, f"use {label}") for label in labels)
        )
        # More answers hang than may sample at once; none of them is over.
        assert not any(task.done() for task in hanging)
        for answer in others:
            assert [item.type for item in answer.output] == [
                "mcp_list_tools",
                "mcp_call",
                "message",
            ]
            assert answer.output[1].output == "2"
        for answer in await asyncio.gather(*hanging):
            call_item = answer.output[1]
            assert call_item.status == "failed"
            assert call_item.error.type == "mcp_protocol_error"
            assert answer.output_text == "Done."


async def test_a_cancelled_answer_ends_its_call(base_url: str) -> None:
    async with AsyncOpenAI(base_url=base_url, api_key="any", max_retries=0) as client:
        stream = await client.responses.create(
            model="scripted",
            input="please wait",
            tools=[entry("four")],
            stream=True,
            background=True,
        )
        async for event in stream:
            if event.type == "response.created":
                response_id = event.response.id
            if event.type == "response.mcp_call_arguments.done":
                break
        await client.responses.cancel(response_id)
        response: Any = await client.responses.retrieve(response_id)
        while response.status == "in_progress":
            response = await client.responses.retrieve(response_id)
        assert response.status == "cancelled"
        # A call that its time limit ends is failed.
        assert response.output[-1].type == "mcp_call"
        assert response.output[-1].status == "incomplete"
