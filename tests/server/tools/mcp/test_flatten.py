"""Schemas of servers in the subset that is declared, compiled and checked."""

import json
from contextlib import suppress
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.tools.mcp.arguments import InvalidArguments, read_arguments
from server.tools.mcp.flatten import (
    MAX_DEPTH,
    MAX_NODES,
    MAX_TEXT,
    MAX_VALUES,
    TooLarge,
    flatten,
)

DEFS = {"$defs": {"p": {"type": "object", "title": "P", "properties": {"c": {"type": "string"}}}}}
CITY = {"type": "object", "properties": {"c": {"type": "string"}}}
SAME: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
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
    "an optional value that is repeated": (
        {"properties": {"a": {"anyOf": [{"type": "string"}, {"type": "null"}] * 8}}},
        {"type": "object", "properties": {"a": {"type": ["string", "null"]}}},
    ),
    "more types than there are": (
        {"properties": {"a": {"type": ["string"] * 8}}},
        {"type": "object", "properties": {"a": {}}},
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
    "names by a pattern": (
        {"patternProperties": {"^x-": {"type": "string"}}, "additionalProperties": False},
        {"type": "object"},
    ),
    "no names by a pattern": (
        {"patternProperties": {}, "additionalProperties": False},
        {"type": "object", "additionalProperties": False},
    ),
    "parts that are no schema": (
        {"properties": {"a": 7, "b": {"type": "x", "enum": [], "minLength": -1, "items": 3}}},
        {"type": "object", "properties": {"a": {}, "b": {}}},
    ),
    "keywords": (
        {
            "properties": {"a": {"minimum": 1, "multipleOf": 0, "maxItems": 0}},
            "required": ["a", 7, "a"],
            "additionalProperties": False,
        },
        {
            "type": "object",
            "properties": {"a": {"minimum": 1, "maxItems": 0}},
            "required": ["a"],
            "additionalProperties": False,
        },
    ),
}


@pytest.mark.parametrize("case", SAME)
def test_a_schema_is_flattened(case: str) -> None:
    schema, flat = SAME[case]

    assert flatten(schema) == flat


NODE = {
    "type": "object",
    "properties": {"next": {"oneOf": [{"type": "null"}, {"$ref": "#/$defs/node"}]}},
}
EXCEPT = [{"type": "string", "not": {"const": "any"}}, {"const": "any"}]


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"$ref": "#/$defs/node"}, {"next": None}),
        ({"oneOf": EXCEPT}, "any"),
        ({"oneOf": EXCEPT}, "other"),
    ],
    ids=["a reference to itself", "one left out", "others"],
)
def test_one_of_several_permits_all_that_it_did(schema: dict[str, Any], value: Any) -> None:
    """What is left of the alternatives may permit the same values."""
    arguments = {"a": value}
    flat = flatten({"properties": {"a": schema}, "$defs": {"node": NODE}})

    assert read_arguments(json.dumps(arguments), flat) == arguments


def test_none_of_several_is_refused() -> None:
    flat = flatten({"properties": {"a": {"oneOf": EXCEPT}}})

    with pytest.raises(InvalidArguments, match="not valid under any"):
        read_arguments('{"a": 7}', flat)


def test_a_schema_of_too_many_parts_is_refused() -> None:
    parts = {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(40)}

    with pytest.raises(TooLarge, match=f"{MAX_NODES:,}"):
        flatten({"properties": {"a": {"$ref": "#/$defs/d0"}}, "$defs": parts})


def test_a_schema_of_too_many_properties_is_refused() -> None:
    with pytest.raises(TooLarge, match="properties"):
        flatten({"properties": {f"p{n}": True for n in range(5000)}})


REPEATED: dict[str, dict[str, Any]] = {
    "a description": {"description": "x" * 1000},
    "a pattern": {"pattern": "x" * 1000},
    "a default": {"default": {"x" * 500: ["x" * 500]}},
    "a constant": {"const": "x" * 1000},
    "examples": {"examples": [[["x" * 1000]]]},
    "texts of an enum": {"enum": ["x" * 500, "y" * 500]},
    "numbers of an enum": {"enum": [1] * 1000},
    "required names": {"required": ["x" * 1000]},
    "names of properties": {"properties": {"x" * 1000: True}},
    "schemas that are no objects": {"anyOf": [True] * 1000},
    "unknown keywords": {f"x{n}": 1 for n in range(1000)},
    "a long reference": {"$ref": "#/$defs/" + "x" * 1000},
}


def referring(target: dict[str, Any], times: int) -> dict[str, Any]:
    references = {f"p{n}": {"$ref": "#/$defs/a"} for n in range(times)}
    return {"properties": references, "$defs": {"a": target}}


@pytest.mark.parametrize("case", REPEATED)
def test_what_references_repeat_too_often_is_refused(case: str) -> None:
    with pytest.raises(TooLarge, match=f"{MAX_TEXT:,} characters"):
        flatten(referring(REPEATED[case], 300))


@pytest.mark.parametrize("case", REPEATED)
def test_what_references_repeat_a_few_times_is_kept(case: str) -> None:
    flat = flatten(referring(REPEATED[case], 20))

    assert len(flat["properties"]) == 20


def test_a_text_that_is_not_declared_does_not_count() -> None:
    flat = flatten(referring({"title": "x" * MAX_TEXT, "enum": ["x" * MAX_TEXT] * 5000}, 2))

    assert flat["properties"] == {"p0": {}, "p1": {}}


@pytest.mark.parametrize(("levels", "leaf"), [(MAX_DEPTH, {"type": "string"}), (MAX_DEPTH + 1, {})])
def test_what_is_nested_too_deep_permits_all(levels: int, leaf: dict[str, Any]) -> None:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(levels):
        schema = {"properties": {"a": schema}}

    flat = flatten(schema)

    for _ in range(levels):
        flat = flat["properties"]["a"]
    assert flat == leaf


def test_an_enum_of_too_many_values_permits_all() -> None:
    most = {"enum": list(range(MAX_VALUES))}

    assert flatten({"properties": {"a": most}})["properties"]["a"] == most
    assert flatten({"properties": {"a": {"enum": [*most["enum"], -1]}}})["properties"]["a"] == {}


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
