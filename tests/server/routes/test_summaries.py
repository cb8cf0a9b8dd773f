"""Summaries of reasoning in answers of both APIs, with the scripted engine."""

import json
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from typing import Any, get_args

import httpx
import pytest
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

from server.outbound.responses.fold import fold
from server.summaries.remote import RemoteModel
from tests.server.summaries.reasoning import (
    PARAGRAPH,
    PROMPT_OF_SUMMARIES,
    SENTENCE,
    SHORT,
    WITHHOLD,
    summaries,
    thought,
    verdict,
)

OpenApp = Callable[..., AbstractAsyncContextManager[Any]]
Event = dict[str, Any]

RESPONSES = "/v1/responses"
CHAT = "/v1/chat/completions"
MODEL = {"reasoning_summary": "model", "summary_patience": 60}
HIDDEN = {**MODEL, "raw_reasoning": "hide"}
ASKED = {"input": "hi", "reasoning": {"summary": "auto"}}
PART = "**Comparing dates**\n\nIt looks at both."
EVENT_TYPES = {
    get_args(model.model_fields["type"].annotation)[0]: TypeAdapter(model)
    for model in get_args(get_args(ResponseStreamEvent)[0])
}


async def stream(app: Any, body: dict[str, Any], path: str = RESPONSES) -> list[Event]:
    answer = await app.post(path, {**body, "stream": True})
    assert answer.status_code == 200, answer.text
    lines = (line.removeprefix("data: ") for line in answer.text.splitlines())
    return [json.loads(line) for line in lines if line.startswith("{")]


def check(events: list[Event]) -> None:
    """The events are valid and numbered, and each item's events are in order and agree."""
    for number, event in enumerate(events):
        EVENT_TYPES[event["type"]].validate_python(event, strict=True)
        assert event["sequence_number"] == number
    response = events[-1]["response"]
    Response.model_validate(response, strict=True)
    assert fold(events) == response
    for index, item in enumerate(response["output"]):
        own = [event for event in events if event.get("output_index") == index]
        assert own[0]["type"] == "response.output_item.added"
        assert own[-1] == {**own[-1], "type": "response.output_item.done", "item": item}
        if item["type"] == "reasoning":
            check_summary(item, own)


def check_summary(item: Event, events: list[Event]) -> None:
    of_summary = [each for each in events if "summary_index" in each]
    for index, part in enumerate(item["summary"]):
        added, *deltas, text_done, done = (
            each for each in of_summary if each["summary_index"] == index
        )
        assert added["type"] == "response.reasoning_summary_part.added"
        assert added["part"] == {"type": "summary_text", "text": ""}
        assert {each["type"] for each in deltas} <= {"response.reasoning_summary_text.delta"}
        assert text_done["type"] == "response.reasoning_summary_text.done"
        assert done["type"] == "response.reasoning_summary_part.done"
        assert "".join(each["delta"] for each in deltas) == text_done["text"] == part["text"]
        assert done["part"] == part
        assert (done.get("status") == "incomplete") == (not part["text"])
    indexes = [each["summary_index"] for each in of_summary]
    assert indexes == sorted(indexes)
    assert {*indexes} == {*range(len(item["summary"]))}


def parts(response: Event) -> list[str]:
    reasoning = [item for item in response["output"] if item["type"] == "reasoning"]
    return [part["text"] for item in reasoning for part in item["summary"]]


@pytest.mark.parametrize("settings", [MODEL, HIDDEN], ids=["shown", "hidden"])
async def test_a_model_summarises_while_it_thinks(open_app: OpenApp, settings: Any) -> None:
    lines = summaries(verdict()), thought(PARAGRAPH * 3)
    async with open_app(*lines, **settings) as app:
        events = await stream(app, ASKED)
        prompts = [prompt for prompt in app.prompts if PROMPT_OF_SUMMARIES in prompt]
    check(events)
    shown = parts(events[-1]["response"])
    # Where the summariser is slow, one part covers two paragraphs.
    assert shown in ([PART] * 2, [PART] * 3)
    assert len(prompts) == len(shown)
    assert all("Reasoning: low" in prompt for prompt in prompts)


