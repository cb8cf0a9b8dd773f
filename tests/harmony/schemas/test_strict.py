"""What strict mode takes and refuses."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harmony.schemas import UnsupportedSchema, check_strict, path_text, places
from tests.harmony.schemas.drawing import ANY_JSON, WORDS, closed, nested

SUPPORTED = {
    "empty": closed(),
    "scalars": closed(
        a={"type": "string", "pattern": "^a+$"},
        b={"type": "integer", "minimum": 0, "exclusiveMaximum": 9},
        c={"type": "number", "multipleOf": 0.5},
        d={"type": "boolean"},
        e={"type": ["string", "null"]},
        f={"type": "string", "format": "date-time"},
        g={"enum": ["a", 1, None]},
        h={"const": "a"},
    ),
    "arrays": closed(a={"type": "array", "items": {"type": "string"}, "minItems": 1}),
    "tuples": closed(a={"type": "array", "prefixItems": [{"type": "string"}], "items": False}),
    "choices": closed(a={"anyOf": [closed(b={"type": "string"}), {"type": "null"}]}),
    "definitions": {**closed(a={"$ref": "#/$defs/b"}), "$defs": {"b": {"type": "string"}}},
    "recursion": closed(a={"anyOf": [{"$ref": "#"}, {"type": "null"}]}),
    "pointer into a list": closed(
        a={"anyOf": [{"type": "string"}, {"type": "null"}]},
        b={"$ref": "#/properties/a/anyOf/0"},
    ),
    "pointer with escapes": {
        **closed(a={"$ref": "#/$defs/b~1c~0"}),
        "$defs": {"b/c~": {"type": "string"}},
    },
    "pointer as a URI": {
        **closed(a={"$ref": "#/$defs/My%20Type"}),
        "$defs": {"My Type": {"type": "string"}},
    },
    "pointer as it stands": {
        **closed(a={"$ref": "#/$defs/My Type"}),
        "$defs": {"My Type": {"type": "string"}},
    },
    "pointer to where no keyword leads": {
        **closed(a={"$ref": "#/$defs/group/b"}),
        "$defs": {"group": {"b": closed(c={"type": "string"})}},
    },
    "references in a row": {
        **closed(a={"$ref": "#/$defs/0"}),
        "$defs": {str(n): {"$ref": f"#/$defs/{n + 1}"} for n in range(4_000)}
        | {"4000": {"type": "string"}},
    },
    "annotations": closed(a={"type": "string", "title": "A", "description": "a", "x-mine": 1}),
    "ten levels": nested(10),
    "properties by pattern": closed(
        a={"additionalProperties": False, "patternProperties": {"^x": {"type": "string"}}}
    ),
    "keywords without effect": closed(
        a={"type": "array", "items": {"type": "string"}, "uniqueItems": False},
        b={"additionalProperties": False, "propertyNames": {"type": "string"}},
        c={"type": "integer", "multipleOf": 1, "minimum": -1},
    ),
    "multiples that are not negative": closed(
        a={"type": "integer", "multipleOf": 5, "minimum": 0, "exclusiveMaximum": 9},
        b={"enum": [0, 5], "multipleOf": 5},
        c={"type": "number", "multipleOf": 0.25, "exclusiveMaximum": 1},
    ),
    "as many properties as the limit": closed(**{f"p{n}": {"type": "null"} for n in range(5_000)}),
    "as many values as the limit": closed(a={"enum": list(range(1_000))}),
    "as many characters as the limit": closed(a={"const": "a" * 119_999}),
    "required of no object": closed(a={"type": "string", "required": ["b"]}),
}


@pytest.mark.parametrize("schema", SUPPORTED.values(), ids=SUPPORTED)
def test_the_documented_subset_is_supported(schema: dict[str, Any]) -> None:
    check_strict(schema)


UNSUPPORTED = {
    "$: the root": {"type": "array", "items": {"type": "string"}},
    "$.anyOf: the root": {**closed(), "anyOf": [closed()]},
    "$.additionalProperties: has to": {"type": "object", "properties": {}},
    "$.properties.a.additionalProperties": closed(a={"type": "object"}),
    "$.properties.a.anyOf[1].additionalProperties": closed(
        a={"anyOf": [closed(), {"properties": {}}]}
    ),
    "$.properties.a.additionalProperties: has": closed(
        a={"additionalProperties": {"type": "string"}}
    ),
    "$.properties.b.additionalProperties": closed(b={"patternProperties": {"^x": {"const": 1}}}),
    "$.properties.c.additionalProperties": closed(c={"required": []}),
    "$.properties.d.required: names 'e'": closed(
        d={"additionalProperties": False, "required": ["e"]}
    ),
    "$.required: has to name 'a'": {**closed(a={"type": "string"}), "required": []},
    "$.required: names 'b'": {**closed(), "required": ["b"]},
    "$.required: names ['b']": {**closed(), "required": [["b"]]},
    "$.required: expected a list": {**closed(), "required": "a"},
    "$.properties: expected an object": {**closed(), "properties": []},
    "$.properties.a: expected a schema": closed(a=1),
    "$.properties.a.type: 'text' is not": closed(a={"type": "text"}),
    "$.properties.a.type: 1 is not": closed(a={"type": ["string", 1]}),
    "$.properties.a.uniqueItems": closed(
        a={"type": "array", "items": {"type": "string"}, "uniqueItems": True}
    ),
    "$.properties.a.not": closed(a={"not": {"type": "string"}}),
    "$.properties.a: an array": closed(a={"type": "array"}),
    "$.properties.a.format": closed(a={"type": "string", "format": "phone"}),
    "$.properties.a.format: supported": closed(a={"type": "string", "format": {}}),
    "$.properties.a.pattern": closed(a={"type": "string", "pattern": 1}),
    "$.properties.a.enum: expected": closed(a={"enum": "a"}),
    "$.properties.a.const: 9007199254740993 is": closed(a={"const": {"b": [2**53 + 1]}}),
    "$.properties.a.minimum: -9007199254740993": closed(a={"minimum": -(2**53) - 1}),
    "$.properties.a.multipleOf: negative": closed(
        a={"type": "number", "multipleOf": 0.01, "minimum": -90, "maximum": 90}
    ),
    "$.properties.b.multipleOf: negative": closed(b={"multipleOf": 5, "exclusiveMaximum": 0}),
    "$.properties.c.multipleOf: negative": closed(c={"multipleOf": 5, "enum": [5, -5]}),
    "$.properties.d.multipleOf: negative": closed(d={"multipleOf": 5, "const": -5}),
    "$.properties.a.propertyNames: 'propertyNames' is not": closed(
        a={"additionalProperties": False, "propertyNames": {"type": "string", "maxLength": 3}}
    ),
    "$.properties.a.$ref: '#/$defs/b' leads to no": closed(a={"$ref": "#/$defs/b"}),
    "$.properties.a.$ref: 'http://x' leads to no": closed(a={"$ref": "http://x"}),
    "$.properties.a.$ref: '#/required/9' leads to no": closed(a={"$ref": "#/required/9"}),
    "$.properties.a.$ref: '#/required/1111": closed(a={"$ref": "#/required/" + "1" * 5_000}),
    "$.properties.a.$ref: '#/required/a' leads to no": closed(a={"$ref": "#/required/a"}),
    "$.properties.a.$ref: 1 leads to no": closed(a={"$ref": 1}),
    "$.components.b.additionalProperties: has to": {
        **closed(a={"$ref": "#/components/b"}),
        "components": {"b": {"type": "object"}},
    },
    "$.components.c.not: 'not' is": {
        **closed(a={"$ref": "#/components/b"}),
        "components": {"b": {"$ref": "#/components/c"}, "c": {"not": {}}},
    },
    "$.$ref: '#' leads back": {**closed(), "$ref": "#"},
    "$.$defs.b.$ref: '#/$defs/c' leads back": {
        **closed(),
        "$defs": {"b": {"$ref": "#/$defs/c"}, "c": {"$ref": "#/$defs/b"}},
    },
    "$" + ".properties.a" * 11 + ": nested in more": nested(11),
    "$: the schema has more than 5,000 properties": closed(
        **{f"p{n}": {"type": "null"} for n in range(5_001)}
    ),
    "$.properties.a: the schema has more than 1,000 enum": closed(a={"enum": list(range(1_001))}),
    "$.properties.a: the schema has more than 120,000": closed(a={"const": "a" * 120_000}),
}


@pytest.mark.parametrize(("message", "schema"), UNSUPPORTED.items(), ids=UNSUPPORTED)
def test_what_is_not_supported_is_named_with_its_path(message: str, schema: dict[str, Any]) -> None:
    with pytest.raises(UnsupportedSchema) as raised:
        check_strict(schema)
    assert str(raised.value).startswith(message)


def test_an_error_has_the_path_as_steps() -> None:
    with pytest.raises(UnsupportedSchema) as raised:
        check_strict(closed(a={"anyOf": [{"not": {}}]}))
    assert raised.value.path == ("properties", "a", "anyOf", 0, "not")
    assert path_text(raised.value.path) == "$.properties.a.anyOf[0].not"


def refusal(schema: dict[str, Any]) -> UnsupportedSchema | None:
    try:
        check_strict(schema)
    except UnsupportedSchema as error:
        return error
    return None


@given(st.dictionaries(WORDS, ANY_JSON))
def test_any_object_is_taken_or_refused_with_a_reason(schema: dict[str, Any]) -> None:
    for candidate in (schema, {**closed(a=schema), "$defs": {"b": schema}}):
        error = refusal(candidate)
        assert error is None or error.reason


def chain(levels: int) -> dict[str, Any]:
    """Schemas in schemas where no keyword leads, with a reference to each."""
    inner: dict[str, Any] = {"type": "null"}
    for _ in range(levels):
        inner = {"allOf": [inner]}
    references = {f"p{n}": {"$ref": "#/x" + "/allOf/0" * n} for n in range(levels)}
    return closed(**references) | {"x": inner}


def test_each_schema_is_visited_once(monkeypatch: pytest.MonkeyPatch) -> None:
    visited: list[Any] = []
    inner = places._inner

    def noted(place: Any) -> Any:
        visited.append(place)
        return inner(place)

    monkeypatch.setattr(places, "_inner", noted)
    check_strict(chain(50))
    assert len(visited) == len({id(place.schema) for place in visited}) == 102


class Unsearched(list[Any]):
    """A list in which nothing may be searched: each search would read it all."""

    def __contains__(self, value: object) -> bool:
        raise AssertionError(value)


def test_required_names_are_not_searched_in_a_list() -> None:
    check_strict(closed(a={"type": "null"}) | {"required": Unsearched(["a"])})
