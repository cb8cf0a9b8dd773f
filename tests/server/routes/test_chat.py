"""`/v1/chat/completions` through the whole application, checked with the SDK's own types."""

import asyncio
import json
from dataclasses import asdict
from importlib.metadata import version
from typing import Any

import httpx
import pytest
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from harmony.tokenizer import decode, encode, encode_with_control
from server.outbound.chat.fold import fold
from server.store.errors import StoreUnavailable

PATH = "/v1/chat/completions"
HI = [{"role": "user", "content": "hi"}]
START = "<|start|>assistant"
ANSWER = (
    "<|channel|>analysis<|message|>Greet.<|end|>"
    f"{START}<|channel|>final<|message|>Hello, you!<|return|>"
)
CALL = (
    "<|channel|>analysis<|message|>Ask f.<|end|>"
    f"{START}<|channel|>commentary<|message|>Looking it up.<|end|>"
    f"{START}<|channel|>commentary to=functions.f <|constrain|>json"
    '<|message|>{"a": 1}<|call|>'
)
LONG = {
    "completion": "<|channel|>final<|message|>" + " word" * 5000 + "<|return|>",
    "delay_ms": 1,
}
F = {"name": "f", "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}}}
TOOL = {"type": "function", "function": F}
SQL = {"type": "custom", "custom": {"name": "sql", "description": "Runs SQL."}}


def request(**fields: Any) -> dict[str, Any]:
    return {"model": "scripted", "messages": HI} | fields


def completion(answer: httpx.Response) -> dict[str, Any]:
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json()
    ChatCompletion.model_validate(body, strict=True)
    return body


def choice(answer: httpx.Response) -> dict[str, Any]:
    only: dict[str, Any]
    (only,) = completion(answer)["choices"]
    return only


def chunks(answer: httpx.Response) -> list[dict[str, Any]]:
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("text/event-stream")
    *events, done, rest = answer.text.split("\n\n")
    assert (done, rest) == ("data: [DONE]", "")
    read = [json.loads(event.removeprefix("data: ")) for event in events]
    for chunk in read:
        if "error" not in chunk:
            ChatCompletionChunk.model_validate(chunk, strict=True)
    return read


def error(answer: httpx.Response, status: int) -> dict[str, Any]:
    assert answer.status_code == status, answer.text
    body: dict[str, Any] = answer.json()["error"]
    assert set(body) == {"message", "type", "param", "code"}
    return body


async def test_an_answer_has_reasoning_text_and_usage(open_app: Any) -> None:
    async with open_app(ANSWER) as app:
        body = completion(await app.post(PATH, request()))
    assert body["object"] == "chat.completion"
    assert body["model"] == "scripted"
    (only,) = body["choices"]
    assert only["finish_reason"] == "stop"
    message = only["message"]
    assert message["content"] == "Hello, you!"
    assert message["reasoning"] == "Greet."
    (detail,) = message["reasoning_details"]
    assert detail["type"] == "reasoning.text"
    assert detail["format"] == "unknown"
    assert detail["text"] == "Greet."
    assert body["usage"]["prompt_tokens"] == len(app.backend.requests[0].prompt_token_ids)
    assert body["usage"]["completion_tokens"] == len(encode_with_control(ANSWER))
    details = body["usage"]["completion_tokens_details"]
    assert details["reasoning_tokens"] == len(encode("Greet."))


@pytest.mark.parametrize("completion_text", [ANSWER, CALL])
async def test_a_whole_answer_is_what_the_stream_joins_to(
    open_app: Any, completion_text: str
) -> None:
    body = request(tools=[TOOL])
    async with open_app(completion_text) as app:
        whole = completion(await app.post(PATH, body))
        options = {"stream": True, "stream_options": {"include_usage": True}}
        streamed = fold(chunks(await app.post(PATH, body | options)))
    for each in (whole, streamed):
        for call in each["choices"][0]["message"].get("tool_calls", ()):
            del call["id"]
    differing = {"id", "created"}
    assert {k: v for k, v in whole.items() if k not in differing} == {
        k: v for k, v in streamed.items() if k not in differing
    }


async def test_all_chunks_are_of_one_completion(open_app: Any) -> None:
    async with open_app(ANSWER) as app:
        emitted = chunks(await app.post(PATH, request(stream=True)))
    names = ("id", "created", "model", "system_fingerprint")
    assert len({tuple(chunk[name] for name in names) for chunk in emitted}) == 1
    assert emitted[0]["system_fingerprint"] == f"fp_{version('gpt-oss-server')}"
    assert emitted[0]["choices"][0]["delta"]["role"] == "assistant"
    assert [c["choices"][0]["finish_reason"] for c in emitted] == [None] * (len(emitted) - 1) + [
        "stop"
    ]


async def test_usage_is_streamed_only_where_it_is_asked_for(open_app: Any) -> None:
    async with open_app(ANSWER) as app:
        plain = chunks(await app.post(PATH, request(stream=True)))
        options = {"include_usage": True}
        with_usage = chunks(await app.post(PATH, request(stream=True, stream_options=options)))
    assert all("usage" not in chunk and chunk["choices"] for chunk in plain)
    *others, last = with_usage
    assert all(chunk["usage"] is None for chunk in others)
    assert last["choices"] == []
    assert last["usage"]["total_tokens"] == sum(
        last["usage"][key] for key in ("prompt_tokens", "completion_tokens")
    )


async def test_usage_can_be_asked_for_in_openrouters_way(open_app: Any) -> None:
    async with open_app(ANSWER) as app:
        emitted = chunks(await app.post(PATH, request(stream=True, usage={"include": True})))
    assert emitted[-1]["usage"]["completion_tokens"] == len(encode_with_control(ANSWER))


async def test_reasoning_streams_in_both_of_its_forms_at_once(open_app: Any) -> None:
    async with open_app(ANSWER) as app:
        emitted = chunks(await app.post(PATH, request(stream=True)))
    deltas = [d for c in emitted if (d := c["choices"][0]["delta"]).get("reasoning")]
    assert len(deltas) > 1
    for delta in deltas:
        (detail,) = delta["reasoning_details"]
        assert detail["text"] == delta["reasoning"]
        assert detail["index"] == 0


async def test_a_call_streams_its_arguments_as_they_are_sampled(open_app: Any) -> None:
    async with open_app(CALL) as app:
        emitted = chunks(await app.post(PATH, request(stream=True, tools=[TOOL])))
    parts = [
        call for chunk in emitted for call in chunk["choices"][0]["delta"].get("tool_calls", ())
    ]
    first, *rest = parts
    assert first["id"].startswith("call_")
    assert (first["index"], first["type"]) == (0, "function")
    assert first["function"] == {"name": "f", "arguments": ""}
    assert len(rest) > 2
    assert "".join(part["function"]["arguments"] for part in rest) == '{"a": 1}'
    assert emitted[-1]["choices"][0]["finish_reason"] == "tool_calls"


async def test_a_preamble_is_content_beside_the_call(open_app: Any) -> None:
    async with open_app(CALL) as app:
        message = choice(await app.post(PATH, request(tools=[TOOL])))["message"]
    assert message["content"] == "Looking it up."
    assert message["reasoning"] == "Ask f."
    assert message["tool_calls"][0]["function"]["name"] == "f"


async def test_content_is_null_beside_a_call_alone(open_app: Any) -> None:
    completion_text = "<|channel|>commentary to=functions.f <|constrain|>json<|message|>{}<|call|>"
    async with open_app(completion_text) as app:
        message = choice(await app.post(PATH, request(tools=[TOOL])))["message"]
    assert message["content"] is None
    assert "reasoning" not in message


async def test_a_tool_round_trip_repeats_the_messages(open_app: Any) -> None:
    after = {"prompt_contains": "to=assistant", "completion": ANSWER}
    async with open_app(after, CALL) as app:
        message = choice(await app.post(PATH, request(tools=[TOOL])))["message"]
        result = {
            "role": "tool",
            "tool_call_id": message["tool_calls"][0]["id"],
            "content": '{"b": 2}',
        }
        body = request(tools=[TOOL], messages=[*HI, message, result])
        again = choice(await app.post(PATH, body))["message"]
    assert again["content"] == "Hello, you!"
    assert app.prompts[1].endswith(
        "<|start|>user<|message|>hi<|end|>"
        f"{START}{CALL}"
        '<|start|>functions.f to=assistant<|channel|>commentary<|message|>{"b": 2}<|end|>'
        f"{START}"
    )


async def after_a_call(app: Any, change: dict[str, Any]) -> str:
    """What follows the question in the second turn's prompt; the client changes what it got."""
    message = choice(await app.post(PATH, request(tools=[TOOL])))["message"]
    messages = [*HI, message | change, result_of(message)]
    completion(await app.post(PATH, request(tools=[TOOL], messages=messages)))
    prompt: str = app.prompts[-1].partition("hi<|end|>")[2]
    return prompt


def result_of(message: dict[str, Any]) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": message["tool_calls"][0]["id"], "content": "2"}


async def test_reasoning_before_a_call_is_restored_where_the_client_drops_it(open_app: Any) -> None:
    drop = {"reasoning": None, "reasoning_details": None}
    async with open_app(CALL) as app:
        dropped = await after_a_call(app, drop)
        changed = await after_a_call(app, drop | {"content": "Changed."})
    assert dropped.startswith(f"{START}{CALL}<|start|>functions.f")
    assert changed.startswith(
        f"{START}<|channel|>analysis<|message|>Ask f.<|end|>"
        f"{START}<|channel|>commentary<|message|>Changed.<|end|>{START} to=functions.f"
    )


async def test_reasoning_is_restored_also_where_the_client_wrote_the_arguments_anew(
    open_app: Any,
) -> None:
    async with open_app(CALL) as app:
        message = choice(await app.post(PATH, request(tools=[TOOL])))["message"]
        call = message["tool_calls"][0]
        anew = call | {"function": call["function"] | {"arguments": '{"a":1}'}}
        back = {"role": "assistant", "content": message["content"], "tool_calls": [anew]}
        messages = [*HI, back, result_of(message)]
        completion(await app.post(PATH, request(tools=[TOOL], messages=messages)))
    assert app.prompts[1].startswith(app.prompts[0] + CALL + "<|start|>functions.f")


async def test_what_a_client_changed_is_the_clients(open_app: Any) -> None:
    async with open_app(CALL) as app:
        prompt = await after_a_call(app, {"reasoning": "Other."})
    assert prompt.startswith(f"{START}<|channel|>analysis<|message|>Other.<|end|>")


async def test_hidden_reasoning_is_repeated_all_the_same(open_app: Any) -> None:
    async with open_app(CALL, raw_reasoning="hide") as app:
        prompt = await after_a_call(app, {})
    assert prompt.startswith(f"{START}{CALL}<|start|>functions.f")


async def test_nothing_is_remembered_of_what_must_not_be_stored(open_app: Any) -> None:
    body = request(tools=[TOOL], store=False)
    async with open_app(CALL, raw_reasoning="hide") as app:
        message = choice(await app.post(PATH, body))["message"]
        messages = [*HI, message, result_of(message)]
        completion(await app.post(PATH, body | {"messages": messages}))
    assert "Ask f." not in app.prompts[1]


async def test_a_store_that_is_away_keeps_nobody_from_an_answer(open_app: Any) -> None:
    async def away(*_: Any) -> Any:
        raise StoreUnavailable("away")

    async with open_app(CALL) as app:
        app.app.state.context.store.chat_completions.messages_up_to_call = away
        prompt = await after_a_call(app, {})
    assert prompt.startswith(f"{START}{CALL}<|start|>functions.f")


async def test_sampled_output_is_replayed_for_its_owner_alone(open_app: Any) -> None:
    a, b = ({"authorization": f"Bearer {key}"} for key in "ab")
    async with open_app(CALL, raw_reasoning="hide", api_key=("a", "b")) as app:
        message = choice(await app.post(PATH, request(tools=[TOOL]), headers=a))["message"]
        body = request(tools=[TOOL], messages=[*HI, message, result_of(message)])
        for headers in (a, b):
            completion(await app.post(PATH, body, headers=headers))
    _, own, other = app.prompts
    assert "Ask f." in own
    assert "Ask f." not in other


async def test_a_legacy_function_is_called_in_the_legacy_way(open_app: Any) -> None:
    async with open_app(CALL) as app:
        body = request(functions=[F], function_call="auto")
        only = choice(await app.post(PATH, body))
        emitted = chunks(await app.post(PATH, body | {"stream": True}))
    assert only["finish_reason"] == "function_call"
    assert only["message"]["function_call"] == {"name": "f", "arguments": '{"a": 1}'}
    assert "tool_calls" not in only["message"]
    assert emitted[-1]["choices"][0]["finish_reason"] == "function_call"


async def test_a_custom_tool_is_called_with_its_input(open_app: Any) -> None:
    completion_text = "<|channel|>commentary to=functions.sql<|message|>select 1<|call|>"
    tool = {"type": "custom", "custom": {"name": "sql", "description": "runs SQL"}}
    async with open_app(completion_text) as app:
        (call,) = choice(await app.post(PATH, request(tools=[tool])))["message"]["tool_calls"]
    assert call["type"] == "custom"
    assert call["custom"] == {"name": "sql", "input": "select 1"}


async def test_an_undeclared_tool_is_shown_as_it_was_called(open_app: Any) -> None:
    completion_text = "<|channel|>analysis to=python code<|message|>1 + 1<|call|>"
    async with open_app(completion_text) as app:
        (call,) = choice(await app.post(PATH, request()))["message"]["tool_calls"]
    assert call["function"] == {"name": "python", "arguments": "1 + 1"}


@pytest.mark.parametrize("fields", [{"reasoning": {"exclude": True}}, {"include_reasoning": False}])
async def test_a_client_may_hide_the_reasoning(open_app: Any, fields: dict[str, Any]) -> None:
    async with open_app(ANSWER) as app:
        body = completion(await app.post(PATH, request(**fields)))
    assert "reasoning" not in body["choices"][0]["message"]
    assert body["usage"]["completion_tokens_details"]["reasoning_tokens"] > 0


async def test_the_server_may_hide_the_reasoning_from_everyone(open_app: Any) -> None:
    async with open_app(ANSWER, raw_reasoning="hide") as app:
        body = request(include_reasoning=True)
        whole = await app.post(PATH, body)
        streamed = await app.post(PATH, body | {"stream": True})
    assert choice(whole)["message"]["content"] == "Hello, you!"
    assert "reasoning" not in choice(whole)["message"]
    for answer in (whole, streamed):
        assert "Greet" not in answer.text
        assert "reasoning.text" not in answer.text


async def test_the_server_may_add_reasoning_content(open_app: Any) -> None:
    async with open_app(ANSWER, reasoning_content=True) as app:
        message = choice(await app.post(PATH, request()))["message"]
    assert message["reasoning_content"] == message["reasoning"] == "Greet."


async def test_stop_strings_end_the_answer_but_not_the_reasoning(open_app: Any) -> None:
    async with open_app(ANSWER) as app:
        only = choice(await app.post(PATH, request(stop=["Greet", ", y"])))
    assert only["message"]["reasoning"] == "Greet."
    assert only["message"]["content"] == "Hello"
    assert only["finish_reason"] == "stop"


async def test_the_token_budget_includes_reasoning(open_app: Any) -> None:
    async with open_app(ANSWER) as app:
        body = completion(await app.post(PATH, request(max_completion_tokens=4)))
    assert body["choices"][0]["finish_reason"] == "length"
    assert body["choices"][0]["message"]["content"] == ""
    assert body["usage"]["completion_tokens"] == 4


async def test_logprobs_are_of_the_answer(open_app: Any) -> None:
    async with open_app(ANSWER) as app:
        only = choice(await app.post(PATH, request(logprobs=True, top_logprobs=1)))
        none = choice(await app.post(PATH, request()))
    entries = only["logprobs"]["content"]
    assert "".join(entry["token"] for entry in entries) == "Hello, you!"
    assert b"".join(bytes(entry["bytes"]) for entry in entries) == b"Hello, you!"
    assert all(len(entry["top_logprobs"]) == 1 for entry in entries)
    assert none["logprobs"] is None


async def test_token_ids_are_returned_on_request(open_app: Any) -> None:
    body = request(return_token_ids=True)
    async with open_app(ANSWER) as app:
        whole = completion(await app.post(PATH, body))
        *_, last = chunks(await app.post(PATH, body | {"stream": True}))
    for each in (whole, last):
        assert decode(each["prompt_token_ids"]) == app.prompts[0]
        assert decode(each["choices"][0]["token_ids"]) == ANSWER


async def test_token_ids_are_refused_if_reasoning_is_hidden(open_app: Any) -> None:
    async with open_app(ANSWER, raw_reasoning="hide") as app:
        refusal = error(await app.post(PATH, request(return_token_ids=True)), 400)
    assert refusal["param"] == "return_token_ids"


async def test_several_choices_are_one_completion(open_app: Any) -> None:
    async with open_app(ANSWER) as app:
        body = completion(await app.post(PATH, request(n=3, seed=5)))
        emitted = chunks(await app.post(PATH, request(n=3, stream=True)))
        await app.until_idle()
    assert [each["index"] for each in body["choices"]] == [0, 1, 2]
    assert {each["message"]["content"] for each in body["choices"]} == {"Hello, you!"}
    usage, length = body["usage"], len(encode_with_control(ANSWER))
    assert usage["completion_tokens"] == 3 * length
    assert usage["prompt_tokens"] == len(app.backend.requests[0].prompt_token_ids)
    assert [request.seed for request in app.backend.requests[:3]] == [5, 6, 7]
    starts = [c["choices"][0] for c in emitted if "role" in c["choices"][0]["delta"]]
    assert [each["index"] for each in starts] == [0, 1, 2]


async def test_more_samples_than_free_slots_are_all_refused(open_app: Any) -> None:
    async with open_app(LONG, max_running=1, max_waiting=2) as app:
        asking = asyncio.ensure_future(app.post(PATH, request(stream=True)))
        await app.backend.until_running(1)
        refused = await app.post(PATH, request(n=3))
        assert error(refused, 429)["code"] == "rate_limit_exceeded"
        asking.cancel()
        await asyncio.wait({asking})
        await app.until_idle()
    assert refused.headers["retry-after"] == "1"


async def test_more_samples_than_slots_exist_are_a_client_error(
    open_app: Any,
) -> None:
    async with open_app(ANSWER, max_running=1, max_waiting=1) as app:
        assert error(await app.post(PATH, request(n=3)), 400)["param"] == "n"
        completion(await app.post(PATH, request(n=2)))


@pytest.mark.parametrize("n", [1, 2])
async def test_an_error_before_the_answer_has_a_status(open_app: Any, n: int) -> None:
    async with open_app({"completion": ANSWER, "prompt_contains": "other"}) as app:
        refusal = error(await app.post(PATH, request(n=n)), 500)
        await app.until_idle()
    assert "no matching line" in refusal["message"]


@pytest.mark.parametrize("n", [1, 2])
async def test_an_error_within_the_stream_ends_it(open_app: Any, n: int) -> None:
    async with open_app({"completion": ANSWER, "prompt_contains": "other"}) as app:
        emitted = chunks(await app.post(PATH, request(stream=True, n=n)))
        await app.until_idle()
    assert "no matching line" in emitted[-1]["error"]["message"]


@pytest.mark.parametrize("n", [1, 2])
async def test_an_answer_that_the_server_ends_is_an_error(open_app: Any, n: int) -> None:
    async with open_app(LONG) as app:
        asking = asyncio.ensure_future(app.post(PATH, request(n=n)))
        await app.backend.until_running(n)
        await app.app.state.context.gateway.runs.close()
        refusal = error(await asking, 503)
    assert refusal["code"] == "server_unavailable"


@pytest.mark.parametrize("n", [1, 2])
async def test_a_stream_that_the_server_ends_has_one_error_at_its_end(
    open_app: Any, n: int
) -> None:
    async with open_app(LONG) as app:
        asking = asyncio.ensure_future(app.post(PATH, request(stream=True, n=n)))
        await app.backend.until_running(n)
        await app.app.state.context.gateway.runs.close()
        emitted = chunks(await asking)
    failed = [chunk["error"]["code"] for chunk in emitted if "error" in chunk]
    assert failed == ["server_unavailable"]
    assert "error" in emitted[-1]


@pytest.mark.parametrize("n", [1, 2])
async def test_a_disconnect_frees_the_slots(open_app: Any, n: int) -> None:
    async with open_app(LONG) as app:
        asking = asyncio.ensure_future(app.post(PATH, request(stream=True, n=n)))
        async with asyncio.timeout(60):
            await app.backend.until_running(n)
            asking.cancel()
            await app.backend.until_running(0)
            await app.until_idle()


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"messages": []}, "messages"),
        ({"messages": "hi"}, "messages"),
        ({"messages": [{"role": "user", "content": 1}]}, "messages.0.content"),
        ({"messages": [{"role": "owner", "content": "hi"}]}, "messages.0.role"),
        ({"tools": [{"type": "function", "function": {}}]}, "tools.0.function.name"),
        (
            {"tools": [TOOL], "tool_choice": {"type": "function", "function": {"name": "g"}}},
            "tool_choice.function.name",
        ),
        ({"function_call": "required", "functions": [F]}, "function_call"),
        ({"functions": [{}]}, "functions.0.name"),
        ({"response_format": {"type": "xml"}}, "response_format.type"),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": 1}}},
            "response_format.json_schema.schema",
        ),
        ({"temperature": "hot"}, "temperature"),
        ({"temperature": 3}, "temperature"),
        ({"n": 0}, "n"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"stop": ["a"] * 5}, "stop"),
        ({"top_logprobs": 2}, "top_logprobs"),
        ({"logprobs": True, "top_logprobs": 21}, "top_logprobs"),
        ({"logit_bias": {"x": 1}}, "logit_bias.x"),
        ({"reasoning_effort": "huge"}, "reasoning_effort"),
        ({"reasoning": {"effort": 3}}, "reasoning.effort"),
        ({"stream_options": {"include_usage": 1}}, "stream_options.include_usage"),
        ({"audio": {"voice": "alloy", "format": "wav"}}, "audio"),
        ({"modalities": ["text", "audio"]}, "modalities"),
        ({"web_search_options": {}}, "web_search_options"),
        ({"moderation": {"model": "m"}}, "moderation"),
    ],
)
async def test_a_bad_field_is_named(open_app: Any, fields: dict[str, Any], param: str) -> None:
    async with open_app(ANSWER) as app:
        refusal = error(await app.post(PATH, request(**fields)), 400)
    assert refusal["param"] == param
    assert refusal["type"] == "invalid_request_error"
    assert app.backend.requests == []