async def test_the_whole_answer_and_the_stored_one_have_the_summary(open_app: OpenApp) -> None:
    async with open_app(summaries(verdict()), thought(SHORT), **HIDDEN) as app:
        answer = (await app.post(RESPONSES, ASKED)).json()
        stored = (await app.client.get(f"{RESPONSES}/{answer['id']}")).json()
    assert parts(answer) == [PART]
    assert stored == answer
    assert answer["reasoning"] == {"effort": "medium", "summary": "auto"}
    assert SENTENCE.strip() not in json.dumps(answer)


async def test_another_servers_model_gets_its_name_its_key_and_the_policy(
    open_app: OpenApp, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    sent: list[httpx.Request] = []

    def write(request: httpx.Request) -> httpx.Response:
        sent.append(request)
        return httpx.Response(200, json={"choices": [{"message": {"content": verdict()}}]})

    transport = httpx.MockTransport(write)
    monkeypatch.setattr("server.app.RemoteModel", partial(RemoteModel, transport=transport))
    policy = tmp_path / "policy.md"
    policy.write_text("Never name a colour.")
    options = {
        "summary_url": "http://guard.example/v1",
        "summary_model": "guard",
        "summary_key": "k",
        "summary_policy": policy,
    }
    async with open_app(thought(SHORT), **MODEL, **options) as app:
        assert parts((await app.post(RESPONSES, ASKED)).json()) == [PART]
    (request,) = sent
    assert str(request.url) == "http://guard.example/v1/chat/completions"
    assert request.headers["authorization"] == "Bearer k"
    body = json.loads(request.content)
    assert body["model"] == "guard"
    assert "Never name a colour." in body["messages"][0]["content"]


async def test_the_summarisers_tokens_are_counted_apart(open_app: OpenApp) -> None:
    async with open_app(summaries(verdict()), thought(SHORT), **MODEL) as app:
        with_summary = (await app.post(RESPONSES, ASKED)).json()
        without = (await app.post(RESPONSES, {"input": "hi"})).json()
    assert with_summary["usage"] == without["usage"]
    assert "gpt_oss:summary_usage" not in without
    usage = with_summary["gpt_oss:summary_usage"]
    assert usage["parts"] == {"written": 1, "withheld": 0, "skipped": 0, "failed": 0, "late": 0}
    assert usage["total_tokens"] == usage["input_tokens"] + usage["output_tokens"]
    assert usage["input_tokens"] > 100
    assert usage["output_tokens"] > 5


async def test_the_answer_is_the_same_with_and_without_a_summary(open_app: OpenApp) -> None:
    async with open_app(summaries(verdict()), thought(PARAGRAPH * 2), **MODEL) as app:
        events = [await stream(app, {"input": "hi"}), await stream(app, ASKED)]
    answers = [
        [
            {key: value for key, value in event.items() if key in ("type", "delta", "text")}
            for event in each
            if "summary" not in event["type"] and event["type"] != "response.completed"
        ]
        for each in events
    ]
    assert answers[0] == answers[1]


@pytest.mark.parametrize(
    ("settings", "fields", "expected"),
    [
        (MODEL, {}, 0),
        (MODEL, {"reasoning": {"summary": None}}, 0),
        (MODEL, {"reasoning": {"generate_summary": "concise"}}, 1),
        (MODEL, {"reasoning": {"summary": "detailed"}}, 1),
        (MODEL, {"reasoning": {"summary": "auto", "effort": "none"}}, 0),
        ({"reasoning_summary": "off"}, {"reasoning": {"summary": "auto"}}, 0),
        ({"raw_reasoning": "hide"}, {"reasoning": {"summary": "auto"}}, 0),
        (HIDDEN, {}, 1),
        (HIDDEN, {"reasoning": {"effort": "low"}}, 1),
        (HIDDEN, {"reasoning": {"summary": None}}, 0),
        (HIDDEN, {"reasoning": {"generate_summary": None}}, 0),
    ],
)
async def test_requests_and_options_say_whether_there_is_a_summary(
    open_app: OpenApp, settings: Any, fields: Any, expected: int
) -> None:
    async with open_app(summaries(verdict()), thought(SHORT), **settings) as app:
        answer = (await app.post(RESPONSES, {"input": "hi", **fields})).json()
        asked = sum(PROMPT_OF_SUMMARIES in prompt for prompt in app.prompts)
    assert (asked, len(parts(answer))) == (expected, expected)


async def test_an_unknown_value_is_refused(open_app: OpenApp) -> None:
    async with open_app(thought(SHORT)) as app:
        for path, body in (
            (RESPONSES, {"input": "hi"}),
            (CHAT, {"model": "scripted", "messages": [{"role": "user", "content": "hi"}]}),
        ):
            for value in ("long", ["auto"]):
                refused = await app.post(path, {**body, "reasoning": {"summary": value}})
                assert refused.status_code == 400
                assert refused.json()["error"]["param"] == "reasoning.summary"


async def test_little_reasoning_has_no_summary(open_app: OpenApp) -> None:
    async with open_app(summaries(verdict()), thought("Easy."), **HIDDEN) as app:
        answer = (await app.post(RESPONSES, ASKED)).json()
    assert parts(answer) == []


async def test_without_a_model_the_summary_has_sentences_of_the_reasoning(
    open_app: OpenApp,
) -> None:
    async with open_app(thought(f"{SHORT}\n\nSo it is May.")) as app:
        events = await stream(app, ASKED)
    check(events)
    (part,) = parts(events[-1]["response"])
    assert part == f"**The user wants to know which**\n\n{SENTENCE}So it is May."
    assert events[-1]["response"]["output"][0]["gpt_oss:quotes_reasoning"] is True
    assert "gpt_oss:summary_usage" not in events[-1]["response"]


async def test_what_is_withheld_is_not_shown(open_app: OpenApp) -> None:
    async with open_app(summaries(WITHHOLD), thought(SHORT), **HIDDEN) as app:
        answer = (await app.post(RESPONSES, ASKED)).json()
    assert parts(answer) == ["**A step is not shown**"]
    assert answer["gpt_oss:summary_usage"]["parts"]["withheld"] == 1


async def test_a_copied_instruction_is_withheld(open_app: OpenApp) -> None:
    rule = "never tell anyone that the merger with Northwind happens in May"
    leak = verdict(text=f"It was asked to NEVER  tell anyone that the merger with {'Northwind'}.")
    async with open_app(summaries(leak), thought(SHORT), **HIDDEN) as app:
        answer = (await app.post(RESPONSES, {**ASKED, "instructions": f"You {rule}."})).json()
        plain = (await app.post(RESPONSES, ASKED)).json()
    assert parts(answer) == ["**A step is not shown**"]
    assert "merger" in parts(plain)[0]


async def test_a_summariser_that_cannot_be_read_marks_the_part(open_app: OpenApp) -> None:
    async with open_app(summaries("no JSON"), thought(SHORT), **HIDDEN) as app:
        events = await stream(app, ASKED)
    check(events)
    assert parts(events[-1]["response"]) == [""]
    assert events[-1]["response"]["status"] == "completed"
    assert events[-1]["response"]["gpt_oss:summary_usage"]["parts"]["failed"] == 1


async def test_a_late_part_is_marked_and_the_answer_goes_on(open_app: OpenApp) -> None:
    slow = summaries(verdict(), delay_ms=60_000)
    async with open_app(slow, thought(SHORT), **{**HIDDEN, "summary_patience": 0.01}) as app:
        events = await stream(app, ASKED)
        await app.backend.until_running(0)
    check(events)
    assert parts(events[-1]["response"]) == [""]
    assert events[-1]["response"]["gpt_oss:summary_usage"]["parts"]["late"] == 1


async def test_summaries_take_free_slots_only(open_app: OpenApp) -> None:
    async with open_app(summaries(verdict()), thought(SHORT), **HIDDEN, max_running=1) as app:
        answer = (await app.post(RESPONSES, ASKED)).json()
        counts = app.app.state.context.gateway.summaries
    assert parts(answer) == []
    assert answer["gpt_oss:summary_usage"]["parts"]["skipped"] == 1
    assert counts == {"skipped": 1}


async def test_truncated_reasoning_has_a_summary(open_app: OpenApp) -> None:
    async with open_app(summaries(verdict()), thought(SHORT), **HIDDEN) as app:
        events = await stream(app, {**ASKED, "max_output_tokens": 60})
    check(events)
    assert events[-1]["response"]["status"] == "incomplete"
    assert parts(events[-1]["response"]) == [PART]


async def test_a_background_response_and_its_resumed_stream_have_the_summary(
    open_app: OpenApp, store: Any
) -> None:
    async with open_app(summaries(verdict()), thought(PARAGRAPH), store=store, **HIDDEN) as app:
        begun = (await app.post(RESPONSES, {**ASKED, "background": True})).json()
        path = f"{RESPONSES}/{begun['id']}"
        await app.until_idle()
        answer = await app.client.get(path, params={"stream": "true"})
        lines = (line.removeprefix("data: ") for line in answer.text.splitlines())
        events = [json.loads(line) for line in lines if line.startswith("{")]
        later = await app.client.get(path, params={"stream": "true", "starting_after": 3})
    check(events)
    assert parts(events[-1]["response"]) == [PART]
    assert "response.reasoning_summary_part.added" in later.text


async def test_summaries_are_never_rendered_back(open_app: OpenApp) -> None:
    lines = summaries(verdict()), thought(SHORT)
    async with open_app(*lines, **HIDDEN) as app:
        first = (await app.post(RESPONSES, {**ASKED, "store": False})).json()
        more = [*first["output"], {"role": "user", "content": "And then?"}]
        await app.post(RESPONSES, {**ASKED, "input": more})
        prompts = [prompt for prompt in app.prompts if PROMPT_OF_SUMMARIES not in prompt]
    assert "Comparing dates" not in prompts[-1]
    assert "And then?" in prompts[-1]


async def test_encrypted_reasoning_is_unchanged_by_a_summary(open_app: OpenApp) -> None:
    include = {"include": ["reasoning.encrypted_content"], "store": False}
    call = "<|channel|>commentary to=functions.f <|constrain|>json<|message|>{}<|call|>"
    completion = f"<|channel|>analysis<|message|>{SHORT}<|end|><|start|>assistant{call}"
    tool = {"type": "function", "name": "f", "parameters": {"type": "object"}}
    async with open_app(summaries(verdict()), completion, **HIDDEN) as app:
        answer = (await app.post(RESPONSES, {**ASKED, **include, "tools": [tool]})).json()
        reasoning, made = answer["output"]
        assert reasoning["content"] == []
        assert parts(answer) == [PART]
        result = {"type": "function_call_output", "call_id": made["call_id"], "output": "1"}
        await app.post(
            RESPONSES, {**include, "input": ["hi", reasoning, made, result][1:], "tools": [tool]}
        )
        prompts = [prompt for prompt in app.prompts if PROMPT_OF_SUMMARIES not in prompt]
    assert SHORT.strip() in prompts[-1]
    assert "Comparing dates" not in prompts[-1]


async def test_compaction_asks_for_no_summary(open_app: OpenApp) -> None:
    async with open_app(summaries(verdict()), thought(SHORT, "A recap."), **HIDDEN) as app:
        done = await app.post(f"{RESPONSES}/compact", {"model": "scripted", "input": "hi"})
        assert done.status_code == 200
        assert [prompt for prompt in app.prompts if PROMPT_OF_SUMMARIES in prompt] == []


# Chat


def chat(**fields: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": "hi"}]
    return {"model": "scripted", "messages": messages, **fields}


async def ask(app: Any, **fields: Any) -> dict[str, Any]:
    answer = await app.post(CHAT, chat(**fields))
    assert answer.status_code == 200, answer.text
    message: dict[str, Any] = answer.json()["choices"][0]["message"]
    return message


def kinds(message: dict[str, Any]) -> list[tuple[str, int]]:
    return [(each["type"], each["index"]) for each in message.get("reasoning_details", ())]


async def test_chat_shows_the_summary_where_the_reasoning_is_hidden(open_app: OpenApp) -> None:
    lines = summaries(verdict()), thought(PARAGRAPH * 2)
    async with open_app(*lines, **HIDDEN, reasoning_content=True) as app:
        message = await ask(app)
        events = await stream(app, chat(stream_options={"include_usage": True}), CHAT)
    assert message["reasoning"] == message["reasoning_content"] == f"{PART}\n\n{PART}"
    assert kinds(message) == [("reasoning.summary", 0), ("reasoning.summary", 1)]
    assert [each["summary"] for each in message["reasoning_details"]] == [PART, PART]
    deltas = [event["choices"][0]["delta"] for event in events[:-1]]
    assert "".join(delta.get("reasoning", "") for delta in deltas) == message["reasoning"]
    assert "".join(delta.get("reasoning_content", "") for delta in deltas) == message["reasoning"]
    assert events[-1]["gpt_oss:summary_usage"]["parts"]["written"] == 2


async def test_chat_shows_the_summary_beside_reasoning_that_is_shown(open_app: OpenApp) -> None:
    async with open_app(summaries(verdict()), thought(SHORT), **MODEL) as app:
        message = await ask(app, reasoning={"summary": "concise"})
        without = await ask(app)
    assert message["reasoning"] == without["reasoning"] == SHORT
    assert kinds(message) == [("reasoning.text", 0), ("reasoning.summary", 1)]
    assert kinds(without) == [("reasoning.text", 0)]


async def test_chat_has_seals_beside_summaries(open_app: OpenApp) -> None:
    async with open_app(summaries(verdict()), thought(SHORT), **HIDDEN) as app:
        message = await ask(app, reasoning={"enabled": True})
    assert kinds(message) == [("reasoning.summary", 0), ("reasoning.encrypted", 1)]


@pytest.mark.parametrize(
    "fields",
    [
        {"reasoning": {"exclude": True, "summary": "auto"}},
        {"include_reasoning": False},
        {"reasoning": {"summary": None}},
        {"reasoning_effort": "none"},
    ],
)
async def test_chat_without_reasoning_asks_for_no_summary(open_app: OpenApp, fields: Any) -> None:
    async with open_app(summaries(verdict()), thought(SHORT), **HIDDEN) as app:
        message = await ask(app, **fields)
        assert [prompt for prompt in app.prompts if PROMPT_OF_SUMMARIES in prompt] == []
    assert "reasoning" not in message
    assert "reasoning.summary" not in json.dumps(message)


async def test_chat_never_renders_a_summary_back(open_app: OpenApp) -> None:
    lines = summaries(verdict()), thought(SHORT)
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    result = {"role": "tool", "tool_call_id": "c", "content": "1"}
    for keep in ({"reasoning"}, {"reasoning_content"}, {"reasoning", "reasoning_details"}):
        async with open_app(*lines, **HIDDEN, reasoning_content=True) as app:
            message = await ask(app)
            sent = {key: value for key, value in message.items() if key in keep}
            back = {"role": "assistant", "content": None, "tool_calls": [call], **sent}
            await app.post(CHAT, chat(messages=[*chat()["messages"], back, result]))
            prompts = [prompt for prompt in app.prompts if PROMPT_OF_SUMMARIES not in prompt]
        assert "functions.f" in prompts[-1]
        assert "Comparing dates" not in prompts[-1]


async def test_several_choices_have_summaries_of_their_own(open_app: OpenApp) -> None:
    async with open_app(summaries(verdict()), thought(SHORT), **HIDDEN) as app:
        answer = (await app.post(CHAT, chat(n=2))).json()
    assert [choice["message"]["reasoning"] for choice in answer["choices"]] == [PART, PART]
    assert answer["gpt_oss:summary_usage"]["parts"]["written"] == 2
