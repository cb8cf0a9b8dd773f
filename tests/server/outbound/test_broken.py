"""How a response ends whose server stopped while it was made."""

from typing import Any

import pytest

from server.outbound.broken import REASON, broken_off

STARTED: dict[str, Any] = {"id": "resp_1", "status": "in_progress", "output": []}
BEGUN = [
    {"type": "response.created", "response": STARTED, "sequence_number": 0},
    {"type": "response.in_progress", "response": STARTED, "sequence_number": 1},
]


def numbered(*events: dict[str, Any]) -> list[dict[str, Any]]:
    known = [*BEGUN, *events]
    return [{**event, "sequence_number": number} for number, event in enumerate(known)]


def test_one_without_events_gets_its_first_and_last() -> None:
    events = broken_off(STARTED, [])
    assert events[:2] == BEGUN
    assert [event["type"] for event in events[2:]] == ["error", "response.failed"]
    assert events[-1]["response"]["error"] == {"code": "server_error", "message": REASON}


def test_what_was_done_stays() -> None:
    item = {"id": "msg_1", "type": "message", "status": "completed", "content": []}
    known = numbered(
        {"type": "response.output_item.added", "output_index": 0, "item": item},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
    )
    events = broken_off(STARTED, known)
    assert events[:4] == known
    assert [event["sequence_number"] for event in events] == list(range(6))
    assert events[-1]["response"]["output"] == [item]


@pytest.mark.parametrize(
    ("kind", "delta", "body"),
    [
        ("function_call", "function_call_arguments", {"arguments": "ab"}),
        ("custom_tool_call", "custom_tool_call_input", {"input": "ab"}),
        (
            "reasoning",
            "reasoning_text",
            {"content": [{"type": "reasoning_text", "text": "ab"}]},
        ),
        (
            "message",
            "output_text",
            {"content": [{"type": "output_text", "text": "ab", "annotations": [], "logprobs": []}]},
        ),
    ],
)
def test_an_open_item_ends_incomplete_with_what_is_known(
    kind: str, delta: str, body: dict[str, Any]
) -> None:
    item = {"id": "x_1", "type": kind, "status": "in_progress", "name": "f"}
    known = numbered(
        {"type": "response.output_item.added", "output_index": 0, "item": item},
        {"type": f"response.{delta}.delta", "item_id": "x_1", "delta": "a"},
        {"type": f"response.{delta}.delta", "item_id": "x_1", "delta": "b"},
    )
    events = broken_off(STARTED, known)
    assert events[5]["type"] == "response.output_item.done"
    (shown,) = events[-1]["response"]["output"]
    assert shown == events[5]["item"] == {**item, **body, "status": "incomplete"}


def test_reasoning_of_which_nothing_was_told_has_no_content() -> None:
    item = {"id": "rs_1", "type": "reasoning", "status": "in_progress", "content": []}
    known = numbered({"type": "response.output_item.added", "output_index": 0, "item": item})
    (shown,) = broken_off(STARTED, known)[-1]["response"]["output"]
    assert shown["content"] == []
