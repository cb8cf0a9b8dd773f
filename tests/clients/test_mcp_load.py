"""MCP servers that hang: other answers go on, and a cancelled answer ends its call."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from openai import AsyncOpenAI

from tests.clients.conftest import Serve
from tests.clients.mcp_service import StartTools, start_tools

__all__ = ["start_tools"]  # a fixture

ANSWER = "<|channel|>final<|message|>Done.<|return|>"
LABELS = ("one", "two", "three")
"""Servers that answer, while calls of the others hang: for ever, or until their time limit."""
HANGING = ("four", "limited")


def call(function: str, arguments: str = "{}") -> str:
    header = f"<|channel|>commentary to=functions.{function} <|constrain|>json"
    return f"{header}<|message|>{arguments}<|call|>"


LINES = [
    {"prompt_contains": "to=assistant", "completion": ANSWER},
    {"prompt_contains": "please wait", "completion": call("four__hang")},
    {"prompt_contains": "wait a second", "completion": call("limited__hang")},
    *(
        {"prompt_contains": f"use {label}", "completion": call(f"{label}__add", '{"a":1}')}
        for label in LABELS
    ),
]


@pytest.fixture(scope="module")
def base_url(
    serve: Serve, start_tools: StartTools, tmp_path_factory: pytest.TempPathFactory
) -> str:
    file = Path(tmp_path_factory.mktemp("mcp")) / "mcp.toml"
    answering, hanging = start_tools(), start_tools()
    tables = [
        f'[servers.{label}]\nurl = "{url}"\nallow_private = true\nrequire_approval = "never"\n'
        for labels, url in ((LABELS, answering), (HANGING, hanging))
        for label in labels
    ]
    file.write_text("\n".join([*tables, "timeout = 1.0"]))
    return serve(LINES, "--hosted-tools", "mcp", "--mcp", str(file), "--max-running", "8")


def entry(label: str) -> Any:
    return {"type": "mcp", "server_label": label, "require_approval": "never"}


async def answered(client: AsyncOpenAI, label: str, text: str) -> Any:
    return await client.responses.create(model="scripted", input=text, tools=[entry(label)])


async def test_a_server_that_hangs_delays_no_other_answer(base_url: str) -> None:
    async with AsyncOpenAI(base_url=base_url, api_key="any", max_retries=0) as client:
        hanging = [asyncio.create_task(answered(client, "four", "please wait")) for _ in range(25)]
        limited = [
            asyncio.create_task(answered(client, "limited", "wait a second")) for _ in range(15)
        ]
        labels = LABELS * 10
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
        # Nor do they delay those whose calls hung until their time limit.
        for answer in await asyncio.gather(*limited):
            call_item = answer.output[1]
            assert call_item.status == "failed"
            assert call_item.error.type == "mcp_protocol_error"
            assert "more than 1 seconds" in call_item.error.message
            assert answer.output_text == "Done."
        assert not any(task.done() for task in hanging)
        for task in hanging:
            task.cancel()
        await asyncio.wait(hanging)


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
