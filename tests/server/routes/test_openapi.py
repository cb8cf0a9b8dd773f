"""`/openapi.json` and `/docs`, and that the server's real answers are as the document says."""

import asyncio
import json
import re
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import httpx
import jsonschema
import pytest

from server.openapi.document_bytes import Description, File
from server.openapi.examples import MODEL, REQUESTS
from server.openapi.operations import OPERATIONS
from server.openapi.page import POLICY
from server.responses.websocket import SteeringRefused, error_message
from server.store.errors import PreviousNotFound
from tests.sampled import call, final
from tests.server.openapi_document import DOCUMENT
from tests.server.tools import hosted
from tests.server.tools.sample_tools import Calculator, Library, Servers

SCHEMAS = DOCUMENT["components"]["schemas"]
OPEN = {"EchoedHostedTool", "MediaPart", "OtherItemParam", "OtherTool", "StoredMessage"}
"""What has fields that the document does not name."""

PATHS = DOCUMENT["paths"]
ANSWER = (
    "<|channel|>analysis<|message|>Greet.<|end|>"
    "<|start|>assistant<|channel|>final<|message|>Hello!<|return|>"
)
CALLS = (
    "<|channel|>analysis<|message|>Ask f.<|end|>"
    "<|start|>assistant<|channel|>commentary<|message|>Looking it up.<|end|>"
    "<|start|>assistant<|channel|>commentary to=functions.f <|constrain|>json"
    '<|message|>{"a": 1}<|call|>'
)
CUSTOM = "<|channel|>commentary to=functions.c <|message|>free text<|call|>"
FAILING = {"prompt_contains": "no prompt has this", "completion": ANSWER}
FUNCTION = {"name": "f", "parameters": {"type": "object"}}
TOOLS = [{"type": "function", **FUNCTION}, {"type": "custom", "name": "c"}]
CHAT_TOOLS = [{"type": "function", "function": FUNCTION}, {"type": "file_search"}]
NESTED_TOOLS = [*CHAT_TOOLS, {"type": "custom", "custom": {"name": "c"}}]
NESTED_CHOICE = {"type": "allowed_tools", "allowed_tools": {"tools": NESTED_TOOLS}}
NESTED_SCHEMA = {"name": "s", "schema": {"type": "object"}}
LOGPROBS = {"logprobs": True, "top_logprobs": 2}
RESPONSES, CHAT, LEGACY = "/v1/responses", "/v1/chat/completions", "/v1/completions"
SAYS = [{"role": "user", "content": "Hi"}]
LIST = {"id": "mcpl_1", "type": "mcp_list_tools", "server_label": "srv"}
ADD = {"name": "add", "description": None, "input_schema": {"type": "object"}, "annotations": None}
LISTING = replace(hosted.REMOTE, opening=({**LIST, "tools": [ADD]},))
UNLISTED = replace(hosted.REMOTE, opening=({**LIST, "tools": [], "error": "it is away"},))


