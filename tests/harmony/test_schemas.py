import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from llguidance import LLMatcher, LLTokenizer

from harmony import schemas
from harmony.grammar import GrammarSpec, SchemaJson, answer_grammar
from harmony.schemas import (
    UnsupportedSchema,
    check_strict,
    for_llguidance,
    is_plain,
    is_wide,
    path_text,
    without_dialects,
)
from harmony.tokenizer import encode
from harmony.typescript import type_of
from harmony.vocab import RETURN
from tests.harmony.drawing import Mask


def closed(**properties: Any) -> dict[str, Any]:
    """An object as strict mode wants it."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def nested(levels: int) -> dict[str, Any]:
    schema = closed()
    for _ in range(levels):
        schema = closed(a=schema)
    return schema


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


WORDS = st.sampled_from(
    [*schemas._TYPES, "type", "properties", "items", "anyOf", "$ref", "#", "required", "enum"]
)
ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=4),
    max_leaves=12,
)


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


def test_combined_alternatives_are_not_nullable() -> None:
    both = {"anyOf": [{"type": "string"}], "allOf": [{"type": "string"}], "nullable": True}
    assert accepts(closed(a=both), '{"a":"b"}')
    assert not accepts(closed(a=both), '{"a":null}')


def test_a_property_may_be_named_nullable() -> None:
    schema = closed(nullable={"type": "boolean"})
    assert for_llguidance(schema) == schema


PLAIN = {
    "no arguments": closed(),
    "texts": closed(a={"type": "string", "description": "An a.", "maxLength": 9}),
    "choices": closed(a={"type": "string", "enum": ["a", "b"]}),
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
    "required that is none": closed() | {"required": "a"},
    "more of anything": {"type": "object", "additionalProperties": {"type": "string"}},
    "no schema": closed(a=1),
    "many values": closed(**{f"p{n}": {"type": "null"} for n in range(100)}),
    "deep": nested(11),
}


@pytest.mark.parametrize("schema", NOT_PLAIN.values(), ids=NOT_PLAIN)
def test_others_do(schema: dict[str, Any]) -> None:
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
    }


def follows(schema: dict[str, Any], text: str) -> bool:
    grammar = answer_grammar(GrammarSpec(answer=SchemaJson(schema)))
    matcher = LLMatcher(LLTokenizer("byte"), grammar.replace(" <[200002]>", ""), log_level=0)
    assert not matcher.is_error()
    return matcher.try_consume_tokens(list(text.encode())) == len(text) and not matcher.is_error()


@pytest.mark.parametrize("shape", shapes(0))
def test_what_is_not_wide_can_be_followed(shape: str) -> None:
    schema, text = shapes(schemas.MAX_OPEN)[shape]
    assert not is_wide(schema)
    assert follows(schema, text)


@pytest.mark.parametrize("shape", shapes(0))
def test_wide_schemas_are_recognised(shape: str) -> None:
    assert is_wide(shapes(schemas.MAX_OPEN + 10)[shape][0])


def test_objects_of_a_thousand_optional_properties_cannot_be_followed() -> None:
    """Else there would be no need to look for them."""
    assert not follows(loose(1000), "{")


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


@given(st.dictionaries(WORDS, ANY_JSON))
def test_anything_can_be_measured(schema: dict[str, Any]) -> None:
    assert is_wide(schema) in (True, False)
