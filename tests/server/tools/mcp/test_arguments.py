"""The arguments that the model wrote."""

import json
from typing import Any

import pytest

from server.tools.mcp.arguments import InvalidArguments, read_arguments

SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"enum": ["x"]}},
    "required": ["a"],
}


@pytest.mark.parametrize(
    "content", ['{"a": 1}', ' {"a": 1, "b": "x", "c": null}\n', '{"a": 1}'.ljust(1 << 20)]
)
def test_valid_arguments_are_read(content: str) -> None:
    assert read_arguments(content, SCHEMA)["a"] == 1


def test_no_text_is_no_arguments() -> None:
    assert read_arguments(" ", {"type": "object"}) == {}


INVALID = {
    '{"a": "1"}': r"the arguments\['a'\] do not fit the schema: '1' is not of type 'integer'",
    '{"a": 1, "b": "y"}': r"the arguments\['b'\] do not fit",
    "{}": "'a' is a required property",
    "[]": "not a JSON object",
    "{'a': 1}": "not JSON",
    " " * (1 << 20) + "{}": "more than 1,048,576 characters",
}


@pytest.mark.parametrize("content", INVALID, ids=range(len(INVALID)))
def test_invalid_arguments_are_explained(content: str) -> None:
    with pytest.raises(InvalidArguments, match=INVALID[content]):
        read_arguments(content, SCHEMA)


UNION = [{"type": "integer", "minimum": 1000 + n} for n in range(500)]


@pytest.mark.parametrize(
    ("value", "schema"),
    [
        ([1] * 500, {"type": "array", "items": {"anyOf": UNION}}),
        ("x" * 500_000, {"anyOf": UNION}),
        ([{}] * 200, {"items": {"required": [f"p{n}" for n in range(4000)]}}),
    ],
    ids=["values", "characters", "names"],
)
def test_what_takes_too_long_to_check_is_left_to_the_server(value: Any, schema: Any) -> None:
    arguments = {"a": value}

    read = read_arguments(json.dumps(arguments), {"properties": {"a": schema}})

    assert read == arguments


def test_many_arguments_are_checked_against_a_small_schema() -> None:
    schema = {"properties": {"a": {"type": "array", "items": {"type": "integer"}}}}
    arguments = json.dumps({"a": [*range(10_000), "x"]})

    with pytest.raises(InvalidArguments, match="is not of type 'integer'"):
        read_arguments(arguments, schema)