def closed(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    """The schema of an object, without other fields than those that it names."""
    if name in OPEN or "properties" not in schema or schema.get("additionalProperties"):
        return schema
    return {**schema, "additionalProperties": False}


COMPONENTS = {"schemas": {name: closed(name, schema) for name, schema in SCHEMAS.items()}}


def check(schema: dict[str, Any], value: Any) -> None:
    """Raises ValidationError for a value that is not as the document says, or says more."""
    jsonschema.Draft202012Validator({**schema, "components": COMPONENTS}).validate(value)


def described(response: httpx.Response) -> dict[str, Any]:
    """What the document says about this answer's content."""
    request = response.request
    for path, item in PATHS.items():
        # One that is spelled out comes before one with parameters.
        if re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", path), request.url.path):
            operation = item[request.method.lower()]
            answer = operation["responses"][str(response.status_code)]
            if "$ref" in answer:
                answer = openapi_response(answer["$ref"])
            assert all(header in response.headers for header in answer["headers"])
            kind = response.headers["content-type"].split(";")[0]
            schema: dict[str, Any] = answer["content"][kind]["schema"]
            return schema
    raise AssertionError(request.url.path)


def openapi_response(ref: str) -> dict[str, Any]:
    response: dict[str, Any] = DOCUMENT["components"]["responses"][ref.rpartition("/")[2]]
    return response


def checked(response: httpx.Response) -> Any:
    """The answer's JSON, or the events of its stream; each as the document says."""
    schema = described(response)
    if not response.headers["content-type"].startswith("text/event-stream"):
        check(schema, response.json())
        return response.json()
    *data, done = re.findall(r"^data: (.*)$", response.text, re.MULTILINE)
    assert done == "[DONE]"
    events = [json.loads(each) for each in data]
    for event in events:
        check(schema, event)
    return events


# The document and the page


async def test_the_document_is_served_without_a_key(open_app: Any) -> None:
    async with open_app(api_key=("secret",)) as app:
        answer = await app.client.get("/openapi.json")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    assert answer.json() == DOCUMENT


async def test_the_page_is_served_without_a_key_under_a_strict_policy(open_app: Any) -> None:
    async with open_app(api_key=("secret",)) as app:
        answer = await app.client.get("/docs")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.headers["content-security-policy"] == POLICY
    assert answer.text.startswith("<!doctype html>")


@pytest.mark.parametrize("path", ["/openapi.json", "/docs"])
async def test_head_has_the_headers_of_get(open_app: Any, path: str) -> None:
    async with open_app() as app:
        answers = [await app.client.request(method, path) for method in ("GET", "HEAD")]
    headers = [
        {name: value for name, value in answer.headers.items() if name != "x-request-id"}
        for answer in answers
    ]
    assert headers[0] == headers[1]
    assert headers[0]["cache-control"] == "no-cache"


@pytest.mark.parametrize("path", ["/openapi.json", "/docs"])
@pytest.mark.parametrize("form", ["{}", "W/{}", '"other", {}', "*"])
async def test_a_client_that_has_it_gets_a_304(open_app: Any, path: str, form: str) -> None:
    async with open_app() as app:
        etag = (await app.client.get(path)).headers["etag"]
        headers = {"if-none-match": form.replace("{}", etag)}
        again = await app.client.get(path, headers=headers)
        other = await app.client.get(path, headers={"if-none-match": '"other"'})
    assert (again.status_code, again.content) == (304, b"")
    assert again.headers["etag"] == etag
    assert other.status_code == 200


async def test_it_is_made_once_and_off_the_event_loop(
    open_app: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[int] = []
    failures = [MemoryError()]

    def make() -> Description:
        threads.append(threading.get_ident())
        if failures:
            raise failures.pop()
        return Description(File(b"{}", '"a"'), File(b"", '"b"'))

    monkeypatch.setattr("server.routes.openapi.describe", make)
    async with open_app(ANSWER) as app:
        assert (await app.client.get("/openapi.json")).status_code == 500
        answers = await asyncio.gather(*(app.client.get("/openapi.json") for _ in range(3)))
    assert [each.content for each in answers] == [b"{}"] * 3
    assert len(threads) == 2
    assert threading.get_ident() not in threads


# Its examples are requests that the server takes


@pytest.mark.parametrize(
    ("path", "body"),
    [
        pytest.param(each.path, body, id=f"{each.name}-{name}")
        for each in OPERATIONS
        for name, body in REQUESTS.get(each.name, {}).items()
        if "{" not in each.path
    ],
)
async def test_an_example_is_served(open_app: Any, path: str, body: dict[str, Any]) -> None:
    async with open_app(ANSWER, served_model_name=(MODEL,)) as app:
        app.use(Calculator(), Library(), Servers())
        answer = await app.post(path, body)
        assert answer.status_code == 200, answer.text
        checked(answer)


# Real answers


@asynccontextmanager
async def served(open_app: Any, *lines: Any, **settings: Any) -> AsyncIterator[Any]:
    async with open_app(*lines, served_model_name=("m",), **settings) as app:
        yield app


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("line", "body"),
    [
        (ANSWER, {}),
        (ANSWER, {"include": ["message.output_text.logprobs"], "top_logprobs": 2}),
        (ANSWER, {"include": ["reasoning.encrypted_content"], "return_token_ids": True}),
        (ANSWER, {"include": ["gpt_oss:record"], "top_logprobs": 2}),
        (ANSWER, {"max_output_tokens": 4, "user": "u", "metadata": {"a": "b"}}),
        (ANSWER, {"instructions": "x", "service_tier": "flex", "store": False}),
        (ANSWER, {"reasoning": {"effort": "high", "summary": "auto", "context": "all_turns"}}),
        (ANSWER, {"reasoning": {"max_tokens": 50}}),
        (ANSWER, {"tools": [{"type": "file_search"}]}),
        (CALLS, {"tools": TOOLS, "tool_choice": {"type": "function", "name": "f"}}),
        (CUSTOM, {"tools": TOOLS}),
        (ANSWER, {"tools": NESTED_TOOLS, "tool_choice": NESTED_CHOICE}),
        (ANSWER, {"text": {"format": {"type": "json_schema", "json_schema": NESTED_SCHEMA}}}),
    ],
)
async def test_responses(open_app: Any, line: Any, body: Any, stream: bool) -> None:
    async with served(open_app, line) as app:
        checked(await app.post(RESPONSES, {"input": "Hi", "stream": stream, **body}))


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("text", ["1", "fail", "file", "crash"])
@pytest.mark.parametrize(
    ("tool", "declaration", "include"),
    [
        ({"type": "code_interpreter"}, hosted.PYTHON, "code_interpreter_call.outputs"),
        ({"type": "web_search"}, hosted.SEARCH, "web_search_call.action.sources"),
        ({"type": "mcp", "server_label": "srv"}, hosted.REMOTE, "gpt_oss:record"),
        ({"type": "mcp", "server_label": "srv"}, LISTING, "gpt_oss:record"),
        ({"type": "mcp", "server_label": "srv"}, UNLISTED, "gpt_oss:record"),
    ],
)
async def test_responses_with_hosted_calls(
    open_app: Any, tool: Any, declaration: Any, include: str, text: str, stream: bool
) -> None:
    sampled = call(text, declaration.calls[0].recipient)
    after = {"prompt_contains": f"{sampled}<|start|>", "completion": final()}
    body = {"input": "Hi", "tools": [tool], "include": [include], "stream": stream}
    async with served(open_app, after, sampled) as app:
        app.use(hosted.Tool(declaration))
        made = checked(await app.post(RESPONSES, body))
    kinds = [item["type"] for item in (made[-1]["response"] if stream else made)["output"]]
    assert kinds == [*(each["type"] for each in declaration.opening), declaration.item, "message"]


async def test_a_response_with_hidden_reasoning(open_app: Any) -> None:
    async with served(open_app, ANSWER, ANSWER, raw_reasoning="hide") as app:
        for stream in (False, True):
            checked(await app.post(RESPONSES, {"input": "Hi", "stream": stream}))


async def test_a_response_that_fails(open_app: Any) -> None:
    async with served(open_app, FAILING) as app:
        events = checked(await app.post(RESPONSES, {"input": "Hi", "stream": True}))
        checked(await app.post(RESPONSES, {"input": "Hi"}))
    assert [event["type"] for event in events[-2:]] == ["error", "response.failed"]


async def test_stored_responses(open_app: Any) -> None:
    async with served(open_app, CALLS, ANSWER) as app:
        first = checked(await app.post(RESPONSES, {"input": "Hi", "tools": TOOLS[:1]}))
        call = first["output"][-1]
        output = {"type": "function_call_output", "call_id": call["call_id"], "output": "1"}
        body = {"input": [output], "previous_response_id": first["id"], "tools": TOOLS[:1]}
        second = checked(await app.post(RESPONSES, body))
        path = f"{RESPONSES}/{second['id']}"
        checked(await app.client.get(path))
        checked(await app.client.get(path, params={"stream": "true"}))
        listed = checked(await app.client.get(f"{path}/input_items"))
        assert len(listed["data"]) == 5
        checked(await app.client.delete(path))
        checked(await app.client.get(path))


async def test_a_background_response(open_app: Any) -> None:
    endless = {"completion": f"<|channel|>final<|message|>{'more ' * 500}", "delay_ms": 5}
    async with served(open_app, endless) as app:
        queued = checked(await app.post(RESPONSES, {"input": "Hi", "background": True}))
        await app.backend.until_running(1)
        path = f"{RESPONSES}/{queued['id']}"
        checked(await app.client.get(path))
        ended = checked(await app.client.post(f"{path}/cancel"))
        events = checked(await app.client.get(path, params={"stream": "true"}))
    assert ended["status"] == "cancelled"
    assert "response.queued" in {event["type"] for event in events}


async def test_what_is_beside_responses(open_app: Any) -> None:
    async with served(open_app) as app:
        checked(await app.post(f"{RESPONSES}/input_tokens", {"input": "Hi"}))
        checked(await app.post(f"{RESPONSES}/render", {"input": "Hi"}))


async def test_a_compacted_conversation(open_app: Any) -> None:
    async with served(open_app, ANSWER, ANSWER) as app:
        made = checked(await app.post(f"{RESPONSES}/compact", {"model": "m", "input": "Hi"}))
        body = {"input": [*made["output"], *SAYS]}
        answer = checked(await app.post(RESPONSES, body))
        listed = checked(await app.client.get(f"{RESPONSES}/{answer['id']}/input_items"))
    assert "compaction" in {item["type"] for item in listed["data"]}


async def test_conversations(open_app: Any) -> None:
    async with served(open_app, ANSWER) as app:
        made = checked(await app.post("/v1/conversations", {"metadata": {"a": "b"}}))
        path = f"/v1/conversations/{made['id']}"
        parts = [{"type": "input_text", "text": "Hi"}, {"type": "input_image"}]
        items = [
            {"role": "user", "content": "Hi"},
            {"role": "user", "content": parts},
            {"type": "web_search_call", "status": "completed", "query": "x"},
        ]
        checked(await app.post(f"{path}/items", {"items": items}))
        answer = checked(await app.post(RESPONSES, {"input": "Hi", "conversation": made["id"]}))
        assert answer["conversation"] == {"id": made["id"]}
        listed = checked(await app.client.get(f"{path}/items"))
        item = f"{path}/items/{listed['data'][0]['id']}"
        checked(await app.client.get(item))
        checked(await app.client.delete(item))
        checked(await app.client.get(path))
        checked(await app.post(path, {"metadata": {}}))
        checked(await app.client.delete(path))


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("line", "body"),
    [
        (ANSWER, {"return_token_ids": True, **LOGPROBS}),
        (ANSWER, {"n": 2, "stream_options": {"include_usage": True}}),
        (ANSWER, {"include": ["reasoning.encrypted_content"], "service_tier": "priority"}),
        (ANSWER, {"max_tokens": 4}),
        (ANSWER, {"response_format": {"type": "json_object"}}),
        (CALLS, {"tools": CHAT_TOOLS}),
        (CALLS, {"functions": [FUNCTION]}),
        (CUSTOM, {"tools": [{"type": "custom", "custom": {"name": "c"}}]}),
    ],
)
async def test_chat_completions(open_app: Any, line: Any, body: Any, stream: bool) -> None:
    async with served(open_app, line, line, reasoning_content=True) as app:
        checked(await app.post(CHAT, {"model": "m", "messages": SAYS, "stream": stream, **body}))


