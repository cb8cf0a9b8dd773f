"""Which schemas certainly compile, and which cannot be followed."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from llguidance import LLMatcher, LLTokenizer

from harmony.grammar import GrammarSpec, SchemaJson, answer_grammar
from harmony.schemas import is_plain, is_wide
from harmony.schemas.compilation import MAX_OPEN
from tests.harmony.schemas.drawing import ANY_JSON, WORDS, closed, nested

PLAIN = {
    "no arguments": closed(),
    "texts": closed(a={"type": "string", "description": "An a.", "maxLength": 9}),
    "choices": closed(a={"type": "string", "enum": ["a", "b"]}),
    "the longest texts": closed(
        a={"type": "string", "maxLength": 1_000}, b={"type": "string", "minLength": 1_000}
    ),
    "scalars": closed(a={"type": "integer"}, b={"type": "boolean"}, c={"type": "null"}),
    "arrays": closed(a={"type": "array", "items": closed(b={"type": "number"})}),
    "open": {"type": "object", "properties": {"a": {"type": "string"}}},
    "any object": {"type": "object"},
}


@pytest.mark.parametrize("schema", PLAIN.values(), ids=PLAIN)
def test_small_and_simple_schemas_are_plain(schema: dict[str, Any]) -> None:
    assert is_plain(schema)
    assert not LLMatcher.validate_grammar(answer_grammar(GrammarSpec(answer=SchemaJson(schema))))


NOT_PLAIN = {
    "a property that nothing can be": {"type": "object", "properties": {"a": False}},
    "a property that anything can be": {"type": "object", "properties": {"a": True}},
    "items that nothing can be": {"type": "array", "items": False},
    "an untyped value": closed(a={}),
    "several types": closed(a={"type": ["string", "null"]}),
    "an unknown type": closed(a={"type": "text"}),
    "a reference": closed(a={"$ref": "#"}),
    "a pattern": closed(a={"type": "string", "pattern": "a"}),
    "a format": closed(a={"type": "string", "format": "date"}),
    "a range": closed(a={"type": "integer", "minimum": 3, "maximum": 1}),
    "a union": closed(a={"anyOf": [{"type": "string"}]}),
    "both lengths": closed(a={"type": "string", "minLength": 2, "maxLength": 1}),
    "a length of no string": closed(a={"type": "integer", "minLength": 2}),
    "a length that is none": closed(a={"type": "string", "minLength": "2"}),
    "an endless length": closed(a={"type": "string", "minLength": 1_001}),
    "a choice of nothing": closed(a={"type": "string", "enum": []}),
    "a choice of numbers": closed(a={"type": "integer", "enum": [1]}),
    "no list of choices": closed(a={"type": "string", "enum": "a"}),
    "an array of anything": closed(a={"type": "array"}),
    "items of no array": closed(a={"type": "string", "items": {"type": "string"}}),
    "properties of no object": closed(a={"type": "string", "properties": {}}),
    "properties that are a list": closed(a={"type": "object", "properties": []}),
    "properties that are null": {"type": "object", "properties": None},
    "unknown required": closed() | {"required": ["a"]},
    "required that is a number": closed(**{"1": {"type": "null"}}) | {"required": [1]},
    "a name that is no text": closed(**{"\ud800": {"type": "null"}}),
    "a choice that is no text": closed(a={"type": "string", "enum": ["\ud800"]}),
    "a description that is no text": closed(a={"type": "string", "description": "\ud800"}),
    "a title that is no text": closed(a={"type": "string", "title": "\ud800"}),
    "required that is none": closed() | {"required": "a"},
    "more of anything": {"type": "object", "additionalProperties": {"type": "string"}},
    "no schema": closed(a=1),
    "many values": closed(**{f"p{n}": {"type": "null"} for n in range(100)}),
    "deep": nested(11),
}


@pytest.mark.parametrize("schema", NOT_PLAIN.values(), ids=NOT_PLAIN)
def test_others_are_not_plain(schema: dict[str, Any]) -> None:
    assert not is_plain(schema)


@given(st.dictionaries(WORDS, ANY_JSON))
def test_a_plain_schema_compiles(schema: dict[str, Any]) -> None:
    for candidate in (schema, closed(a=schema)):
        if is_plain(candidate):
            text = answer_grammar(GrammarSpec(answer=SchemaJson(candidate)))
            assert not LLMatcher.validate_grammar(text)


def loose(count: int, prefix: str = "p", **more: Any) -> dict[str, Any]:
    """An object of optional properties."""
    properties = {f"{prefix}{number}": {"type": "string"} for number in range(count)}
    return {"type": "object", "properties": properties, **more}


def shapes(count: int) -> dict[str, tuple[dict[str, Any], str]]:
    """Schemas with a place where `count` optional properties are open; what to say to get there."""
    tenths = [loose(count // 10, f"p{number}_") for number in range(10)]
    shut: dict[str, Any] = {"additionalProperties": False}
    kinds = [
        loose(count // 10 + 1, prefix, required=[f"{prefix}{count // 10}"], **shut)
        for prefix in (f"p{number}_" for number in range(10))
    ]
    union = {"anyOf": [{"$ref": f"#/$defs/{number}"} for number in range(10)]}
    definitions = {str(number): each for number, each in enumerate(tenths)}
    row = {str(number): {"$ref": f"#/$defs/{number + 1}"} for number in range(20)}
    row["20"] = loose(count)
    return {
        "an object": (loose(count), "{"),
        "an object that requires others": (
            loose(count + 9, required=[f"p{number}" for number in range(count, count + 9)]),
            "{",
        ),
        "a closed object": (loose(count, **shut), "{"),
        "a union": ({"anyOf": tenths}, "{"),
        "one of several": ({"oneOf": kinds}, "{"),
        "all of several": ({"allOf": tenths}, "{"),
        "a union beside properties": (
            {**loose(count // 10), "anyOf": [loose(0, required=[f"p{n}"]) for n in range(10)]},
            "{",
        ),
        "inside an optional property": (loose(1, properties={"a": loose(count)}), '{"a":{'),
        "inside an array": ({"type": "array", "items": loose(count)}, "[{},{"),
        "behind references": (closed(a=union) | {"$defs": definitions}, '{"a":{'),
        "behind references in a row": ({"$ref": "#/$defs/0", "$defs": row}, "{"),
    }


def inner_shapes(count: int) -> dict[str, tuple[dict[str, Any], str]]:
    """As `shapes`, with the place deep inside, or under the same keys of several alternatives."""
    tenths = [loose(count // 10, f"p{number}_") for number in range(10)]
    nothing = {"type": "null"}
    beside = closed(k=tenths[0], **{f"a{n}": nothing for n in range(10)}) | {"required": []}
    deep = loose(count)
    for _ in range(20):
        deep = closed(a=deep)
    unions = {
        "items": ([{"type": "array", "items": each} for each in tenths], "[{},{"),
        "items at an index": (
            [{"type": "array", "prefixItems": [nothing, each], "minItems": 2} for each in tenths],
            "[null,{",
        ),
        "items at an index or anywhere": (
            [
                *({"type": "array", "prefixItems": [each], "minItems": 1} for each in tenths[1:]),
                {"type": "array", "items": tenths[0]},
            ],
            "[{",
        ),
        "values of a key": ([closed(k=each) for each in tenths], '{"k":{'),
        "values of any key": (
            [{"type": "object", "additionalProperties": each} for each in tenths],
            '{"k":{',
        ),
        "values of a key or of any": (
            [closed(k=tenths[0])]
            + [{"type": "object", "additionalProperties": each} for each in tenths[1:]],
            '{"k":{',
        ),
        "values of keys that match": (
            [
                {"type": "object", "patternProperties": {"^k": each}, "additionalProperties": False}
                for each in tenths
            ],
            '{"k":{',
        ),
    }
    return {name: ({"anyOf": union}, text) for name, (union, text) in unions.items()} | {
        "deep inside": (deep, '{"a":' * 20 + "{"),
        "values beside alternatives": (
            beside | {"anyOf": [{"required": ["k", f"a{n}"]} for n in range(10)]},
            '{"k":{',
        ),
        "references merged into alternatives": (
            {
                "anyOf": [
                    closed(k={"$ref": "#/$defs/k", "type": "object"}, **{f"a{n}": nothing})
                    for n in range(10)
                ],
                "$defs": {"k": tenths[0]},
            },
            '{"k":{',
        ),
        "alternatives of each other": (
            {
                "allOf": [
                    {"anyOf": [loose(count // 20, f"{side}{n}_") for n in range(n_sides)]}
                    for side, n_sides in (("x", 2), ("y", 5))
                ]
            },
            "{",
        ),
    }


SHAPES = {**shapes(0), **inner_shapes(0)}


def shape_of(name: str, count: int) -> tuple[dict[str, Any], str]:
    return {**shapes(count), **inner_shapes(count)}[name]


def follows(schema: dict[str, Any], text: str) -> bool:
    grammar = answer_grammar(GrammarSpec(answer=SchemaJson(schema)))
    matcher = LLMatcher(LLTokenizer("byte"), grammar.replace(" <[200002]>", ""), log_level=0)
    assert not matcher.is_error()
    return matcher.try_consume_tokens(list(text.encode())) == len(text) and not matcher.is_error()


@pytest.mark.parametrize("shape", SHAPES)
def test_what_is_not_wide_can_be_followed(shape: str) -> None:
    schema, text = shape_of(shape, MAX_OPEN)
    assert not is_wide(schema)
    assert follows(schema, text)


@pytest.mark.parametrize("shape", SHAPES)
def test_wide_schemas_are_recognised(shape: str) -> None:
    assert is_wide(shape_of(shape, MAX_OPEN + 20)[0])


@pytest.mark.parametrize("shape", inner_shapes(0))
def test_wide_places_inside_cannot_be_followed(shape: str) -> None:
    """Else there would be no need to look for them."""
    assert not follows(*shape_of(shape, 1_000))


def test_objects_of_a_thousand_optional_properties_cannot_be_followed() -> None:
    """Else there would be no need to look for them."""
    assert not follows(loose(1000), "{")


@pytest.mark.parametrize("annotation", [{"description": "The same in all."}, {"$anchor": "a"}])
def test_a_reference_in_many_alternatives_counts_once(annotation: dict[str, str]) -> None:
    reference = {"$ref": "#/$defs/k", **annotation}
    unions = [closed(k=reference, **{f"a{n}": {"type": "null"}}) for n in range(20)]
    schema = {"anyOf": unions, "$defs": {"k": loose(MAX_OPEN // 2)}}
    assert not is_wide(schema)
    assert follows(schema, '{"k":{')


def test_many_optional_properties_in_different_places_are_not_wide() -> None:
    schema: dict[str, Any] = {"type": "null"}
    for _ in range(8):
        schema = {"anyOf": [loose(MAX_OPEN // 4, properties={"a": schema}), {"type": "null"}]}
        schema["anyOf"][0]["properties"] |= loose(MAX_OPEN // 4)["properties"]
    assert not is_wide(schema)
    assert follows(schema, '{"a":' * 7 + "{")


MULTIPLYING: dict[str, dict[str, Any]] = {
    "alternatives": {"allOf": [{"anyOf": [{"title": "a"}, {"type": "null"}]}] * 64},
    "kinds": {"anyOf": [{}] * 100_000, "oneOf": [{}] * 100_000},
    "inner values": {
        "$ref": "#/$defs/a",
        "$defs": {
            "a": loose(1, properties={"b": {"$ref": "#/$defs/a", "type": "object"}})
            | {"anyOf": [{"required": ["b"]}, {"required": ["c"]}]}
        },
    },
    "keys": {
        "allOf": [
            {"properties": {str(n): {} for n in range(100_000)}},
            {"patternProperties": {str(n): {} for n in range(100_000)}},
        ],
        "required": [str(n) for n in range(100_000)],
    },
}


@pytest.mark.parametrize("schema", MULTIPLYING.values(), ids=MULTIPLYING)
def test_alternatives_that_multiply_are_wide(schema: dict[str, Any]) -> None:
    # Counted one by one, they would take hours.
    assert is_wide({**schema, "properties": {"a": {}, **schema.get("properties", {})}})


@pytest.mark.parametrize("name", ["alternatives", "kinds"])
def test_without_optional_properties_nothing_is_wide(name: str) -> None:
    assert not is_wide(MULTIPLYING[name])


def test_long_lists_and_references_are_read_once() -> None:
    target = {"type": "object", "required": [str(i) for i in range(50_000)]}
    ways = {"anyOf": [{"$ref": "#/$defs/target"}, {"type": "object"}]}
    properties = {f"p{i}": dict(ways) for i in range(3500)}
    # Read for each property, the list would take half a minute.
    definitions = {"target": target, "optional": loose(1)}
    assert is_wide({"properties": properties, "required": [*properties], "$defs": definitions})


@pytest.mark.parametrize(
    "schema",
    [
        loose(2000, required=[f"p{number}" for number in range(2000)]),
        {"properties": 7, "required": "a", "anyOf": {}},
        {"anyOf": [7, True, {"$ref": "#/nowhere"}]},
        {"properties": {"a": 7}},
        {"anyOf": [{"$ref": "#"}, loose(9)]},
        {"$defs": {str(n): {"$ref": f"#/$defs/{n + 1}"} for n in range(2000)}, "$ref": "#/$defs/0"},
    ],
    ids=["required", "malformed", "no schemas", "no schema", "itself", "a long way"],
)
def test_few_properties_are_not_wide(schema: dict[str, Any]) -> None:
    assert not is_wide(schema)


@pytest.mark.parametrize(
    "again",
    [
        {"$ref": "#"},
        {"type": "array", "items": {"$ref": "#"}},
        {"type": "object", "additionalProperties": {"$ref": "#"}},
    ],
)
def test_a_schema_that_contains_itself_is_measured_once(again: dict[str, Any]) -> None:
    schema = loose(9)
    assert not is_wide(schema | {"properties": schema["properties"] | {"again": again}})


@given(st.dictionaries(WORDS, ANY_JSON))
def test_anything_can_be_measured(schema: dict[str, Any]) -> None:
    assert is_wide(schema) in (True, False)
