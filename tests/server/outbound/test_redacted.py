"""Removing reasoning from what is stored, and from items that clients sent."""

from typing import Any

import pytest

from server.outbound.redacted import redacted_item, redacted_message, redacted_response
from server.outbound.summary_parts import QUOTED_FIELD
from server.schemas.chat import ALIAS, SEAL_DETAIL, SUMMARY_DETAIL, TEXT_DETAIL
from server.schemas.responses import RECORD


@pytest.mark.parametrize(
    ("summary", "shown"),
    [
        (
            {"summary": [{"type": "summary_text", "text": "a"}]},
            [{"type": "summary_text", "text": ""}],
        ),
        ({"summary": ["a", {"text": "b"}]}, [{"text": ""}]),
        ({"summary": "a"}, []),
        ({}, []),
    ],
)
def test_a_summary_of_any_form_that_quotes_reasoning_is_emptied(
    summary: dict[str, Any], shown: list[Any]
) -> None:
    item = {"type": "reasoning", QUOTED_FIELD: True, "content": [], **summary}
    assert redacted_item(item) == {**item, "summary": shown}


@pytest.mark.parametrize(
    ("content", "shown"),
    [
        ([{"type": "reasoning_text", "text": "secret"}], [{"type": "reasoning_text", "text": ""}]),
        ("secret", [{"type": "reasoning_text", "text": ""}]),
        ([], []),
        (None, None),
    ],
)
def test_reasoning_of_any_form_is_emptied(content: Any, shown: Any) -> None:
    item = {"type": "reasoning", "content": content, "encrypted_content": "sealed"}
    assert redacted_item(item) == {**item, "content": shown}


def test_items_that_are_no_reasoning_stay() -> None:
    item = {"type": "message", "content": [{"type": "output_text", "text": "Yes."}]}
    assert redacted_item(item) == item


@pytest.mark.parametrize("details", ["secret", 5, None, {"text": "secret"}, ["secret", 5]])
def test_details_of_any_form_are_left_out(details: Any) -> None:
    answer = {"role": "assistant", "content": "Yes."}
    assert redacted_message({**answer, "reasoning_details": details}) == answer


def test_sealed_reasoning_of_a_message_stays() -> None:
    sealed = {"type": SEAL_DETAIL, "data": "sealed"}
    message = {"content": "Yes.", "reasoning_details": [sealed], "reasoning": "secret"}
    assert redacted_message(message) == {"content": "Yes.", "reasoning_details": [sealed]}


def test_no_field_of_a_message_keeps_its_reasoning() -> None:
    answer = {"role": "assistant", "content": "Yes."}
    details = [{"type": TEXT_DETAIL, "text": "secret"}]
    reasoning = {"reasoning": "secret", ALIAS: "secret", "reasoning_details": details}
    assert redacted_message(answer | reasoning) == answer


def test_a_summary_that_quotes_the_reasoning_of_a_message_is_left_out() -> None:
    shown = {"type": SUMMARY_DETAIL, "summary": "It thought."}
    quoted = {"type": SUMMARY_DETAIL, "summary": "secret", QUOTED_FIELD: True}
    message = {"reasoning": "It thought.\n\nsecret", "reasoning_details": [shown, quoted]}
    assert redacted_message(message) == {"reasoning": "It thought.", "reasoning_details": [shown]}


def test_the_token_ids_of_a_response_are_left_out() -> None:
    response = {"id": "resp_1", "output": []}
    ids = {"prompt_token_ids": [1], "token_ids": [2], RECORD: {"ids": [2]}}
    assert redacted_response(response | ids) == response