async def test_a_chat_completion_that_fails(open_app: Any) -> None:
    body = {"model": "m", "messages": SAYS}
    async with served(open_app, FAILING) as app:
        events = checked(await app.post(CHAT, {**body, "stream": True}))
        checked(await app.post(CHAT, body))
    assert "error" in events[-1]


async def test_stored_chat_completions(open_app: Any) -> None:
    asked = {"temperature": 0.5, "seed": 1, "user": "u", "metadata": {"a": "b"}, "top_p": 0.5}
    parts = [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}]
    body = {"model": "m", "store": True, "tools": CHAT_TOOLS[:1], "tool_choice": "auto", **asked}
    async with served(open_app, CALLS) as app:
        made = checked(await app.post(CHAT, {**body, "messages": [*SAYS, *parts]}))
        path = f"{CHAT}/{made['id']}"
        for listing in (CHAT, f"{path}/messages"):
            assert checked(await app.client.get(listing))["data"]
        stored = checked(await app.client.get(path))
        assert set(asked) - {"user"} <= set(stored)
        checked(await app.post(path, {"metadata": {}}))
        checked(await app.client.delete(path))


async def test_what_is_beside_chat_completions(open_app: Any) -> None:
    async with served(open_app) as app:
        checked(await app.post(f"{CHAT}/render", {"model": "m", "messages": SAYS}))
        ids = checked(await app.post("/tokenize", {"prompt": "Hi", "return_token_strs": True}))
        checked(await app.post("/tokenize", {"prompt": "Hi"}))
        checked(await app.post("/detokenize", {"tokens": ids["tokens"]}))


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    "body",
    [
        {"logprobs": 2, "return_token_ids": True},
        {"n": 2, "best_of": 2, "stream_options": {"include_usage": True}},
    ],
)
async def test_legacy_completions(open_app: Any, body: Any, stream: bool) -> None:
    async with served(open_app, ANSWER, ANSWER) as app:
        asked = {"model": "m", "prompt": "Hi", "stream": stream, **body}
        checked(await app.post(LEGACY, asked))


