"""Conversion of turn events to chat chunks, checked with the SDK's own types."""

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from adapters.base import TokenLogprobs
from harmony.events import Header, MessageStarted
from harmony.messages import Author, Channel, Conversation, Message, Role
from harmony.tokenizer import encode
from server.errors import InvalidRequest, ServerFailed
from server.generation.plan import TurnPlan
from server.generation.runs import WireEvent
from server.generation.turn_events import (
    MessageClosed,
    TextDelta,
    TurnEvent,
    TurnFinished,
    Usage,
)
from server.outbound.chat.chunks import ChatOutbound, ChatRenderOptions
from server.outbound.chat.fields import chunk_fields, encoder, usage_chunk
from server.outbound.chat.fold import fold
from server.schemas.chat import SEAL_DETAIL
from server.tools.base import ApprovalRequested
from tests.server.outbound.responses.test_events import ANALYSIS, CALL, FINAL, PLAN, PREAMBLE

KIND = "chat.completion.chunk"
SHARED = chunk_fields(
    KIND, "chatcmpl_1", created=1, model="m", include_usage=False, service_tier="default"
)
USAGE = Usage(input=10, cached=4, output=6, reasoning=2)
SQL = Header(Channel.COMMENTARY, "functions.sql")


def message(index: int, header: Header, *texts: str) -> list[TurnEvent]:
    closed = Message(Author(Role.ASSISTANT), "".join(texts), header.channel, header.recipient)
    return [
        MessageStarted(index, header),
        *(TextDelta(index, text) for text in texts),
        MessageClosed(index, header, closed, True),
    ]


def turn(*messages: tuple[Header, list[str]], reason: Any = "stop") -> list[TurnEvent]:
    events = [e for i, (header, texts) in enumerate(messages) for e in message(i, header, *texts)]
    return [*events, TurnFinished(reason, USAGE)]


def chunks(events: list[TurnEvent], plan: TurnPlan = PLAN, **options: Any) -> list[WireEvent]:
    outbound = ChatOutbound(SHARED, plan, ChatRenderOptions(**options))
    emitted = [*outbound.start(), *(chunk for event in events for chunk in outbound.push(event))]
    return [*emitted, usage_chunk(SHARED, [outbound.usage], per_prompt=1)]


def choice(*messages: tuple[Header, list[str]], reason: Any = "stop", **options: Any) -> Any:
    emitted = chunks(turn(*messages, reason=reason), **options)
    completion = fold(emitted)
    ChatCompletion.model_validate(completion, strict=True)
    return completion["choices"][0]


def deltas(events: list[TurnEvent], **options: Any) -> list[dict[str, Any]]:
    emitted = chunks(events, **options)
    return [chunk["choices"][0]["delta"] for chunk in emitted if chunk["choices"]]


def test_each_piece_of_text_is_a_chunk() -> None:
    emitted = deltas(turn((FINAL, ["a", "b"])))
    assert emitted == [
        {"role": "assistant", "content": None, "refusal": None},
        {"content": "a"},
        {"content": "b"},
        {},
    ]


@pytest.mark.parametrize("index", [0, 3])
def test_all_chunks_of_a_choice_have_its_index(index: int) -> None:
    outbound = ChatOutbound(SHARED, PLAN, index=index) if index else ChatOutbound(SHARED, PLAN)
    events = turn((ANALYSIS, ["Hm"]), (FINAL, ["Yes"]), (CALL, ["{}"]))
    emitted = [*outbound.start(), *(chunk for event in events for chunk in outbound.push(event))]
    assert {each["index"] for chunk in emitted for each in chunk["choices"]} == {index}


def test_preamble_and_answer_are_separated() -> None:
    only = choice((PREAMBLE, ["Let me", " see."]), (FINAL, ["Yes", "."]))
    assert only["message"]["content"] == "Let me see.\n\nYes."


def test_messages_of_reasoning_are_separated() -> None:
    only = choice((ANALYSIS, ["One."]), (PREAMBLE, ["Hm."]), (ANALYSIS, ["Two."]), (FINAL, ["Yes"]))
    assert only["message"]["reasoning"] == "One.\n\nTwo."
    assert only["message"]["content"] == "Hm.\n\nYes"


def test_an_empty_message_adds_no_separator() -> None:
    only = choice((PREAMBLE, []), (FINAL, ["Yes"]))
    assert only["message"]["content"] == "Yes"


def test_each_call_has_its_own_index() -> None:
    only = choice((CALL, ["{", "}"]), (SQL, ["select", " 1"]), (CALL, ["[]"]))
    first, second, third = only["message"]["tool_calls"]
    assert first["function"] == {"name": "f", "arguments": "{}"}
    assert second["custom"] == {"name": "sql", "input": "select 1"}
    assert third["function"] == {"name": "f", "arguments": "[]"}
    ids = {call["id"] for call in (first, second, third)}
    assert len(ids) == 3
    assert max(map(len, ids)) <= 40  # OpenAI's API takes no longer ones
    assert only["finish_reason"] == "tool_calls"
    assert only["message"]["content"] is None