async def test_a_request_without_messages_is_refused(open_app: Any) -> None:
    async with open_app(ANSWER) as app:
        refusal = error(await app.post(PATH, request(messages=[])), 400)
    assert refusal["code"] == "missing_messages"


async def test_a_request_names_its_model(open_app: Any) -> None:
    async with open_app(ANSWER) as app:
        unnamed = error(await app.post(PATH, {"messages": HI}), 400)
        unknown = error(await app.post(PATH, request(model="gpt-9")), 404)
    assert unnamed["param"] == "model"
    assert unknown["code"] == "model_not_found"


async def asked_of_the_engine(app: Any, **fields: Any) -> dict[str, Any]:
    completion(await app.post(PATH, request(**fields)))
    sent = asdict(app.backend.requests[-1])
    del sent["request_id"]
    return sent


SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "integer"}},
    "required": ["a"],
    "additionalProperties": False,
}
FORM = {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA, "strict": True}}


PROMPT_FIELDS = {"prompt_token_ids", "affinity"}
"""The parts of a generation request that differ: the prompt, and its cache affinity."""


@pytest.mark.parametrize(
    ("fields", "changed"),
    [
        ({"temperature": 0.5}, {"sampling"}),
        ({"top_p": 0.5}, {"sampling"}),
        ({"top_k": 5}, {"sampling"}),
        ({"min_p": 0.5}, {"sampling"}),
        ({"seed": 5}, {"seed"}),
        ({"max_tokens": 50}, {"max_tokens"}),
        ({"max_completion_tokens": 50}, {"max_tokens"}),
        ({"presence_penalty": 0.5}, {"phases"}),
        ({"frequency_penalty": 0.5}, {"phases"}),
        ({"repetition_penalty": 1.5}, {"phases"}),
        ({"logit_bias": {"5": 5}}, {"phases"}),
        ({"logprobs": True, "top_logprobs": 2}, {"logprobs"}),
        ({"prompt_cache_key": "k"}, {"affinity"}),
        ({"priority": 5}, {"priority"}),
        ({"service_tier": "flex"}, {"priority"}),
        ({"reasoning_effort": "high"}, PROMPT_FIELDS),
        ({"reasoning": {"effort": "low"}}, PROMPT_FIELDS),
        ({"verbosity": "low"}, PROMPT_FIELDS | {"max_tokens"}),
        ({"reasoning": {"max_tokens": 8000, "effort": "medium"}}, {"grammar"}),
        ({"response_format": FORM}, PROMPT_FIELDS | {"max_tokens", "grammar"}),
        ({"response_format": {"type": "json_object"}}, PROMPT_FIELDS | {"max_tokens", "grammar"}),
        ({"tools": [TOOL]}, PROMPT_FIELDS | {"max_tokens", "grammar"}),
        ({"tools": [SQL]}, PROMPT_FIELDS | {"max_tokens", "grammar"}),
        ({"functions": [F]}, PROMPT_FIELDS | {"max_tokens", "grammar"}),
        ({"reasoning_effort": "none"}, PROMPT_FIELDS | {"max_tokens", "grammar"}),
        ({"reasoning": {"enabled": False}}, PROMPT_FIELDS | {"max_tokens", "grammar"}),
    ],
)
async def test_a_field_changes_the_generation_request(
    open_app: Any, fields: dict[str, Any], changed: set[str]
) -> None:
    async with open_app(ANSWER) as app:
        plain = await asked_of_the_engine(app)
        other = await asked_of_the_engine(app, **fields)
    assert {name for name in other if other[name] != plain[name]} == changed