async def test_the_server(open_app: Any) -> None:
    async with served(open_app) as app:
        for path in ("/v1/models", "/v1/models/m", "/health", "/ready", "/version", "/docs"):
            answer = await app.client.get(path)
            if path != "/docs":
                checked(answer)
        app.app.state.context.draining.set()
        answer = await app.client.get("/ready")
        assert answer.status_code == 503
        checked(answer)


@pytest.mark.parametrize(
    ("status", "method", "path", "options"),
    [
        (400, "POST", RESPONSES, {"json": {"input": 1}}),
        (400, "GET", CHAT, {"params": {"limit": "0"}}),
        (401, "GET", "/v1/models", {"headers": {"authorization": "Bearer x"}}),
        (403, "POST", RESPONSES, {"headers": {"origin": "http://other.example"}}),
        (404, "GET", f"{RESPONSES}/resp_x", {}),
        (404, "POST", CHAT, {"json": {"model": "x", "messages": SAYS}}),
        (413, "POST", RESPONSES, {"content": b" " * 2000}),
        (415, "POST", RESPONSES, {"headers": {"content-encoding": "br"}, "content": b"x"}),
    ],
)
async def test_errors(open_app: Any, status: int, method: str, path: str, options: Any) -> None:
    async with served(open_app, api_key=("secret",), max_body_bytes=1000) as app:
        headers = {"authorization": "Bearer secret", **options.pop("headers", {})}
        answer = await app.client.request(method, path, headers=headers, **options)
        assert answer.status_code == status, answer.text
        checked(answer)


def test_the_error_of_a_websocket() -> None:
    check({"$ref": "#/components/schemas/SocketError"}, error_message(PreviousNotFound("resp_1")))
    check(
        {"$ref": "#/components/schemas/SteerFailed"}, error_message(SteeringRefused("resp_1", ""))
    )