def test_a_custom_tools_input_streams() -> None:
    _, opened, piece, _ = deltas(turn((SQL, ["select 1"])))
    (call,) = opened["tool_calls"]
    assert (call["index"], call["type"]) == (0, "custom")
    assert call["custom"] == {"name": "sql", "input": ""}
    assert piece == {"tool_calls": [{"index": 0, "custom": {"input": "select 1"}}]}


@pytest.mark.parametrize(
    ("recipient", "name"),
    [
        ("functions.f", "f"),
        ("functions.undeclared", "undeclared"),
        ("functions.mail__send", "mail__send"),
        ("python", "python"),
        ("browser.search", "browser.search"),
    ],
)
def test_a_call_is_named_as_the_next_request_names_it(recipient: str, name: str) -> None:
    only = choice((Header(Channel.COMMENTARY, recipient), ["{}"]))
    assert only["message"]["tool_calls"][0]["function"]["name"] == name


def test_the_first_legacy_call_is_the_legacy_one() -> None:
    only = choice((CALL, ["{", "}"]), (CALL, ["[]"]), legacy=True)
    assert only["message"]["function_call"] == {"name": "f", "arguments": "{}"}
    (other,) = only["message"]["tool_calls"]
    assert other["function"]["arguments"] == "[]"
    assert only["finish_reason"] == "function_call"


def test_a_truncated_call_finishes_with_length() -> None:
    only = choice((CALL, ['{"a']), reason="length")
    assert only["finish_reason"] == "length"
    assert only["message"]["tool_calls"][0]["function"]["arguments"] == '{"a'


def test_an_answer_without_text_or_calls_has_empty_content() -> None:
    assert choice((ANALYSIS, ["Hm"]), reason="length")["message"]["content"] == ""


def test_hidden_reasoning_appears_in_usage_alone() -> None:
    events = turn((ANALYSIS, ["secret"]), (FINAL, ["Yes"]))
    emitted = chunks(events, hide_reasoning=True)
    assert "secret" not in str(emitted)
    assert "reasoning_details" not in str(emitted)
    assert emitted[-1]["usage"]["completion_tokens_details"]["reasoning_tokens"] == 2


def test_json_content_is_the_answer_alone() -> None:
    only = choice((ANALYSIS, ["Hm."]), (PREAMBLE, ["Here it is:"]), (FINAL, ["{}"]), json=True)
    assert only["message"]["content"] == "{}"
    assert only["message"]["reasoning"] == "Hm.\n\nHere it is:"


def test_reasoning_is_repeated_under_its_alias() -> None:
    events = turn((ANALYSIS, ["Hm", "."]), (FINAL, ["Yes"]))
    first = deltas(events, alias=True)[1]
    assert first["reasoning"] == first["reasoning_content"] == "Hm"
    message = choice((ANALYSIS, ["Hm", "."]), (FINAL, ["Yes"]), alias=True)["message"]
    assert message["reasoning"] == message["reasoning_content"] == "Hm."
    assert "reasoning_content" not in choice((ANALYSIS, ["Hm."]))["message"]


def test_usage_adds_up_choices_and_counts_their_prompt_once() -> None:
    outbounds = [ChatOutbound(SHARED, PLAN, index=index) for index in range(2)]
    for outbound in outbounds:
        outbound.push(TurnFinished("stop", USAGE))
    last = usage_chunk(SHARED, [outbound.usage for outbound in outbounds], per_prompt=2)
    ChatCompletionChunk.model_validate(last, strict=True)
    assert last["choices"] == []
    usage = last["usage"]
    assert (usage["prompt_tokens"], usage["completion_tokens"]) == (10, 12)
    assert usage["total_tokens"] == 22
    assert usage["prompt_tokens_details"]["cached_tokens"] == 4
    assert usage["completion_tokens_details"]["reasoning_tokens"] == 4


def test_the_usage_chunk_is_left_out_unless_requested() -> None:
    outbound = ChatOutbound(SHARED, PLAN)
    outbound.push(TurnFinished("stop", USAGE))
    last = usage_chunk(SHARED, [outbound.usage], per_prompt=1)
    assert encoder(include_usage=False)(last) == (b"",)
    assert b'"prompt_tokens":10' in encoder(include_usage=True)(last)[0]
    (first,) = outbound.start()
    assert encoder(include_usage=False)(first)[0].startswith(b'data: {"id":"chatcmpl_1"')


def test_requested_usage_is_null_before_the_last_chunk() -> None:
    shared = chunk_fields(KIND, "c", created=1, model="m", include_usage=True)
    (first,) = ChatOutbound(shared, PLAN).start()
    assert first["usage"] is None
    assert "usage" not in SHARED


def logprobs(text: str) -> tuple[TokenLogprobs, ...]:
    return tuple(TokenLogprobs(token, -0.5, ((token, -0.5),)) for token in encode(text))


