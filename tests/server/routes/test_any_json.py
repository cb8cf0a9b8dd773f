"""No JSON value in any field of a request makes the server fail."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest

from server.schemas.chat import CreateChatCompletion
from server.schemas.legacy_completions import CreateCompletion
from server.schemas.responses import CompactResponse, CreateResponse
from server.schemas.tokens import Detokenize, Tokenize
from tests.server.tools.sample_tools import Calculator, Library, Servers

SCRIPT_LINE = "<|channel|>final<|message|>Yes.<|return|>"
DEEP: Any = "bottom"
for _ in range(50):
    DEEP = {"items": [DEEP]}
ODD: tuple[Any, ...] = (
    *(None, True, -1, 1 << 63, 1.5, "", "1" * 5_000, "\0", "a b"),
    *([], [None], [[]], [{"type": []}], ["x"]),
    *({}, {"type": {}}, {"type": "x"}, {"1" * 5_000: 1}, {"\0": "\0"}, DEEP),
)

SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "string"}},
    "required": ["a"],
    "additionalProperties": False,
}
FUNCTION = {"name": "f", "description": "Does.", "parameters": SCHEMA, "strict": True}
GRAMMAR = {"type": "grammar", "syntax": "regex", "definition": "a+"}
FORM = {"name": "answer", "description": "It.", "schema": SCHEMA, "strict": True}
REASONING = {"effort": "low", "max_tokens": 100, "exclude": False, "enabled": True}
CHAT = {
    "model": "scripted",
    "messages": [
        {"role": "developer", "content": "Be kind."},
        {"role": "user", "name": "ann", "content": [{"type": "text", "text": "hi"}]},
        {
            "role": "assistant",
            "content": "So:",
            "reasoning": "",
            "reasoning_details": [{"type": "reasoning.text", "text": "Hm."}],
            "tool_calls": [
                {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}},
                {"id": "d", "type": "custom", "custom": {"name": "g", "input": "a"}},
            ],
        },
        {"role": "tool", "tool_call_id": "c", "content": [{"type": "text", "text": "1"}]},
        {"role": "assistant", "function_call": {"name": "f", "arguments": "{}"}},
        {"role": "function", "name": "f", "content": "1"},
        {"role": "user", "content": [{"type": "image_url"}, {"type": "file", "file": {}}]},
    ],
    "tools": [
        {"type": "function", "function": FUNCTION},
        {"type": "custom", "custom": {"name": "g", "format": GRAMMAR}},
    ],
    "tool_choice": {"type": "function", "function": {"name": "f"}},
    "response_format": {"type": "json_schema", "json_schema": FORM},
    "reasoning": REASONING,
    "stop": ["a"],
    "logit_bias": {"1": 1},
    "metadata": {"a": "b"},
    "stream_options": {"include_usage": True},
}
RESPONSE = {
    "model": "scripted",
    "input": [
        {"role": "user", "content": [{"type": "input_text", "text": "hi"}]},
        {"type": "reasoning", "content": [{"type": "reasoning_text", "text": "Hm."}]},
        {"role": "assistant", "phase": "commentary", "content": "So:"},
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": "1"},
        {"type": "local_shell_call", "call_id": "e", "action": {"command": ["ls"]}},
        {"type": "local_shell_call_output", "call_id": "e", "output": "1"},
        {"type": "shell_call", "call_id": "h", "action": {"commands": ["ls"]}},
        {
            "type": "shell_call_output",
            "call_id": "h",
            "output": [{"stdout": "1", "stderr": "", "outcome": {"type": "exit", "exit_code": 1}}],
        },
        {
            "type": "mcp_call",
            "id": "m",
            "name": "n",
            "server_label": "s",
            "arguments": "{}",
            "output": None,
            "error": {"code": 1},
        },
        {"type": "computer_call", "call_id": "k", "actions": [{"type": "wait"}]},
        {"type": "computer_call_output", "call_id": "k", "output": {"type": "x"}},
        {"type": "web_search_call", "id": "w"},
        {"role": "user", "content": [{"type": "input_image"}]},
    ],
    "tools": [
        {"type": "function", **FUNCTION},
        {"type": "custom", "name": "g", "format": GRAMMAR},
        {"type": "namespace", "name": "n", "tools": [{"type": "function", "name": "f"}]},
        {"type": "web_search"},
    ],
    "tool_choice": {
        "type": "allowed_tools",
        "mode": "auto",
        "tools": [{"type": "function", "name": "f"}],
    },
    "text": {"format": {"type": "json_schema", **FORM}, "verbosity": "low"},
    "reasoning": {"effort": "low", "max_tokens": 100, "summary": "auto", "context": "all_turns"},
    "include": ["reasoning.encrypted_content"],
    "metadata": {"a": "b"},
    "stop": ["a"],
    "logit_bias": {"1": 1},
}
LOCATION = {"type": "approximate", "approximate": {"city": "Dover"}}
MCP = {"server_label": "s", "name": "search", "arguments": "{}"}
HOSTED_CHAT = {
    "model": "scripted",
    "messages": [{"role": "user", "content": "hi"}],
    "tools": [{"type": "code_interpreter", "container": {"type": "auto"}}],
    "web_search_options": {"search_context_size": "low", "user_location": LOCATION},
    "plugins": [{"id": "pdf"}],
    "tool_choice": {"type": "code_interpreter"},
}
OPENROUTER_CHAT = {
    "model": "scripted",
    "messages": [{"role": "user", "content": "hi"}],
    "tools": [
        {
            "type": "openrouter:web_search",
            "parameters": {"max_results": 1, "allowed_domains": ["a.example"]},
        }
    ],
}
HOSTED_RESPONSE = {
    "model": "scripted",
    "input": [
        {
            "type": "code_interpreter_call",
            "id": "ci",
            "code": "1",
            "container_id": "cntr_1",
            "outputs": [{"type": "logs", "logs": "1"}, {"type": "image", "url": "x"}],
        },
        {"type": "mcp_list_tools", "id": "mcpl", "server_label": "s", "tools": []},
        {"type": "mcp_approval_request", "id": "mcpr", **MCP},
        {"type": "mcp_approval_response", "approval_request_id": "mcpr", "approve": True},
        {"type": "mcp_call", "id": "mcp", "approval_request_id": "mcpr", "output": "1", **MCP},
        {"role": "user", "content": "hi"},
    ],
    "tools": [
        {"type": "code_interpreter", "container": {"type": "auto"}},
        {"type": "web_search", "filters": {"allowed_domains": ["a.example"]}},
        {"type": "mcp", "server_label": "s", "allowed_tools": ["search"]},
    ],
    "tool_choice": {
        "type": "allowed_tools",
        "tools": [
            {"type": "mcp", "server_label": "s", "name": "search"},
            {"type": "code_interpreter"},
        ],
    },
    "include": ["code_interpreter_call.outputs"],
    "max_tool_calls": 1,
}
COMPLETION = {"model": "scripted", "prompt": ["a", [1, 2]], "stop": ["a"], "logit_bias": {"1": 1}}
COMPACT = {"model": "scripted", "input": RESPONSE["input"]}
REQUESTS: dict[str, tuple[str, Any, dict[str, Any]]] = {
    "chat": ("/v1/chat/completions", CreateChatCompletion, CHAT),
    "chat with hosted tools": ("/v1/chat/completions", CreateChatCompletion, HOSTED_CHAT),
    "chat with OpenRouter's": ("/v1/chat/completions", CreateChatCompletion, OPENROUTER_CHAT),
    "responses": ("/v1/responses", CreateResponse, RESPONSE),
    "responses with hosted tools": ("/v1/responses", CreateResponse, HOSTED_RESPONSE),
    "compact": ("/v1/responses/compact", CompactResponse, COMPACT),
    "completions": ("/v1/completions", CreateCompletion, COMPLETION),
    "tokenize": ("/tokenize", Tokenize, {"prompt": "a"}),
    "detokenize": ("/detokenize", Detokenize, {"tokens": [1]}),
}


SCOPE = {
    "type": "http",
    "asgi": {"version": "3.0"},
    "http_version": "1.1",
    "method": "POST",
    "scheme": "http",
    "root_path": "",
    "query_string": b"",
    "headers": [(b"host", b"test"), (b"content-type", b"application/json")],
    "server": ("test", None),
    "client": ("127.0.0.1", 123),
}


def with_each_place(value: Any, odd: Any) -> Iterator[Any]:
    """`value` with `odd` in place of one thing inside it, for each of these."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield value | {key: odd}
            for changed in with_each_place(inner, odd):
                yield value | {key: changed}
    if isinstance(value, list):
        for index, inner in enumerate(value):
            for changed in (odd, *with_each_place(inner, odd)):
                yield [*value[:index], changed, *value[index + 1 :]]


async def status_of(app: Any, path: str, body: Any) -> int:
    """The status of the answer. Without a client, which takes a third of the time."""
    received = [{"type": "http.request", "body": json.dumps(body).encode(), "more_body": False}]
    statuses: list[int] = []
    answered = asyncio.Event()

    async def receive() -> dict[str, Any]:
        if received:
            return received.pop()
        await answered.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            statuses.append(message["status"])
        elif not message.get("more_body", False):
            answered.set()

    await app.app({**SCOPE, "path": path, "raw_path": path.encode()}, receive, send)
    return statuses[0]


@pytest.mark.parametrize("name", REQUESTS)
async def test_no_json_in_any_field_is_the_servers_failure(open_app: Any, name: str) -> None:
    path, schema, base = REQUESTS[name]
    unset = {name: None for name in schema.model_fields if name not in base}
    async with open_app(SCRIPT_LINE) as app:
        app.use(Calculator(), Library(), Servers())
        assert await status_of(app, path, base) == 200
        failed = [
            body
            for odd in ODD
            for body in with_each_place(base | unset | {"stream": False}, odd)
            if await status_of(app, path, body) >= 500
        ]
    assert failed == []
