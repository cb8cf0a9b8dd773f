"""Reasoning that clients kept, as text and sealed."""

from typing import Any

import pytest

from harmony.messages import Author, Channel, Message, Role
from server.errors import InvalidRequest
from server.replay.reasoning_fields import reasoning_of

SEALED = {
    "one": Message(Author(Role.ASSISTANT), "One.", Channel.ANALYSIS, tokens=(1, 2)),
    "empty": Message(Author(Role.ASSISTANT), "", Channel.ANALYSIS, tokens=()),
    "two": Message(Author(Role.ASSISTANT), "Two.", Channel.ANALYSIS, tokens=(3,)),
}
FORMAT = "openai-responses-v1"


def unseal(seal: str, param: str) -> Message:
    if seal not in SEALED:
        raise InvalidRequest("no seal", param=param, code="invalid_encrypted_content")
    return SEALED[seal]


def seal(data: Any, **fields: Any) -> dict[str, Any]:
    return {"type": "reasoning.encrypted", "data": data, "format": FORMAT} | fields


def text(said: str | None) -> dict[str, Any]:
    return {"type": "reasoning.text", "text": said, "format": "unknown"}


def read(*details: Any, **fields: Any) -> list[Message]:
    return reasoning_of({"reasoning_details": list(details), **fields}, "messages.1", unseal)


def test_what_was_sealed_is_what_the_model_said_token_by_token() -> None:
    assert read(seal("one"), seal("two")) == [SEALED["one"], SEALED["two"]]


def test_a_seal_that_comes_twice_is_used_once() -> None:
    assert read(seal("one"), seal("one", id="other")) == [SEALED["one"]]


@pytest.mark.parametrize(
    ("details", "fields"),
    [
        ([text("One."), seal("one")], {}),
        ([seal("one")], {"reasoning": "One."}),
        ([seal("one")], {"reasoning_content": "One."}),
        ([text("One."), seal("one")], {"reasoning": "One.", "reasoning_content": "One."}),
    ],
)
def test_text_that_says_the_same_is_not_said_again(details: Any, fields: Any) -> None:
    assert read(*details, **fields) == [SEALED["one"]]


@pytest.mark.parametrize(
    "details",
    [
        # As a stream has them, and as a whole answer does.
        [text("One."), seal("one"), text("\n\nTwo."), seal("two")],
        [text("One.\n\nTwo."), seal("one"), seal("two")],
    ],
)
def test_two_stretches_are_two_messages(details: Any) -> None:
    assert read(*details) == [SEALED["one"], SEALED["two"]]


def test_reasoning_that_says_nothing_leaves_no_gap() -> None:
    assert read(text("One."), seal("empty"), seal("one")) == [SEALED["empty"], SEALED["one"]]


@pytest.mark.parametrize("fields", [{}, {"reasoning": "Other."}])
def test_text_that_the_client_changed_counts(fields: Any) -> None:
    (message,) = read(text("Other."), seal("one"), **fields)
    assert message == Message(Author(Role.ASSISTANT), "Other.", Channel.ANALYSIS)


@pytest.mark.parametrize("form", ["anthropic-claude-v1", "google-gemini-v1", "unknown", None])
def test_another_models_seal_is_passed_over(form: str | None) -> None:
    assert read(seal("gAAAA", format=form)) == []


@pytest.mark.parametrize(
    ("details", "param"),
    [
        ([text("One."), seal("broken")], "messages.1.reasoning_details.1.data"),
        ([seal(None)], "messages.1.reasoning_details.0.data"),
        ([seal("one"), 1], "messages.1.reasoning_details.1"),
        ([text(1)], "messages.1.reasoning_details.0.text"),  # type: ignore[arg-type]
    ],
)
def test_a_bad_detail_is_named(details: Any, param: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        read(*details)
    assert refused.value.param == param
