"""Schemas of servers in the subset that is declared, compiled and checked."""

from contextlib import suppress
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.tools.mcp.arguments import InvalidArguments, read_arguments
from server.tools.mcp.flatten import MAX_NODES, TooLarge, flatten

DEFS = {"$defs": {"p": {"type": "object", "title": "P", "properties": {"c": {"type": "string"}}}}}
CITY = {"type": "object", "properties": {"c": {"type": "string"}}}
SAME = {
    "no properties": ({"type": "object"}, {"type": "object"}),
    "nothing": ({}, {"type": "object"}),
    "not an object": ({"type": "array"}, {"type": "object", "properties": {}}),
    "titles and dialects": (
        {"$schema": "x", "title": "T", "properties": {"a": {"title": "A", "type": "string"}}},
        {"type": "object", "properties": {"a": {"type": "string"}}},
    ),
    "a default of null": (
        {"properties": {"a": {"type": "string", "default": None}}},
        {"type": "object", "properties": {"a": {"type": "string"}}},
    ),
    "an optional value": (
        {"properties": {"a": {"anyOf": [{"type": "string"}, {"type": "null"}]}}},
        {"type": "object", "properties": {"a": {"type": ["string", "null"]}}},
    ),
    "a choice": (
        {"properties": {"a": {"anyOf": [{"type": "string", "minLength": 1}, {"type": "null"}]}}},
        {
            "type": "object",
            "properties": {"a": {"anyOf": [{"minLength": 1, "type": "string"}, {"type": "null"}]}},
        },
    ),
    "a reference": (
        {"properties": {"a": {"$ref": "#/$defs/p"}}, **DEFS},
        {"type": "object", "properties": {"a": CITY}},
    ),
    "a reference with a description": (
        {"properties": {"a": {"$ref": "#/$defs/p", "description": "D"}}, **DEFS},
        {"type": "object", "properties": {"a": {**CITY, "description": "D"}}},
    ),
    "a reference with a constraint": (
        {"properties": {"a": {"$ref": "#/$defs/p", "minProperties": 1}}, **DEFS},
        {"type": "object", "properties": {"a": {"allOf": [CITY, {"minProperties": 1}]}}},
    ),
    "a reference to nothing": (
        {"properties": {"a": {"$ref": "#/$defs/none"}}},
        {"type": "object", "properties": {"a": {}}},
    ),
    "a reference to itself": (
        {"properties": {"a": {"$ref": "#"}}},
        {"type": "object", "properties": {"a": {"properties": {"a": {}}}}},
    ),
    "a tuple of an older dialect": (
        {"properties": {"a": {"items": [{"type": "string"}], "additionalItems": False}}},
        {
            "type": "object",
            "properties": {"a": {"prefixItems": [{"type": "string"}], "items": False}},
        },
    ),
    "parts that are no schema": (
        {"properties": {"a": 7, "b": {"type": "x", "enum": [], "minLength": -1, "items": 3}}},
        {"type": "object", "properties": {"a": {}, "b": {}}},
    ),
    "keywords": (
        {
            "properties": {"a": {"type": "integer", "minimum": 1, "multipleOf": 0}},
            "required": ["a", 7, "a"],
            "additionalProperties": False,
        },
        {
            "type": "object",
            "properties": {"a": {"minimum": 1, "type": "integer"}},
            "required": ["a"],
            "additionalProperties": False,
        },
    ),
}


@pytest.mark.parametrize("case", SAME)
def test_a_schema_is_flattened(case: str) -> None:
    schema, flat = SAME[case]

    assert flatten(schema) == flat


def test_a_schema_of_too_many_parts_is_refused() -> None:
    parts = {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(40)}

    with pytest.raises(TooLarge, match=f"{MAX_NODES:,}"):
        flatten({"properties": {"a": {"$ref": "#/$defs/d0"}}, "$defs": parts})


def test_a_schema_of_too_many_properties_is_refused() -> None:
    with pytest.raises(TooLarge, match="properties"):
        flatten({"properties": {f"p{n}": True for n in range(5000)}})


WORDS = (
    *("type", "properties", "items", "anyOf", "enum", "required", "$ref", "oneOf", "allOf", "a"),
    *("additionalProperties", "minLength", "maximum", "multipleOf", "prefixItems"),
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(WORDS), inner, max_size=4)
    ),
    max_leaves=20,
)


@given(st.dictionaries(st.sampled_from(["type", "properties", "anyOf", "$ref"]), VALUES))
def test_what_comes_out_is_always_a_schema_that_can_be_checked(schema: dict[str, Any]) -> None:
    flat = flatten(schema)

    jsonschema.Draft202012Validator.check_schema(flat)
    with suppress(InvalidArguments):
        read_arguments('{"a": [1, "x", null, {"b": {}}]}', flat)
