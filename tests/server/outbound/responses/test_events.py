"""Conversion of turn events to events of the Responses API, checked with the SDK's types."""

from dataclasses import replace
from typing import Any, get_args

import orjson
import pytest
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

from adapters.base import TokenLogprobs
from harmony.events import Header, MessageStarted
from harmony.messages import Author, Channel, Conversation, Message, Role
from server.errors import APIError, InvalidRequest, RateLimited, ServerFailed
from server.generation.plan import DeclaredTool, TurnPlan
from server.generation.recording import Record, RecordedCall
from server.generation.turn_events import (
    MessageClosed,
    TextDelta,
    TurnEvent,
    TurnFinished,
    Usage,
)
from server.outbound.responses.events import ResponsesOutbound
from server.outbound.responses.fold import fold
from server.schemas.responses import RECORD

TOOLS = (
    DeclaredTool("functions.f", "f"),
    DeclaredTool("functions.mail__send", "send", namespace="mail"),
    DeclaredTool("functions.sql", "sql", "custom"),
)
PLAN = TurnPlan(Conversation(()), tools=TOOLS)
CREATED: dict[str, Any] = {
    "id": "resp_1",
    "object": "response",
    "created_at": 1,
    "completed_at": None,
    "status": "in_progress",
    "incomplete_details": None,
    "error": None,
    "model": "m",
    "output": [],
    "tools": [],
    "tool_choice": "auto",
    "parallel_tool_calls": True,
    "usage": None,
}
ANALYSIS = Header(Channel.ANALYSIS)
FINAL = Header(Channel.FINAL)
PREAMBLE = Header(Channel.COMMENTARY)
CALL = Header(Channel.COMMENTARY, "functions.f", "json")

# Selected by their `type`, as clients do it: a plain union would accept a similar type.
EVENT_TYPES = {
    get_args(model.model_fields["type"].annotation)[0]: TypeAdapter(model)
    for model in get_args(get_args(ResponseStreamEvent)[0])
}


def check(event: dict[str, Any]) -> None:
    EVENT_TYPES[event["type"]].validate_json(orjson.dumps(event), strict=True)


def message(header: Header, text: str, *, complete: bool = True) -> list[TurnEvent]:
    closed_message = Message(
        Author(Role.ASSISTANT), text, header.channel, header.recipient, header.content_type
    )
    return [
        MessageStarted(0, header),
        *(TextDelta(0, character) for character in text),
        MessageClosed(0, header, closed_message, complete),
    ]


def finished(reason: Any = "stop") -> TurnFinished:
    return TurnFinished(reason, Usage(input=10, cached=4, output=7, reasoning=3))


def outbound(**options: Any) -> ResponsesOutbound:
    return ResponsesOutbound(CREATED, PLAN, now=lambda: 5.0, **options)


def play(out: ResponsesOutbound, *turn: TurnEvent) -> list[dict[str, Any]]:
    return [*out.start(), *(wire for event in turn for wire in out.push(event))]


def kinds(events: list[dict[str, Any]]) -> list[str]:
    return [event["type"].removeprefix("response.") for event in events]


def emit(*turn: TurnEvent, **options: Any) -> list[dict[str, Any]]:
    events = play(outbound(**options), *turn)
    for event in events:
        check(event)
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    return events


def test_the_events_are_in_the_specified_order() -> None:
    events = emit(*message(ANALYSIS, "a"), *message(FINAL, "bc"), finished())
    assert kinds(events) == [
        "created",
        "in_progress",
        "output_item.added",
        "content_part.added",
        "reasoning_text.delta",
        "reasoning_text.done",
        "content_part.done",
        "output_item.done",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "completed",
    ]
    assert [e["output_index"] for e in events if "output_index" in e] == [0] * 6 + [1] * 7