@pytest.mark.parametrize(
    "choice_of_tools",
    ["none", "required", {"type": "function", "function": {"name": "f"}}],
)
async def test_tool_choice_changes_the_grammar_alone(open_app: Any, choice_of_tools: Any) -> None:
    async with open_app(ANSWER) as app:
        plain = await asked_of_the_engine(app, tools=[TOOL])
        other = await asked_of_the_engine(app, tools=[TOOL], tool_choice=choice_of_tools)
    assert {name for name in other if other[name] != plain[name]} == {"grammar"}


@pytest.mark.parametrize("call", ["none", {"name": "f"}])
async def test_function_call_changes_the_grammar_alone(open_app: Any, call: Any) -> None:
    async with open_app(ANSWER) as app:
        plain = await asked_of_the_engine(app, functions=[F])
        other = await asked_of_the_engine(app, functions=[F], function_call=call)
    assert {name for name in other if other[name] != plain[name]} == {"grammar"}


@pytest.mark.parametrize(
    "fields",
    [
        {"parallel_tool_calls": False},
        {"response_format": {"type": "text"}},
        {"prompt_cache_options": {"mode": "explicit"}},
        {"prompt_cache_retention": "24h"},
        {"user": "u"},
        {"safety_identifier": "u"},
        {"service_tier": "scale"},
        {"prediction": {"type": "content", "content": "Hello"}},
        {"modalities": ["text"]},
        {"metadata": {"a": "b"}},
        {"store": True},
        {"stream_options": {"include_obfuscation": False}},
        {"some_new_field": 1},
    ],
)
async def test_other_fields_leave_the_generation_request_unchanged(
    open_app: Any, fields: dict[str, Any]
) -> None:
    async with open_app(ANSWER) as app:
        assert await asked_of_the_engine(app) == await asked_of_the_engine(app, **fields)