def test_logprobs_are_shown_for_the_answer_alone() -> None:
    plan = TurnPlan(Conversation(()), top_logprobs=1)
    events: list[TurnEvent] = [
        MessageStarted(0, ANALYSIS),
        TextDelta(0, "Hm", logprobs("Hm")),
        MessageStarted(1, PREAMBLE),
        TextDelta(1, "Ah", logprobs("Ah")),
        MessageStarted(2, FINAL),
        TextDelta(2, "Yes", logprobs("Yes")),
        TextDelta(2, "!", logprobs("!")),
        MessageStarted(3, ANALYSIS),
        TextDelta(3, "So", logprobs("So")),
        MessageStarted(4, CALL),
        TextDelta(4, "{}", logprobs("{}")),
        TurnFinished("stop", USAGE),
    ]
    emitted = chunks(events, plan)
    for chunk in emitted:
        ChatCompletionChunk.model_validate_json(orjson.dumps(chunk), strict=True)
    whole = [each for chunk in emitted for each in chunk["choices"] if each["logprobs"]]
    assert [each["delta"] for each in whole] == [{"content": "\n\nYes"}, {"content": "!"}]
    shown = orjson.loads(orjson.dumps(fold(emitted)["choices"][0]["logprobs"]))
    assert [entry["token"] for entry in shown["content"]] == ["Yes", "!"]
    assert shown["content"][0]["top_logprobs"][0]["bytes"] == list(b"Yes")
    assert fold(chunks(events))["choices"][0]["logprobs"] is None


def test_token_ids_are_shown_in_the_last_chunk_on_request() -> None:
    end = TurnFinished("stop", USAGE, prompt_token_ids=(1, 2), token_ids=(3,))
    completion = fold(chunks([end], show_ids=True))
    assert completion["prompt_token_ids"] == (1, 2)
    assert completion["choices"][0]["token_ids"] == (3,)
    assert "token_ids" not in str(fold(chunks([end])))


@pytest.mark.parametrize("hidden", [False, True])
def test_reasoning_is_sealed_whether_or_not_it_is_shown(hidden: bool) -> None:
    call = Header(Channel.ANALYSIS, "functions.f")
    only = choice(
        *((ANALYSIS, ["One."]), (PREAMBLE, ["Hm."]), (ANALYSIS, ["Two."]), (call, ["{}"])),
        hide_reasoning=hidden,
        seal=lambda sealed: f"sealed {sealed.content}",
    )
    details = only["message"]["reasoning_details"]
    sealed = [each for each in details if each["type"] == SEAL_DETAIL]
    assert [each["data"] for each in sealed] == ["sealed One.", "sealed Two."]
    assert [each["index"] for each in details] == ([0, 1] if hidden else [0, 1, 2])


def test_a_call_that_needs_an_approval_is_an_error() -> None:
    outbound = ChatOutbound(SHARED, PLAN)
    with pytest.raises(InvalidRequest, match="'add' of the MCP server 'srv'") as caught:
        outbound.push(ApprovalRequested({"name": "add", "server_label": "srv"}))
    assert (caught.value.param, caught.value.code) == ("tools", "approval_required")


def test_a_failure_is_the_error_body_and_a_cancellation_sends_nothing() -> None:
    outbound = ChatOutbound(SHARED, PLAN)
    (emitted,) = outbound.fail(ServerFailed("broken"))
    assert emitted["error"]["message"] == "broken"
    assert outbound.cancel() == []


headers = st.sampled_from([ANALYSIS, PREAMBLE, FINAL, CALL])
sampled = st.lists(st.tuples(headers, st.lists(st.text(min_size=1), max_size=3)), max_size=5)


@given(sampled, st.sampled_from(["stop", "length"]))
def test_every_chunk_is_the_sdks_and_the_fold_is_what_joining_gives(
    messages: list[tuple[Header, list[str]]], reason: str
) -> None:
    events = turn(*messages, reason=reason)
    emitted = chunks(events)
    for chunk in emitted:
        ChatCompletionChunk.model_validate(chunk, strict=True)
    completion = fold(emitted)
    ChatCompletion.model_validate(completion, strict=True)
    joined: dict[str, str] = {"content": "", "reasoning": ""}
    arguments: dict[int, str] = {}
    for chunk in emitted[:-1]:
        delta = chunk["choices"][0]["delta"]
        for field in joined:
            joined[field] += delta.get(field) or ""
        for call in delta.get("tool_calls", ()):
            index = call["index"]
            arguments[index] = arguments.get(index, "") + call["function"]["arguments"]
    whole = completion["choices"][0]["message"]
    assert (whole["content"] or "") == joined["content"]
    assert whole.get("reasoning", "") == joined["reasoning"]
    calls = whole.get("tool_calls", [])
    assert [call["function"]["arguments"] for call in calls] == list(arguments.values())
