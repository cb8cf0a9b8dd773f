"""`reasoning.encrypted` details: stateless Chat clients send the reasoning back sealed."""

import json
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest
from openai.types.chat import ChatCompletionChunk

from server.outbound.chat.fold import fold
from tests.server.routes.conftest import expanding_seal

PATH = "/v1/chat/completions"
START = "<|start|>assistant"
REASONING = "<|channel|>analysis<|message|>A secret plan.<|end|>"
COMPLETION = (
    f"{REASONING}{START}<|channel|>commentary<|message|>Looking.<|end|>"
    f"{START}<|channel|>analysis<|message|>More.<|end|>"
    f"{START}<|channel|>commentary to=functions.f <|constrain|>json"
    '<|message|>{"a": 1}<|call|>'
)
ANSWER = f"{REASONING}{START}<|channel|>final<|message|>Done.<|return|>"
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
HI = {"role": "user", "content": "hi"}
INCLUDE = ["reasoning.encrypted_content"]

OpenApp = Callable[..., AbstractAsyncContextManager[Any]]


def request(*messages: Any, **fields: Any) -> dict[str, Any]:
    """A stateless request: the server may not store the reasoning before calls."""
    fields_of_request = {
        "model": "scripted",
        "messages": [HI, *messages],
        "tools": [TOOL],
        "store": False,
    }
    return fields_of_request | fields


async def ask(app: Any, *messages: Any, headers: Any = None, **fields: Any) -> dict[str, Any]:
    answer = await app.post(PATH, request(*messages, **fields), headers=headers)
    assert answer.status_code == 200, answer.text
    message: dict[str, Any] = answer.json()["choices"][0]["message"]
    return message


def result_of(message: dict[str, Any]) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": message["tool_calls"][0]["id"], "content": "1"}


def kinds(message: dict[str, Any]) -> list[tuple[str, int]]:
    return [(each["type"], each["index"]) for each in message.get("reasoning_details", ())]


