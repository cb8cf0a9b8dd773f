"""The form of the answer, as both APIs ask for it."""

from typing import Any

import pytest

from harmony.messages import ResponseFormat
from server.errors import InvalidRequest
from server.inbound.formats import JSON_OBJECT, AnswerFormat, read_format

SCHEMA = {"$schema": "http://json-schema.org/draft-07/schema#", "type": "object"}


@pytest.mark.parametrize("value", [None, {}, {"type": "text"}])
def test_plain_text_is_no_format(value: Any) -> None:
    assert read_format(value, "text.format") is None


@pytest.mark.parametrize(
    ("value", "param"),
    [
        (
            {"type": "json_schema", "name": "n", "schema": SCHEMA, "strict": True},
            "text.format",
        ),
        (
            {
                "type": "json_schema",
                "json_schema": {"name": "n", "schema": SCHEMA, "strict": True},
            },
            "text.format.json_schema",
        ),
    ],
    ids=["responses", "chat"],
)
def test_a_schema_is_told_to_the_model(value: Any, param: str) -> None:
    assert read_format(value, "text.format") == AnswerFormat(
        ResponseFormat("n", SCHEMA), param, strict=True
    )


def test_any_json_object_is_a_schema_too() -> None:
    assert read_format({"type": "json_object"}, "p") == AnswerFormat(JSON_OBJECT, "p")


@pytest.mark.parametrize(
    ("value", "param"),
    [
        ("json", "p"),
        ({"type": "xml"}, "p.type"),
        ({"type": "json_schema", "schema": {}}, "p.name"),
        *(
            ({"type": "json_schema", "name": name, "schema": {}}, "p.name")
            for name in ("", "  ", "\0", "a\nb", "a\u200b", "a\u2028b", "\ud800", "a" * 257)
        ),
        ({"type": "json_schema", "name": "n"}, "p.schema"),
        ({"type": "json_schema", "name": "n", "schema": {}, "strict": 1}, "p.strict"),
        ({"type": "json_schema", "json_schema": {"schema": {}}}, "p.json_schema.name"),
    ],
)
def test_a_bad_format_is_refused_by_its_field(value: Any, param: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        read_format(value, "p")
    assert caught.value.param == param