def test_the_completed_response_holds_all() -> None:
    response = emit(*message(ANALYSIS, "a"), *message(FINAL, "bc"), finished())[-1]["response"]
    Response.model_validate(response, strict=True)
    assert response["status"] == "completed"
    assert response["completed_at"] == 5
    assert response["usage"] == {
        "input_tokens": 10,
        "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 0},
        "output_tokens": 7,
        "output_tokens_details": {"reasoning_tokens": 3},
        "total_tokens": 17,
    }
    reasoning, answer = response["output"]
    assert reasoning | {"id": ""} == {
        "type": "reasoning",
        "id": "",
        "status": "completed",
        "summary": [],
        "content": [{"type": "reasoning_text", "text": "a"}],
    }
    part = {"type": "output_text", "text": "bc", "annotations": [], "logprobs": []}
    assert answer | {"id": ""} == {
        "type": "message",
        "id": "",
        "status": "completed",
        "role": "assistant",
        "phase": "final_answer",
        "content": [part],
    }


def test_the_fold_of_the_events_is_the_terminal_response() -> None:
    events = emit(*message(ANALYSIS, "a"), *message(CALL, "{}"), finished())
    assert fold(events) == events[-1]["response"]
    assert fold(events[:-1])["output"] == events[-1]["response"]["output"]


def test_events_of_an_item_have_its_id() -> None:
    events = emit(*message(ANALYSIS, "a"), *message(CALL, "{}"), finished())
    for index, item in enumerate(events[-1]["response"]["output"]):
        ids = {
            event.get("item_id") or event["item"]["id"]
            for event in events
            if event.get("output_index") == index
        }
        assert ids == {item["id"]}


def test_each_item_has_one_part() -> None:
    events = emit(*message(ANALYSIS, "ab"), *message(FINAL, "cd"), finished())
    assert kinds(events).count("content_part.added") == 2
    assert {e["content_index"] for e in events if "content_index" in e} == {0}


def test_an_item_is_added_without_its_text() -> None:
    added = [
        event["item"]
        for event in emit(*message(ANALYSIS, "a"), *message(FINAL, "b"), *message(CALL, "{}"))
        if event["type"] == "response.output_item.added"
    ]
    assert [item["status"] for item in added] == ["in_progress"] * 3
    assert [item.get("content", item.get("arguments")) for item in added] == [[], [], ""]


def test_a_preamble_is_a_message_with_its_phase() -> None:
    events = emit(*message(PREAMBLE, "Let me see."), *message(CALL, "{}"), finished())
    preamble, call = events[-1]["response"]["output"]
    assert preamble["phase"] == "commentary"
    assert preamble["content"][0]["text"] == "Let me see."
    assert call["type"] == "function_call"


def test_a_call_streams_its_arguments() -> None:
    events = emit(*message(CALL, '{"a":1}'), finished())
    deltas = [e["delta"] for e in events if e["type"].endswith("arguments.delta")]
    assert "".join(deltas) == '{"a":1}'
    done = next(e for e in events if e["type"].endswith("arguments.done"))
    assert (done["arguments"], done["name"]) == ('{"a":1}', "f")
    (item,) = events[-1]["response"]["output"]
    assert item["arguments"] == '{"a":1}'
    assert item["call_id"].startswith("call_")
    assert "namespace" not in item


def test_a_namespaced_call_has_the_bare_name() -> None:
    header = Header(Channel.COMMENTARY, "functions.mail__send", "json")
    (item,) = emit(*message(header, "{}"), finished())[-1]["response"]["output"]
    assert (item["namespace"], item["name"]) == ("mail", "send")


def test_a_custom_call_streams_its_input() -> None:
    events = emit(*message(Header(Channel.COMMENTARY, "functions.sql"), "select"), finished())
    assert kinds(events)[2:-1] == [
        "output_item.added",
        *["custom_tool_call_input.delta"] * 6,
        "custom_tool_call_input.done",
        "output_item.done",
    ]
    (item,) = events[-1]["response"]["output"]
    assert item | {"id": "", "call_id": ""} == {
        "type": "custom_tool_call",
        "id": "",
        "call_id": "",
        "status": "completed",
        "name": "sql",
        "input": "select",
    }


