"""Reasoning that clients send back, as text and sealed."""

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


def text(content: str | None) -> dict[str, Any]:
    return {"type": "reasoning.text", "text": content, "format": "unknown"}


def read(*details: Any, **fields: Any) -> list[Message]:
    return reasoning_of({"reasoning_details": list(details), **fields}, "messages.1", unseal)


def test_sealed_messages_are_used_with_their_tokens() -> None:
    assert read(seal("one"), seal("two")) == [SEALED["one"], SEALED["two"]]


def test_text_of_another_format_is_another_models() -> None:
    other = text("Another model's.") | {"format": "anthropic-claude-v1"}
    assert read(other) == []
    assert read(other, reasoning="Another model's.") == []
    assert [each.content for each in read(other, text("One."))] == ["One."]


def test_the_joined_deltas_of_a_stream_are_ours() -> None:
    joined = text("One.") | {"format": "unknownunknownunknown"}
    assert [each.content for each in read(joined, reasoning="One.")] == ["One."]


def test_a_summary_of_another_format_beside_a_seal_is_no_reasoning() -> None:
    summary = {"type": "reasoning.summary", "summary": "S", "format": "anthropic-claude-v1"}
    assert read(summary, reasoning="S") == []
    assert read(summary, seal("one"), reasoning="S") == [SEALED["one"]]


def test_a_repeated_seal_is_used_once() -> None:
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
def test_equal_text_beside_a_seal_is_not_repeated(details: Any, fields: Any) -> None:
    assert read(*details, **fields) == [SEALED["one"]]


@pytest.mark.parametrize(
    "details",
    [
        # As a stream has them, and as a whole answer does.
        [text("One."), seal("one"), text("\n\nTwo."), seal("two")],
        [text("One.\n\nTwo."), seal("one"), seal("two")],
    ],
)
def test_two_seals_are_two_messages(details: Any) -> None:
    assert read(*details) == [SEALED["one"], SEALED["two"]]


def test_empty_reasoning_adds_no_separator() -> None:
    assert read(text("One."), seal("empty"), seal("one")) == [SEALED["empty"], SEALED["one"]]


@pytest.mark.parametrize("fields", [{}, {"reasoning": "Other."}])
def test_changed_text_replaces_the_seal(fields: Any) -> None:
    (message,) = read(text("Other."), seal("one"), **fields)
    assert message == Message(Author(Role.ASSISTANT), "Other.", Channel.ANALYSIS)


@pytest.mark.parametrize("form", ["anthropic-claude-v1", "google-gemini-v1", "unknown", None])
def test_a_seal_of_another_format_is_ignored(form: str | None) -> None:
    assert read(seal("gAAAA", format=form)) == []


@pytest.mark.parametrize(
    ("details", "param"),
    [
        ([text("One."), seal("unknown")], "messages.1.reasoning_details.1.data"),
        ([seal(None)], "messages.1.reasoning_details.0.data"),
        ([seal("one"), 1], "messages.1.reasoning_details.1"),
        ([text(1)], "messages.1.reasoning_details.0.text"),  # type: ignore[arg-type]
    ],
)
def test_an_error_names_the_bad_detail(details: Any, param: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        read(*details)
    assert refused.value.param == param
