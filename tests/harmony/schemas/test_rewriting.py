"""Schemas as llguidance reads them."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harmony.grammar import GrammarSpec, SchemaJson, answer_grammar
from harmony.schemas import check_strict, for_llguidance, relaxed, without_dialects
from harmony.tokenizer import encode
from harmony.typescript import type_of
from harmony.vocab import RETURN
from tests.harmony.drawing import Mask
from tests.harmony.schemas.drawing import closed

OLD = {"$schema": "http://json-schema.org/draft-07/schema#"}
PAIR = {"type": "array", "prefixItems": [{"type": "integer"}], "items": {"type": "null"}}


@pytest.mark.parametrize(
    "schema",
    [
        closed(a=PAIR) | OLD,
        closed(a=PAIR | OLD),
        closed(a={"$ref": "#/$defs/b"}) | {"$defs": {"b": PAIR | OLD}},
        closed(a={"anyOf": [PAIR | OLD]}),
    ],
)
def test_without_its_dialect_all_of_a_strict_schema_is_enforced(schema: dict[str, Any]) -> None:
    before = json.dumps(schema)
    start = Mask(answer_grammar(GrammarSpec(answer=SchemaJson(without_dialects(schema)))))
    assert start.copy().follow([*encode('{"a":[1,null]}'), RETURN]) is None
    assert start.copy().follow([*encode('{"a":[null,null]}'), RETURN]) is not None
    assert json.dumps(schema) == before


@pytest.mark.parametrize("identifier", ["https://example.org/inner", "my schema"])
def test_references_start_at_the_root_whatever_identifiers_stand_between(identifier: str) -> None:
    inner = {"$id": identifier, **closed(c={"$ref": "#/$defs/d"}), "$defs": {"d": {"const": 1}}}
    schema = closed(b=inner) | {"$defs": {"d": {"const": 2}}}
    check_strict(schema)
    assert "c: 2" in type_of(schema)
    start = Mask(answer_grammar(GrammarSpec(answer=SchemaJson(without_dialects(schema)))))
    assert start.copy().follow([*encode('{"b":{"c":2}}'), RETURN]) is None
    assert start.copy().follow([*encode('{"b":{"c":1}}'), RETURN]) is not None


def test_what_is_only_named_like_a_dialect_stays() -> None:
    schema = closed(
        **{
            "$schema": {"type": "string"},
            "$id": {"type": "null"},
            "a": {"const": OLD},
            "b": {"enum": [OLD]},
        }
    )
    assert without_dialects(schema) == schema


def test_a_schema_that_is_nested_deep_loses_its_dialect_too() -> None:
    schema: dict[str, Any] = {"type": "null"}
    for _ in range(10_000):
        schema = {"anyOf": [schema]}
    assert without_dialects(schema | OLD).keys() == {"anyOf"}


REFERENCE = {"$ref": "#/$defs/My Type"}


def test_references_are_rewritten_wherever_a_schema_stands() -> None:
    schema = closed(a={"anyOf": [REFERENCE]}, b={"type": "array", "items": REFERENCE})
    before = json.dumps(schema)
    written = json.dumps(for_llguidance(schema))
    assert written == before.replace("#/$defs/My Type", "#/%24defs/My%20Type")
    assert json.dumps(schema) == before


def test_what_is_only_named_like_a_reference_stays() -> None:
    schema = closed(**{"$ref": {"type": "string"}, "a": {"const": REFERENCE}, "b": {"$ref": 1}})
    assert for_llguidance(schema) == schema


@pytest.mark.parametrize("inner", [1, "#/a b", [1], {"a": 1}, [REFERENCE], {"a": [REFERENCE]}])
@pytest.mark.parametrize("word", ["properties", "anyOf", "items", "$defs"])
def test_what_is_no_schema_is_copied(word: str, inner: object) -> None:
    assert for_llguidance({word: inner}).keys() == {word}


NULLABLE = [
    {"type": "string"},
    {"type": ["string", "null"]},
    {"type": "string", "enum": ["b", None]},
    {"enum": ["b", "c"]},
    {"const": "b"},
    {"type": "string", "const": "b"},
    {"$ref": "#/$defs/b"},
    {"anyOf": [{"const": "b"}, {"type": "integer"}]},
    {"type": "string", "anyOf": [{"const": "b"}, {"const": "c"}]},
    {"oneOf": [{"const": "b"}, {"type": "null"}]},
    {"type": "string", "allOf": [{"minLength": 1}]},
    {"anyOf": [{"type": "string"}, {"type": "integer"}], "allOf": [{"const": "b"}]},
    {"$ref": "#/$defs/b", "anyOf": [{"const": "b"}, {"const": "c"}], "type": "string"},
    {"$ref": "#/$defs/b", "allOf": [{"minLength": 1}, {"maxLength": 1}]},
    {"oneOf": [{"const": "b"}], "allOf": [{"minLength": 1}], "anyOf": [{"type": "string"}]},
]


def accepts(schema: dict[str, Any], text: str) -> bool:
    start = Mask(answer_grammar(GrammarSpec(answer=SchemaJson(schema))))
    return start.follow([*encode(text), RETURN]) is None


@pytest.mark.parametrize("inner", NULLABLE, ids=json.dumps)
def test_what_is_nullable_may_be_null_or_its_own(inner: dict[str, Any]) -> None:
    schema = closed(a={**inner, "nullable": True}) | {"$defs": {"b": {"type": "string"}}}
    before = json.dumps(schema)
    assert accepts(schema, '{"a":null}')
    assert accepts(schema, '{"a":"b"}')
    assert not accepts(schema, '{"a":true}')
    assert json.dumps(schema) == before


@pytest.mark.parametrize("nullable", [False, "true", 1])
def test_what_is_not_nullable_may_not_be_null(nullable: object) -> None:
    assert not accepts(closed(a={"type": "string", "nullable": nullable}), '{"a":null}')


def test_objects_and_what_is_in_them_may_be_null() -> None:
    inner = closed(b={"type": "integer", "nullable": True}) | {"nullable": True}
    for text in ('{"a":null}', '{"a":{"b":null}}', '{"a":{"b":1}}'):
        assert accepts(closed(a=inner), text)


def test_a_nullable_root_is_an_object_all_the_same() -> None:
    schema = closed(a={"type": "null"}) | {"nullable": True}
    assert accepts(schema, '{"a":null}')
    assert not accepts(schema, "null")


INTEGER_AFTER = {"anyOf": [{"type": "string"}, {"type": "integer"}], "nullable": True}
LEADING = [
    closed(a=INTEGER_AFTER, b={"$ref": "#/properties/a/anyOf/1"}),
    closed(a=INTEGER_AFTER | {"allOf": [{"title": "any"}]}, b={"$ref": "#/properties/a/anyOf/1"}),
    closed(a={"$ref": "#/$defs/c", "nullable": True}, b={"type": "integer"})
    | {"$defs": {"c": {"type": "string"}}},
    closed(
        a={**closed(c={"type": "integer"}), "nullable": True},
        b={"$ref": "#/properties/a/properties/c"},
    ),
    {**closed(a={"type": "null"}, b={"type": "integer"}), "allOf": [{"$ref": "#/$defs/c"}]}
    | {"$defs": {"c": {"title": "any"}}, "nullable": True},
]


@pytest.mark.parametrize("schema", LEADING, ids=json.dumps)
def test_references_lead_where_they_led_before(schema: dict[str, Any]) -> None:
    check_strict(schema)
    assert accepts(schema, '{"a":null,"b":1}')
    assert not accepts(schema, '{"a":null,"b":null}')


COMPONENTS: dict[str, dict[str, Any]] = {
    "nullable": {"components": {"schemas": {"A": {"type": "integer", "nullable": True}}}},
    "nullable inside": {
        "components": {"schemas": {"A": {"anyOf": [{"type": "integer", "nullable": True}]}}}
    },
    "a reference that is no URI": {
        "components": {"schemas": {"A": {"$ref": "#/$defs/My Type"}}},
        "$defs": {"My Type": {"type": ["integer", "null"]}},
    },
    "a reference to elsewhere": {
        "components": {"schemas": {"A": {"$ref": "#/x-types/0"}}},
        "x-types": [{"$ref": "#/x-types/1/b"}, {"b": {"type": "integer", "nullable": True}}],
    },
    "a reference to one inside": {
        "components": {"schemas": {"A": {"anyOf": [{"$ref": "#/components/schemas/A/x"}]}}},
    },
}
COMPONENTS["a reference to one inside"]["components"]["schemas"]["A"]["x"] = {
    "type": "integer",
    "nullable": True,
}


@pytest.mark.parametrize("components", COMPONENTS.values(), ids=COMPONENTS)
def test_what_only_references_lead_to_is_rewritten_too(components: dict[str, Any]) -> None:
    schema = closed(a={"$ref": "#/components/schemas/A"}) | components
    before = json.dumps(schema)
    check_strict(schema)
    assert "a: number | null," in type_of(schema)
    assert accepts(schema, '{"a":null}')
    assert accepts(schema, '{"a":1}')
    assert not accepts(schema, '{"a":"1"}')
    assert json.dumps(schema) == before


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=1, max_size=4))
def test_a_definition_may_stand_under_any_keywords(names: list[str]) -> None:
    reference = "#/x-" + "/".join(
        name.replace("%", "%25").replace("~", "~0").replace("/", "~1") for name in names
    )
    definition: Any = {"type": "integer", "nullable": True}
    for name in reversed(names[1:]):
        definition = {name: definition}
    schema = closed(a={"$ref": reference}, b={"anyOf": [{"$ref": reference}]})
    schema[f"x-{names[0]}"] = definition
    assert accepts(schema, '{"a":null,"b":1}')
    assert not accepts(schema, '{"a":null,"b":"1"}')


def test_without_dialects_are_those_too_that_only_references_lead_to() -> None:
    schema = closed(a={"$ref": "#/components/b"}) | {"components": {"b": PAIR | OLD}}
    assert without_dialects(schema)["components"] == {"b": PAIR}


def test_schemas_with_references_to_each_are_copied_once() -> None:
    # If each were copied with all inside it, there would be millions.
    inner: dict[str, Any] = {"type": "integer", "nullable": True}
    for _ in range(300):
        inner = {"allOf": [inner], "title": "x"}
    references = [{"$ref": "#/x" + "/allOf/0" * level} for level in range(300)]
    written = for_llguidance({"anyOf": references, "x": inner})
    assert len(json.dumps(written["x"])) < 20_000
    assert '["integer", "null"]' in json.dumps(written["x"])


@pytest.mark.parametrize("reference", ["#/x/1", "#/x/0/b", "#/y", "#x", "#/x/a", 1, "#/x/1/0/0/0"])
def test_references_that_lead_to_no_schema_stay(reference: object) -> None:
    schema = {"$ref": reference, "x": ([{"a": 1}], ("a", [1]))}
    assert for_llguidance(schema)["$ref"] == reference


def test_a_property_may_be_named_nullable() -> None:
    schema = closed(nullable={"type": "boolean"})
    assert for_llguidance(schema) == schema


IDLE = {
    "unique": ({"type": "array", "items": {"type": "integer"}, "uniqueItems": False}, "[1,1]"),
    "names": ({"type": "object", "propertyNames": {"type": "string"}}, '{"b":1}'),
    "any names": ({"type": "object", "propertyNames": True}, '{"b":1}'),
    "multiples of one": ({"type": "integer", "multipleOf": 1}, "-3"),
    "nullable multiples of one": ({"type": ["integer", "null"], "multipleOf": 1.0}, "-3"),
}


@pytest.mark.parametrize(("inner", "text"), IDLE.values(), ids=IDLE)
def test_keywords_without_effect_are_dropped(inner: dict[str, Any], text: str) -> None:
    assert accepts(closed(a=inner), f'{{"a":{text}}}')
    assert not accepts(closed(a=inner), '{"a":"b"}')


@pytest.mark.parametrize(
    "schema",
    [
        {"uniqueItems": True},
        {"propertyNames": {"type": "integer"}},
        {"propertyNames": False},
        {"multipleOf": 1},
        {"type": "number", "multipleOf": 1},
        {"type": ["integer", "number"], "multipleOf": 1},
        {"type": "integer", "multipleOf": True},
        {"type": "integer", "multipleOf": 2},
    ],
    ids=json.dumps,
)
def test_keywords_with_an_effect_stay(schema: dict[str, Any]) -> None:
    assert for_llguidance(schema) == schema


BIG = 1234567890123456789
RELAXED = {
    "a large constant": ({"type": "integer", "const": BIG}, str(BIG)),
    "a large integer in an enum": ({"type": "integer", "enum": [1, BIG]}, str(BIG)),
    "a large constant beside a string": ({"oneOf": [{"const": BIG}, {"const": "b"}]}, str(BIG)),
    "a large enum beside a string": (
        {"oneOf": [{"enum": [BIG, [BIG], None]}, {"type": "string"}]},
        "[1]",
    ),
    "large bounds": ({"type": "integer", "minimum": -(2**63), "maximum": 2**63 - 1}, "-3"),
    "large fractions": ({"type": "number", "minimum": 0, "maximum": 1e300}, "1.5"),
    "negative multiples": ({"type": "number", "multipleOf": 0.01}, "-1.25"),
    "negative multiples in a range": (
        {"type": "number", "multipleOf": 0.01, "minimum": -90, "maximum": 90},
        "-1.25",
    ),
    "unique": ({"type": "array", "items": {"type": "integer"}, "uniqueItems": True}, "[1,2]"),
    "names": ({"type": "object", "propertyNames": {"maxLength": 3}}, '{"b":1}'),
    "formats": ({"type": "string", "format": "password"}, '"b"'),
}


@pytest.mark.parametrize(("inner", "text"), RELAXED.values(), ids=RELAXED)
def test_all_but_what_is_not_enforced_as_defined_is_enforced(
    inner: dict[str, Any], text: str
) -> None:
    schema = closed(a=inner, b={"type": "integer", "maximum": 9})
    before = json.dumps(schema)
    assert accepts(relaxed(schema), f'{{"a":{text},"b":1}}')
    assert not accepts(relaxed(schema), '{"a":true,"b":1}')
    assert not accepts(relaxed(schema), f'{{"a":{text},"b":10}}')
    assert json.dumps(schema) == before


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "integer", "multipleOf": 5, "minimum": 0},
        {"type": "integer", "multipleOf": 5, "exclusiveMinimum": 0},
        {"type": "string", "format": "date"},
        {"enum": [1, "b", 2**53, None, True], "minimum": -(2**53)},
    ],
    ids=json.dumps,
)
def test_what_is_enforced_as_defined_stays(schema: dict[str, Any]) -> None:
    assert relaxed(closed(a=schema)) == closed(a=schema)
