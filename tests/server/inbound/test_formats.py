"""The answer format in requests of both APIs."""

from typing import Any

import pytest

from harmony.messages import ResponseFormat
from server.errors import InvalidRequest
from server.inbound.formats import JSON_OBJECT, AnswerFormat, read_format

SCHEMA = {"$schema": "http://json-schema.org/draft-07/schema#", "type": "object"}


@pytest.mark.parametrize("value", [None, {}, {"type": "text"}])
def test_plain_text_has_no_format(value: Any) -> None:
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
def test_a_json_schema_is_declared(value: Any, param: str) -> None:
    assert read_format(value, "text.format") == AnswerFormat(
        ResponseFormat("n", SCHEMA), param, strict=True
    )


def test_json_object_is_a_schema() -> None:
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
def test_an_error_names_the_bad_field(value: Any, param: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        read_format(value, "p")
    assert caught.value.param == param