async def test_the_effective_service_tier_is_returned(open_app: Any) -> None:
    async with open_app(ANSWER) as app:
        body = completion(await app.post(PATH, request(service_tier="flex")))
        emitted = chunks(await app.post(PATH, request(service_tier="auto", stream=True)))
        other = completion(await app.post(PATH, request(service_tier="flex", priority=-5)))
    assert (body["service_tier"], other["service_tier"]) == ("flex", "default")
    assert {chunk["service_tier"] for chunk in emitted} == {"default"}


async def test_tools_that_are_not_served_are_named(open_app: Any) -> None:
    async with open_app(ANSWER) as app:
        tools = [TOOL, {"type": "file_search"}]
        body = completion(await app.post(PATH, request(tools=tools)))
        emitted = chunks(await app.post(PATH, request(tools=tools, stream=True)))
        plain = completion(await app.post(PATH, request(tools=[TOOL])))
    assert body["gpt_oss:unserved_tools"] == ["file_search"]
    first, *others = ["gpt_oss:unserved_tools" in chunk for chunk in emitted]
    assert first
    assert not any(others)
    assert emitted[0]["gpt_oss:unserved_tools"] == ["file_search"]
    assert "gpt_oss:unserved_tools" not in plain


async def test_nulls_and_unknown_fields_are_accepted(open_app: Any) -> None:
    async with open_app(ANSWER) as app:
        fields = dict.fromkeys(("tools", "tool_choice", "stop", "n", "stream_options", "seed"))
        body = request(**fields, modalities=["text"], hologram=True, user="u", service_tier="flex")
        assert choice(await app.post(PATH, body))["message"]["content"] == "Hello, you!"


async def test_a_prompt_that_is_too_long_names_the_messages(open_app: Any) -> None:
    async with open_app(ANSWER) as app:
        messages = [{"role": "user", "content": " word" * 140_000}]
        refusal = error(await app.post(PATH, request(messages=messages)), 400)
    assert refusal["code"] == "context_length_exceeded"
    assert refusal["param"] == "messages"


async def test_unsupported_input_is_refused_if_configured(open_app: Any) -> None:
    image = {"type": "image_url", "image_url": {"url": "x"}}
    body = request(messages=[{"role": "user", "content": [image]}])
    async with open_app(ANSWER, unsupported_input="error") as app:
        refusal = error(await app.post(PATH, body), 400)
    assert refusal["param"] == "messages.0.content.0"
