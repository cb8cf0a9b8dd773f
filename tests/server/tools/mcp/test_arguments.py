"""The arguments that the model wrote."""

import pytest

from server.tools.mcp.arguments import InvalidArguments, read_arguments

SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"enum": ["x"]}},
    "required": ["a"],
}


@pytest.mark.parametrize("content", ['{"a": 1}', ' {"a": 1, "b": "x", "c": null}\n'])
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