def test_the_recipient_decides_and_not_the_channel() -> None:
    header = Header(Channel.ANALYSIS, "functions.f", "json")
    (item,) = emit(*message(header, "{}"), finished())[-1]["response"]["output"]
    assert item["type"] == "function_call"


def test_an_undeclared_tool_is_a_function_call() -> None:
    header = Header(Channel.COMMENTARY, "python")
    (item,) = emit(*message(header, "1+1"), finished())[-1]["response"]["output"]
    assert (item["type"], item["name"], item["arguments"]) == ("function_call", "python", "1+1")


def test_a_message_without_text_has_an_empty_part() -> None:
    events = emit(*message(FINAL, ""), finished())
    assert "output_text.delta" not in kinds(events)
    (item,) = events[-1]["response"]["output"]
    assert [part["text"] for part in item["content"]] == [""]


def test_reasoning_without_text_has_no_content() -> None:
    events = emit(*message(ANALYSIS, ""), finished())
    assert kinds(events)[2:-1] == ["output_item.added", "output_item.done"]
    assert events[-1]["response"]["output"][0]["content"] == []


def test_an_answer_may_be_empty() -> None:
    events = emit(finished())
    assert kinds(events) == ["created", "in_progress", "completed"]
    assert events[-1]["response"]["output"] == []


def test_hidden_reasoning_is_stored_but_not_sent() -> None:
    out = outbound(hide_reasoning=True)
    events = play(out, *message(ANALYSIS, "secret"), *message(FINAL, "x"), finished())
    for event in events:
        check(event)
    assert "secret" not in str(events).replace("', '", "")
    assert not any("reasoning_text" in event["type"] for event in events)
    reasoning = events[-1]["response"]["output"][0]
    assert (reasoning["type"], reasoning["content"]) == ("reasoning", [])
    assert out.messages_by_item_id[reasoning["id"]].content == "secret"


def test_truncation_is_incomplete() -> None:
    events = emit(*message(ANALYSIS, "a"), *message(FINAL, "b", complete=False), finished("length"))
    assert events[-1]["type"] == "response.incomplete"
    response = events[-1]["response"]
    Response.model_validate(response, strict=True)
    assert response["status"] == "incomplete"
    assert response["incomplete_details"] == {"reason": "max_output_tokens"}
    assert response["completed_at"] is None
    assert [item["status"] for item in response["output"]] == ["completed", "incomplete"]


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ServerFailed("broke"), "server_error"),
        (RateLimited("full"), "rate_limit_exceeded"),
        (InvalidRequest("bad", param="seed", code="x"), "invalid_prompt"),
    ],
)
def test_an_error_is_sent_before_the_response_fails(error: APIError, code: str) -> None:
    out = outbound()
    opened, *_ = message(FINAL, "b")
    events = [*play(out, opened, TextDelta(0, "half")), *out.fail(error)]
    assert kinds(events)[-5:] == [
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "error",
        "failed",
    ]
    for event in events:
        check(event)
    error_event, failed = events[-2:]
    assert error_event["error"] == error.body()["error"]
    assert {
        error_event[key] == error_event["error"][key] for key in ("code", "message", "param")
    } == {True}
    assert failed["response"]["status"] == "failed"
    assert failed["response"]["error"] == {"code": code, "message": error.message}
    assert failed["response"]["output"][0]["status"] == "incomplete"
    assert [event["sequence_number"] for event in events] == list(range(len(events)))


def test_a_cancelled_response_has_the_status_cancelled() -> None:
    out = outbound()
    opened, *_ = message(CALL, "{}")
    events = [*play(out, opened, TextDelta(0, '{"a')), *out.cancel()]
    for event in events:
        check(event)
    response = events[-1]["response"]
    Response.model_validate(response, strict=True)
    assert response["status"] == "cancelled"
    assert response["output"][0]["arguments"] == '{"a'
    assert response["output"][0]["status"] == "incomplete"


def test_a_cancellation_between_items_sends_the_last_event_alone() -> None:
    out = outbound()
    assert kinds([*play(out, *message(FINAL, "x")), *out.cancel()])[-2:] == [
        "output_item.done",
        "incomplete",
    ]


