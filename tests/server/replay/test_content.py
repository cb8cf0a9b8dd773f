"""Content fields as text."""

from typing import Any

import pytest

from server.errors import InvalidRequest
from server.replay.content import refuse_unreadable, text_of
from server.schemas.limits import MAX_ITEMS


def test_a_string_is_its_own_text() -> None:
    assert text_of("a\nb", "content") == "a\nb"


def test_parts_are_joined() -> None:
    parts = [
        {"type": "input_text", "text": "a"},
        {"type": "text", "text": "b"},
        {"type": "refusal", "refusal": "c"},
    ]
    assert text_of(parts, "content") == "a\nb\nc"
    assert text_of(parts, "content", separator="") == "abc"


@pytest.mark.parametrize(
    ("part", "note"),
    [
        (
            {"type": "input_image", "image_url": "data:image/png;base64,AAAA"},
            "[image left out: this model reads text only]",
        ),
        (
            {"type": "image_url", "image_url": {"url": "x"}},
            "[image left out: this model reads text only]",
        ),
        (
            {"type": "input_file", "filename": "a.pdf", "file_data": "…"},
            "[file 'a.pdf' left out: this model reads text only]",
        ),
        (
            {"type": "file", "file": {"filename": "a.pdf"}},
            "[file 'a.pdf' left out: this model reads text only]",
        ),
    ],
)
def test_a_note_for_the_model_replaces_other_content(part: Any, note: str) -> None:
    assert text_of([part], "content") == note


@pytest.mark.parametrize(
    ("value", "param"),
    [
        (None, "content"),
        (3, "content"),
        (["a"], "content.0"),
        ([{"text": "a"}], "content.0.type"),
        ([{"type": "text", "text": "a"}, {"type": "text"}], "content.1.text"),
        ([{"type": "input_smell"}], "content.0.type"),
    ],
)
def test_an_error_names_the_bad_part(value: Any, param: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        text_of(value, "content")
    assert caught.value.param == param


def test_content_of_another_type_is_named_with_what_it_may_be() -> None:
    with pytest.raises(InvalidRequest, match="expected a string or an array, but got null"):
        text_of(None, "content")


def test_audio_is_refused() -> None:
    with pytest.raises(InvalidRequest) as caught:
        text_of([{"type": "input_audio", "input_audio": {}}], "content")
    assert (caught.value.param, caught.value.code) == ("content.0", "unsupported_input")


@pytest.mark.parametrize("field", ["content", "output"])
def test_unreadable_parts_can_be_refused(field: str) -> None:
    parts = [{"type": "input_text", "text": "a"}, {"type": "input_image", "image_url": "x"}]
    with pytest.raises(InvalidRequest) as caught:
        refuse_unreadable([{"content": "hi"}, {field: parts}], "input")
    assert (caught.value.param, caught.value.code) == (f"input.1.{field}.1", "unsupported_input")
    assert "input_image" in caught.value.message


@pytest.mark.parametrize(
    "value",
    [None, "hi", [3], [{"content": [3]}], [{"content": None}], [{"content": [{"type": []}]}]],
)
def test_other_values_are_not_refused(value: Any) -> None:
    refuse_unreadable(value, "input")


def test_a_note_quotes_the_beginning_of_a_long_name() -> None:
    part = {"type": "input_file", "filename": "x" * 30_000_000}
    assert len(text_of([part], "content")) < 400


def test_the_number_of_parts_is_limited() -> None:
    with pytest.raises(InvalidRequest) as refused:
        text_of([{}] * (MAX_ITEMS + 1), "content")
    assert refused.value.param == "content"