@pytest.mark.parametrize(
    ("settings", "fields", "expected"),
    [
        ({}, {}, ["reasoning.text"]),
        ({}, {"include": []}, ["reasoning.text"]),
        ({}, {"include": INCLUDE}, ["reasoning.text", *["reasoning.encrypted"] * 2]),
        ({}, {"include": INCLUDE, "reasoning": {"exclude": True}}, ["reasoning.encrypted"] * 2),
        ({}, {"include_reasoning": False}, []),
        ({"raw_reasoning": "hide"}, {}, []),
        ({"raw_reasoning": "hide"}, {"include": INCLUDE}, ["reasoning.encrypted"] * 2),
        ({"raw_reasoning": "hide"}, {"reasoning": {}}, ["reasoning.encrypted"] * 2),
        ({"raw_reasoning": "hide"}, {"include_reasoning": True}, ["reasoning.encrypted"] * 2),
        ({"raw_reasoning": "hide"}, {"reasoning": {"exclude": True}}, []),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
async def test_hidden_reasoning_is_sealed_on_request(
    open_app: OpenApp, settings: Any, fields: Any, expected: list[str], stream: bool
) -> None:
    async with open_app(COMPLETION, **settings) as app:
        answer = await app.post(PATH, request(stream=stream, **fields))
    body = fold(chunks(answer.text)) if stream else answer.json()
    message = body["choices"][0]["message"]
    assert kinds(message) == [(kind, index) for index, kind in enumerate(expected)]
    assert ("secret" in answer.text) == ("reasoning.text" in expected)
    assert ("reasoning" in message) == ("reasoning.text" in expected)


def chunks(stream: str) -> list[dict[str, Any]]:
    lines = [line.removeprefix("data: ") for line in stream.splitlines() if "{" in line]
    expected = [json.loads(line) for line in lines]
    for chunk in expected:
        ChatCompletionChunk.model_validate(chunk, strict=True)
    return expected


async def test_a_stream_sends_each_seal_when_its_reasoning_ends(open_app: OpenApp) -> None:
    async with open_app(COMPLETION) as app:
        expected = chunks((await app.post(PATH, request(include=INCLUDE, stream=True))).text)
    deltas = [chunk["choices"][0]["delta"] for chunk in expected]
    shown = [key for delta in deltas for key in delta if key in ("reasoning", "content")]
    assert shown.index("reasoning") < shown.index("content", 1)
    seals = [
        (position, detail)
        for position, delta in enumerate(deltas)
        for detail in delta.get("reasoning_details", ())
        if detail["type"] == "reasoning.encrypted"
    ]
    (first, one), (second, other) = seals
    assert (one["index"], other["index"]) == (1, 2)
    assert one["id"] != other["id"]
    preamble = next(position for position, delta in enumerate(deltas) if delta.get("content"))
    call = next(position for position, delta in enumerate(deltas) if "tool_calls" in delta)
    assert first < preamble < second < call


@pytest.mark.parametrize("raw", ["show", "hide"])
async def test_what_comes_back_sealed_repeats_the_sampled_tokens(
    open_app: OpenApp, raw: str
) -> None:
    async with open_app(COMPLETION, raw_reasoning=raw) as app:
        message = await ask(app, include=INCLUDE)
        await ask(app, message, result_of(message))
    whole = app.prompts[1]
    assert whole.startswith(app.prompts[0] + REASONING)
    assert whole.count("A secret plan.") == whole.count("More.") == 1
    assert whole.index("More.") < whole.index("Looking.") < whole.index("to=functions.f")


@pytest.mark.parametrize("raw", ["show", "hide"])
async def test_preambles_beside_json_come_back_sealed_with_the_reasoning(
    open_app: OpenApp, raw: str
) -> None:
    form = {"include": INCLUDE, "response_format": {"type": "json_object"}}
    async with open_app(COMPLETION, raw_reasoning=raw) as app:
        message = await ask(app, **form)
        await ask(app, message, result_of(message), **form)
    until_call = COMPLETION[: COMPLETION.rindex(START)]
    assert app.prompts[1].startswith(app.prompts[0] + until_call)
    assert app.prompts[1].count("Looking.") == 1


async def test_reasoning_after_empty_reasoning_is_sealed(open_app: OpenApp) -> None:
    completion_text = f"<|channel|>analysis<|message|><|end|>{START}{COMPLETION}"
    async with open_app(completion_text) as app:
        message = await ask(app, include=INCLUDE)
        await ask(app, message, result_of(message))
    prompt = app.prompts[0] + "<|channel|>analysis<|message|><|end|>" + START + REASONING
    assert app.prompts[1].startswith(prompt)


async def test_reasoning_is_dropped_once_it_was_answered(open_app: OpenApp) -> None:
    async with open_app(ANSWER, raw_reasoning="hide") as app:
        message = await ask(app, include=INCLUDE)
        await ask(app, message, {"role": "user", "content": "More?"})
    assert "Done." in app.prompts[1]
    assert "A secret plan." not in app.prompts[1]


async def test_a_changed_text_replaces_the_seal(open_app: OpenApp) -> None:
    async with open_app(COMPLETION) as app:
        message = await ask(app, include=INCLUDE)
        await ask(app, message | {"reasoning": "Another thought."}, result_of(message))
    assert "Another thought." in app.prompts[1]
    assert "A secret plan." not in app.prompts[1]


@pytest.mark.parametrize("path", [PATH, f"{PATH}/render"])
async def test_a_changed_seal_is_refused(open_app: OpenApp, path: str) -> None:
    async with open_app(COMPLETION) as app:
        message = await ask(app, include=INCLUDE)
        message["reasoning_details"][1]["data"] = message["reasoning_details"][1]["data"][:-4]
        answer = await app.post(path, request(message, result_of(message)))
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert error["param"] == "messages.1.reasoning_details.1.data"
    assert error["code"] == "invalid_encrypted_content"


async def test_another_keys_seal_is_refused(open_app: OpenApp) -> None:
    mine, other = ({"authorization": f"Bearer {key}"} for key in "ab")
    async with open_app(COMPLETION, raw_reasoning="hide", api_key=("a", "b")) as app:
        message = await ask(app, headers=mine, include=INCLUDE)
        await ask(app, message, result_of(message), headers=mine)
        body = request(message, result_of(message))
        refused = await app.post(PATH, body, headers=other)
    assert refused.status_code == 400
    assert refused.json()["error"]["code"] == "invalid_encrypted_content"


async def test_the_rendered_prompt_opens_seals_too(open_app: OpenApp) -> None:
    async with open_app(COMPLETION) as app:
        message = await ask(app, include=INCLUDE) | {"reasoning": None}
        rendered = await app.post(f"{PATH}/render", request(message, result_of(message)))
        await ask(app, message, result_of(message))
    assert rendered.json()["text"] == app.prompts[1]
    assert "A secret plan." in app.prompts[1]


async def test_a_seal_of_responses_opens_on_chat_and_the_other_way_round(
    open_app: OpenApp,
) -> None:
    fields_of_request = {"input": "hi", "include": INCLUDE, "store": False}
    async with open_app(COMPLETION) as app:
        item = (await app.post("/v1/responses", fields_of_request)).json()["output"][0]
        message = await ask(app, include=INCLUDE) | {"reasoning": None}
        _, detail, _ = message["reasoning_details"]
        foreign = detail | {"data": item["encrypted_content"]}
        await ask(app, message | {"reasoning_details": [foreign]}, result_of(message))
        back = {"type": "reasoning", "summary": [], "encrypted_content": detail["data"]}
        call = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
        output = {"type": "function_call_output", "call_id": "c", "output": "1"}
        await app.post("/v1/responses", {"input": [HI, back, call, output], "store": False})
    assert "A secret plan." in app.prompts[2]
    assert "A secret plan." in app.prompts[3]


async def test_other_things_to_include_are_refused(open_app: OpenApp) -> None:
    async with open_app(ANSWER) as app:
        answer = await app.post(PATH, request(include=["web_search_call.results"]))
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "include.0"


async def test_a_hiding_server_shows_only_the_seals_of_stored_reasoning(
    open_app: OpenApp,
) -> None:
    async with open_app(COMPLETION) as app:
        created = await app.post(PATH, request(store=True, include=INCLUDE))
        completion = created.json()
        context = app.app.state.context
        async with open_app(COMPLETION, raw_reasoning="hide", store=context.store) as hiding:
            stored = await hiding.client.get(f"{PATH}/{completion['id']}")
    message = stored.json()["choices"][0]["message"]
    assert kinds(message) == [("reasoning.encrypted", 1), ("reasoning.encrypted", 2)]
    assert "secret" not in stored.text


def text_detail(text: str) -> dict[str, Any]:
    return {"reasoning_details": [{"type": "reasoning.text", "text": text, "format": "unknown"}]}


@pytest.mark.parametrize("summary", ["off", "model"])
@pytest.mark.parametrize(
    "field",
    [
        lambda text: {"reasoning": text},
        lambda text: {"reasoning_content": text},
        text_detail,
    ],
)
async def test_a_guess_at_hidden_reasoning_does_not_change_the_length_of_the_prompt(
    open_app: OpenApp, summary: str, field: Callable[[str], dict[str, Any]]
) -> None:
    settings = {"raw_reasoning": "hide", "reasoning_summary": summary}
    async with open_app(COMPLETION, **settings) as app:
        message = await ask(app, store=None)
        lengths = set()
        for guess in ("A secret", "A sacred"):
            back = request(message | field(guess), result_of(message), store=None)
            lengths.add((await app.post(PATH, back)).json()["usage"]["prompt_tokens"])
    assert len(lengths) == 1


async def test_a_seal_that_holds_more_than_the_context_is_refused(open_app: OpenApp) -> None:
    async with open_app(ANSWER) as app:
        seal = expanding_seal(app)
        detail = {"type": "reasoning.encrypted", "data": seal, "format": "openai-responses-v1"}
        message = {"role": "assistant", "content": "Hm.", "reasoning_details": [detail]}
        answer = await app.post(PATH, request(message))
    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (400, "context_length_exceeded")
    assert error["param"] == "messages.1.reasoning_details.0.data"
