import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import pytest

from harmony.tokenizer import decode, encode_with_control
from server.app import create_app
from server.commands.inspect import parse_file, render_file
from server.errors import APIError
from server.settings import Settings

ANSWER = "<|channel|>final<|message|>Hello<|return|>"
CHAT = {"model": "m", "messages": [{"role": "user", "content": "Hi <|end|>"}]}
RESPONSES = {
    "model": "m",
    "input": [{"role": "user", "content": "Hi"}],
    "instructions": "Be brief.",
    "tools": [{"type": "function", "name": "f", "parameters": {"type": "object"}}],
    "reasoning": {"effort": "high"},
}


@pytest.mark.parametrize(
    ("path", "body"), [("/v1/chat/completions", CHAT), ("/v1/responses", RESPONSES)]
)
async def test_a_request_is_rendered_as_the_server_renders_it(
    start_engine: Callable[..., Awaitable[Any]], path: str, body: dict[str, Any]
) -> None:
    engine = await start_engine(ANSWER)
    settings = Settings(backend="scripted", script="unused", served_model_name=("m",))
    transport = httpx.ASGITransport(create_app(settings, engine))
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
        assert (await client.post(path, json=body)).status_code == 200
    (request,) = engine.requests
    rendered = json.loads(await asyncio.to_thread(render_file, json.dumps(body)))
    assert tuple(rendered["token_ids"]) == request.prompt_token_ids
    assert rendered["text"] == decode(request.prompt_token_ids)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "could not parse the JSON"),
        ("[]", "expected an object"),
        ('{"model": "m"}', "has no input"),
        ('{"messages": 1, "model": "m"}', "messages"),
        ('{"input": "a", "model": "m", "previous_response_id": "resp_1"}', "resp_1"),
    ],
)
def test_what_the_server_would_refuse_is_refused(text: str, reason: str) -> None:
    with pytest.raises(APIError, match=reason):
        render_file(text)


COMPLETION = (
    "<|channel|>analysis<|message|>Think.<|end|><|start|>assistant<|channel|>commentary"
    ' to=functions.f <|constrain|>json<|message|>{"a":1}<|call|>'
)
MESSAGES = [
    {
        "channel": "analysis",
        "recipient": None,
        "content_type": None,
        "content": "Think.",
        "complete": True,
        "repairs": [],
    },
    {
        "channel": "commentary",
        "recipient": "functions.f",
        "content_type": "json",
        "content": '{"a":1}',
        "complete": True,
        "repairs": [],
    },
]


@pytest.mark.parametrize(
    "text", [COMPLETION, f"{COMPLETION}\n", json.dumps(encode_with_control(COMPLETION))]
)
def test_a_completion_is_shown_as_its_messages(text: str) -> None:
    assert json.loads(parse_file(text)) == MESSAGES


@pytest.mark.parametrize("body", ["12", '{"a": 1}', "[1, true]", '["a"]', "[]x", "[1.0]"], ids=repr)
def test_json_that_is_no_list_of_ids_is_harmony_text(body: str) -> None:
    (message,) = json.loads(parse_file(f"{body}<|return|>"))
    assert message["content"] == body


def test_brackets_that_nest_too_deep_for_json_are_harmony_text() -> None:
    (message,) = json.loads(parse_file("[" * 100_000))
    assert message["content"] == "[" * 100_000


def test_text_without_a_header_is_a_message_too() -> None:
    (message,) = json.loads(parse_file('{"a": 1}'))
    assert message["content"] == '{"a": 1}'


def test_repairs_are_named() -> None:
    (message,) = json.loads(parse_file("<|channel|>finally<|message|>Hi<|return|>"))
    assert (message["content"], message["repairs"]) == ("Hi", ["unknown_channel"])


def test_what_was_cut_off_is_not_complete() -> None:
    (message,) = json.loads(parse_file("<|channel|>final<|message|>Hel"))
    assert (message["content"], message["complete"]) == ("Hel", False)