def test_deltas_and_parts_have_logprobs() -> None:
    opened, closed = message(FINAL, "")
    sampled = TokenLogprobs(13225, -0.5, ((13225, -0.5), (12194, -1.0)))
    events = emit(opened, TextDelta(0, "Hello", (sampled,)), closed, finished())
    entry = {
        "token": "Hello",
        "logprob": -0.5,
        "bytes": list(b"Hello"),
        "top_logprobs": [
            {"token": "Hello", "logprob": -0.5, "bytes": list(b"Hello")},
            {"token": "Hi", "logprob": -1.0, "bytes": list(b"Hi")},
        ],
    }
    shown = orjson.loads(orjson.dumps(events))
    with_logprobs = [event["logprobs"] for event in shown if "logprobs" in event]
    assert with_logprobs == [[entry], [entry]]
    assert shown[-1]["response"]["output"][0]["content"][0]["logprobs"] == [entry]


def test_a_preamble_has_no_logprobs() -> None:
    opened, closed = message(PREAMBLE, "")
    sampled = TokenLogprobs(13225, -0.5)
    events = emit(opened, TextDelta(0, "Hello", (sampled,)), closed, finished())
    assert [event["logprobs"] for event in events if "logprobs" in event] == [[], []]


def test_messages_are_stored_by_item_id() -> None:
    out = outbound()
    events = play(out, *message(ANALYSIS, "a"), *message(CALL, "{}"), finished())
    items = events[-1]["response"]["output"]
    assert [out.messages_by_item_id[item["id"]].content for item in items] == ["a", "{}"]


@pytest.mark.parametrize("hidden", [False, True])
def test_reasoning_is_sealed_whether_or_not_it_is_shown_and_complete(hidden: bool) -> None:
    events = emit(
        *message(ANALYSIS, "a"),
        *message(FINAL, "b"),
        *message(ANALYSIS, "c", complete=False),
        finished("length"),
        hide_reasoning=hidden,
        seal=lambda sealed: f"sealed {sealed.content}",
    )
    output = events[-1]["response"]["output"]
    assert [item.get("encrypted_content") for item in output] == ["sealed a", None, "sealed c"]
    assert fold(events[:-1])["output"] == output
    assert "encrypted_content" not in output[1]


def test_token_ids_are_shown_on_request() -> None:
    end = TurnFinished("stop", Usage(2), prompt_token_ids=(1, 2), token_ids=(3,))
    ids = {"prompt_token_ids": (1, 2), "token_ids": (3,)}
    assert emit(end, show_ids=True)[-1]["response"].items() >= ids.items()
    assert not emit(end)[-1]["response"].keys() & ids.keys()


def test_a_record_is_shown_where_there_is_one() -> None:
    record = Record((), (RecordedCall("python", 5, 7),))
    shown = emit(replace(finished(), record=record))[-1]["response"][RECORD]
    assert shown["calls"] == [{"recipient": "python", "started_ms": 5, "ended_ms": 7}]
    assert RECORD not in emit(finished())[-1]["response"]


def test_a_response_is_queued_until_its_first_event() -> None:
    out = ResponsesOutbound({**CREATED, "status": "queued"}, PLAN)
    events = play(out, *message(FINAL, "x"))
    assert kinds(events)[:4] == ["created", "queued", "in_progress", "output_item.added"]
    assert [e["response"]["status"] for e in events[:3]] == ["queued", "queued", "in_progress"]
    assert "in_progress" not in kinds(events[3:])
    assert out.cancel()[-1]["response"]["status"] == "cancelled"


@pytest.mark.parametrize("end", ["cancel", "fail"])
def test_a_queued_response_may_end_before_its_first_event(end: str) -> None:
    out = ResponsesOutbound({**CREATED, "status": "queued"}, PLAN)
    events = [*out.start(), *(out.cancel() if end == "cancel" else out.fail(ServerFailed("x")))]
    assert kinds(events)[:2] == ["created", "queued"]
    assert "in_progress" not in kinds(events)
    assert events[-1]["response"]["output"] == []
