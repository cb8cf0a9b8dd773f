"""Declared types. Each divergence from the library, T1 to T15, is shown with both sides."""

import re
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from harmony.typescript import type_of

Schema = dict[str, Any]

# What the library says in full: one line of plain text wherever there is text.
NAMES = st.from_regex(r"[a-z_][a-z0-9_]{0,8}", fullmatch=True).filter(lambda s: "null" not in s)
LINES = st.text("abc éß漢 .,:;!?'()[]{}<>|&*/", max_size=12)
WORDS = st.text("abc -é", min_size=1, max_size=6)
SIMPLE = st.sampled_from(["string", "number", "integer", "boolean"])
DEFAULTS = WORDS | st.integers(-(10**6), 10**6) | st.booleans() | st.none() | st.just([1, "a", 0.5])


def optional(**keys: st.SearchStrategy[Any]) -> st.SearchStrategy[Schema]:
    return st.fixed_dictionaries({}, optional=keys)


def merged(*parts: st.SearchStrategy[Schema]) -> st.SearchStrategy[Schema]:
    return st.tuples(*parts).map(lambda dicts: {k: v for d in dicts for k, v in d.items()})


PLAIN = st.fixed_dictionaries({"type": SIMPLE})
ENUMS = st.fixed_dictionaries(
    {"type": st.just("string"), "enum": st.lists(WORDS, min_size=1, unique=True)}
)
TYPE_LISTS = st.fixed_dictionaries(
    {
        "type": st.lists(
            st.sampled_from(["string", "number", "boolean", "null"]), min_size=1, unique=True
        )
    }
)
SCALARS: st.SearchStrategy[Schema] = PLAIN | ENUMS | TYPE_LISTS | st.just({})
NULLABLE = optional(nullable=st.booleans())
ABOUT = optional(
    title=LINES, description=LINES, default=DEFAULTS, examples=st.lists(WORDS, max_size=2)
)


def object_of(properties: Schema) -> st.SearchStrategy[Schema]:
    return st.fixed_dictionaries(
        {"type": st.just("object"), "properties": st.just(properties)},
        optional={
            "required": st.lists(st.sampled_from([*properties, "unheard_of"])),
            "description": LINES,
        },
    )


def members() -> st.SearchStrategy[Schema]:
    return MEMBERS


OBJECTS = st.dictionaries(NAMES, st.deferred(members), max_size=3).flatmap(object_of)
ARRAYS = st.fixed_dictionaries({"type": st.just("array")}, optional={"items": PLAIN | OBJECTS})
# Alternatives without descriptions: of a property's and its first alternative's the library
# keeps one (T8).
UNDESCRIBED = OBJECTS.map(lambda schema: {k: v for k, v in schema.items() if k != "description"})
VARIANTS = merged(SCALARS, NULLABLE, optional(default=DEFAULTS)) | ARRAYS | UNDESCRIBED
UNIONS = st.fixed_dictionaries({"oneOf": st.lists(VARIANTS, min_size=1, max_size=3)})
MEMBERS = merged(SCALARS, NULLABLE, ABOUT) | merged(ARRAYS | OBJECTS | UNIONS, ABOUT)
SAID_IN_FULL = SCALARS | ARRAYS | OBJECTS

KEYWORDS = st.sampled_from(
    [
        *("type", "const", "enum", "nullable", "oneOf", "anyOf", "allOf", "not", "$ref", "$defs"),
        *("properties", "required", "additionalProperties", "patternProperties", "x-other"),
        *("items", "prefixItems", "additionalItems", "maxItems"),
        *("title", "description", "default", "examples"),
    ]
)
WORDS_OF_SCHEMAS = st.sampled_from(
    ["object", "array", "string", "null", "file", "a */ b", "// c", "{[(", "#", "#/$defs/a", "#/x"]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | WORDS_OF_SCHEMAS,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(KEYWORDS | st.text(max_size=3), inner, max_size=6)
    ),
    max_leaves=30,
)


@settings(max_examples=200)
@given(schema=SAID_IN_FULL)
def test_complete_types_of_the_library_are_rendered_as_it_does(
    library: Any, schema: Schema
) -> None:
    assert type_of(schema) == library.type_of(schema)


def test_a_schema_of_every_plain_keyword_is_rendered_as_by_the_library(library: Any) -> None:
    schema = {
        "type": "object",
        "description": "an order",
        "properties": {
            "id": {"type": "integer", "title": "Id", "description": "Its number"},
            "state": {"type": "string", "enum": ["open", "shut"], "default": "open"},
            "note": {"type": "string", "nullable": True, "examples": ["be quick", "ring twice"]},
            "lines": {
                "type": "array",
                "items": {"type": "object", "properties": {"sku": {"type": "string"}}},
            },
            "pay": {
                "oneOf": [
                    {"type": "string", "default": "cash"},
                    {"type": "object", "properties": {"card": {"type": ["string", "null"]}}},
                ],
                "default": "cash",
            },
            "anything": {},
            "list": {"type": "array"},
        },
        "required": ["id", "pay"],
    }
    assert type_of(schema) == library.type_of(schema)


def without_comments(text: str) -> str:
    """What of a type a TypeScript compiler would read, literals and comments left out."""
    return re.sub(r'"(?:[^"\\]|\\.)*"|/\*.*?\*/|//[^\n]*', "", text, flags=re.S)


def is_balanced(text: str) -> bool:
    open_brackets: list[str] = []
    for character in text:
        if character in "({[":
            open_brackets.append(character)
        elif character in ")}]" and (
            not open_brackets
            or open_brackets.pop() + character
            not in (
                "()",
                "{}",
                "[]",
            )
        ):
            return False
    return not open_brackets


@settings(max_examples=400)
@given(schema=JSON)
@example(schema={"anyOf": [{"description": "a"}, {"type": "array", "items": {"oneOf": [{}]}}]})
def test_anything_at_all_has_a_type_whose_brackets_match(schema: Any) -> None:
    assert is_balanced(without_comments(f"(_: {type_of(schema)})"))


def prop(schema: Any) -> Schema:
    return {"type": "object", "properties": {"a": schema}}


# Each with the property's lines as we say them, and as the library does.
DIVERGENCES = {
    "T1 anyOf": (
        {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
        "a?: string | null, // default: null",
        "a?: any, // default: null",
    ),
    "T1 allOf": (
        {"allOf": [prop({"type": "string"}), {"enum": [1, 2]}]},
        "a?: {\n    a?: string,\n    } & (1 | 2),",
        "a?: any,",
    ),
    "T1 recursive": (
        {"$ref": "#/properties/a", "title": "Loop"},
        "// Loop\n//\na?: any /* recursive: a */,",
        "// Loop\n//\na?: any,",
    ),
    "T2 const": ({"const": "v1"}, 'a?: "v1",', "a?: any,"),
    "T2 enum": (
        {"enum": ["a", 1, None, True, {"b": []}]},
        'a?: "a" | 1 | null | true | {"b":[]},',
        "a?: any,",
    ),
    "T2 enum of numbers": ({"type": "integer", "enum": [1, 2]}, "a?: 1 | 2,", "a?: number,"),
    "T3 keywords": (
        {"type": ["array", "object", "null"], "items": {"type": "integer"}},
        "a?: number[] | {\n    } | null,",
        "a?: array | object | null,",
    ),
    "T3 enum": (
        {"type": ["string", "null"], "enum": ["a", None]},
        'a?: "a" | null,',
        "a?: string | null,",
    ),
    "T3 alike": ({"type": ["integer", "number"]}, "a?: number,", "a?: number | number,"),
    "T4 null": ({"type": "null"}, "a?: null,", "a?: any,"),
    "T4 never": (False, "a?: never,", "a?: any,"),
    "T4 implied object": ({"properties": {}}, "a?: {\n    },", "a?: any,"),
    "T4 implied array": ({"items": {"type": "string"}}, "a?: string[],", "a?: any,"),
    "T4 tuple": (
        {"type": "array", "prefixItems": [{"type": "string"}, {}], "items": False},
        "a?: [string, any],",
        "a?: any[],",
    ),
    "T5 additionalProperties": (
        {"type": "object", "additionalProperties": {"type": "number", "description": "how many"}},
        "a?: {\n    // how many\n    [key: string]: number,\n    },",
        "a?: {\n    },",
    ),
    "T5 patternProperties": (
        {"type": "object", "patternProperties": {"^x-": True}},
        "a?: {\n    // keys that match ^x-\n    [key: string]: any,\n    },",
        "a?: {\n    },",
    ),
    "T6 depth": (
        {"type": "array", "items": {"type": "string", "nullable": True}},
        "a?: (string | null)[],",
        "a?: string[],",
    ),
    "T6 text": (
        {"type": "string", "enum": ["nullable"], "nullable": True},
        'a?: "nullable" | null,',
        'a?: "nullable",',
    ),
    "T6 union": (
        {"oneOf": [{"type": "string"}], "nullable": True},
        "a?:\n | string\n | null\n,",
        "a?:\n | string\n,",
    ),
    "T7 enum": (
        {"type": "array", "items": {"type": "string", "enum": ["x", "y"]}},
        'a?: ("x" | "y")[],',
        'a?: "x" | "y"[],',
    ),
    "T7 oneOf": (
        {"type": "array", "items": {"oneOf": [{"type": "string"}, {"type": "number"}]}},
        "a?: (\n     | string\n     | number)[],",
        "a?: \n     | string\n     | number[],",
    ),
    "T8 first": (
        {"oneOf": [{"type": "string", "description": "one"}], "description": "either"},
        "// either\na?:\n | string // one\n,",
        "// either\na?:\n | string\n,",
    ),
    "T8 equal": (
        {"oneOf": [{"type": "string", "description": "one"}], "description": "one"},
        "// one\na?:\n | string\n,",
        "a?:\n | string\n,",
    ),
    "T9": (
        {**prop({"type": "string"}), "oneOf": [{"type": "object"}]},
        "a?: {\n    a?: string,\n    } & (\n     | {\n       }),",
        "a?:\n | {\n   }\n,",
    ),
    "T10 lines": (
        {"type": "string", "description": "a\nb"},
        "// a\n// b\na?: string,",
        "// a\nb\na?: string,",
    ),
    "T10 trailing lines": (
        {"oneOf": [{"type": "string", "description": "a\nb"}]},
        "a?:\n | string // a b\n,",
        "a?:\n | string // a\nb\n,",
    ),
    "T10 swallowed": (
        {"type": "array", "items": {"oneOf": [{"type": "string", "default": "x"}]}},
        'a?: (\n     | string // default: "x"\n    )[],',
        'a?: \n     | string // default: "x"[],',
    ),
    "T11 enum": ({"type": "string", "enum": ['a"']}, 'a?: "a\\"",', 'a?: "a"",'),
    "T11 default": (
        {"type": "string", "default": "a\nb"},
        'a?: string, // default: "a\\nb"',
        'a?: string, // default: "a\nb"',
    ),
    "T12": (
        {"type": "number", "examples": ["one", 2]},
        '// Examples:\n// - "one"\n// - 2\na?: number,',
        '// Examples:\n// - "one"\na?: number,',
    ),
    "T13": (
        {"type": "array", "items": {"type": "string", "description": "a path"}},
        "a?: (string /* a path */)[],",
        "a?: string[],",
    ),
    "T14": (
        {"type": "number", "default": 0.00001},
        "a?: number, // default: 1e-05",
        "a?: number, // default: 0.00001",
    ),
    "T14 large": (
        {"type": "number", "default": 1e20},
        "a?: number, // default: 1e+20",
        "a?: number, // default: 1e20",
    ),
    "T15 keywords": (
        {"not": {"type": "string"}, "description": "?"},
        '// ?\na?: any /* {"not":{"type":"string"}} */,',
        "// ?\na?: any,",
    ),
    "T15 type": ({"type": "file"}, "a?: any /* file */,", "a?: any,"),
    "T15 no schema": (7, "a?: any /* 7 */,", "a?: any,"),
}


@pytest.mark.parametrize(("schema", "ours", "theirs"), DIVERGENCES.values(), ids=DIVERGENCES)
def test_a_schema_is_rendered_more_completely_than_by_the_library(
    library: Any, schema: Any, ours: str, theirs: str
) -> None:
    assert type_of(prop(schema)) == f"{{\n{ours}\n}}"
    assert library.type_of(prop(schema)) == f"{{\n{theirs}\n}}"


def test_names_that_are_no_identifiers_are_quoted(library: Any) -> None:  # T11
    schema = {"type": "object", "properties": {'x-"y"': True, "2": True, "$ok": True}}
    assert type_of(schema) == '{\n"x-\\"y\\""?: any,\n"2"?: any,\n$ok?: any,\n}'
    assert library.type_of(schema) == '{\nx-"y"?: any,\n2?: any,\n$ok?: any,\n}'


def test_a_long_any_of_takes_a_line_for_each() -> None:
    any_of = [{"type": "string", "description": "a name"}, prop({"type": "integer"}), True]
    assert type_of(prop({"anyOf": any_of, "description": "who"})) == (
        "{\n// who\na?:\n | string // a name\n | {\n   a?: number,\n   }\n | any\n,\n}"
    )


def test_all_of_one_is_that_one() -> None:
    assert type_of({"type": "object", "allOf": [{"type": "string"}]}) == "string"


def test_a_nullable_intersection_is_null_or_it() -> None:
    schema = {"allOf": [{"type": "string"}, {"enum": ["a"]}], "nullable": True}
    assert type_of(schema) == 'string & "a" | null'


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("string", '"a"'),
        ("number", "1 | 1.5"),
        ("integer", "1 | 1.5"),
        ("boolean", "true"),
        ("null", "null"),
        ("object", "{}"),
        ("array", "[]"),
        (["string", "null"], '"a" | null'),
        ("file", "any /* file */"),
    ],
)
def test_an_enum_keeps_what_its_type_admits(kind: Any, text: str) -> None:
    assert type_of({"type": kind, "enum": ["a", 1, 1.5, True, None, {}, []]}) == text


def test_an_enum_that_its_type_rules_out_is_left_aside(library: Any) -> None:
    schema = {"type": "string", "enum": [1]}
    assert type_of(schema) == library.type_of(schema) == "string"


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({"prefixItems": [{"type": "string"}]}, "[string, ...any[]]"),
        ({"prefixItems": [{"type": "string"}], "maxItems": 1}, "[string]"),
        ({"prefixItems": [{}], "items": {"enum": [1, 2]}}, "[any, ...(1 | 2)[]]"),
        ({"items": [{"type": "string"}], "additionalItems": False}, "[string]"),
        ({"items": [{}], "additionalItems": {"type": "null"}}, "[any, ...null[]]"),
        ({"items": []}, "(any /* [] */)[]"),
        ({"items": {"items": {"enum": [1, 2]}}}, "(1 | 2)[][]"),
    ],
)
def test_an_array_has_the_type_of_its_items(schema: Schema, text: str) -> None:
    assert type_of(schema) == text


@pytest.mark.parametrize("description", ["", " ", "\n\u2028"])
def test_items_without_a_word_of_description_have_no_comment(
    library: Any, description: str
) -> None:
    items = {"type": "string", "description": description}
    schema = {"type": "array", "items": items}
    assert type_of(schema) == library.type_of(schema) == "string[]"


def test_a_schema_nested_too_deeply_is_cut() -> None:
    schema: Any = {}
    for _ in range(10_000):
        schema = {"items": schema}
    assert type_of(schema).startswith("(any /* nested too deeply */)[][]")


# References


def test_a_reference_is_expanded_with_its_description(library: Any) -> None:  # T1
    defs = {"Unit": {"enum": ["mm", "in"], "description": "of length"}}
    schema = {**prop({"$ref": "#/$defs/Unit", "default": "mm"}), "$defs": defs}
    assert type_of(schema) == '{\n// of length\na?: "mm" | "in", // default: mm\n}'
    assert library.type_of(schema) == '{\na?: any, // default: "mm"\n}'


def test_the_description_beside_a_reference_precedes_its_target() -> None:
    defs = {"Unit": {"enum": ["mm", "in"], "description": "of length"}}
    schema = {**prop({"$ref": "#/$defs/Unit", "description": "of the wall"}), "$defs": defs}
    assert type_of(schema) == '{\n// of the wall\na?: "mm" | "in",\n}'


def test_a_shape_beside_a_reference_stays() -> None:
    schema = {
        **prop({"$ref": "#/$defs/N", "properties": {"b": {"type": "string"}}}),
        "$defs": {"N": prop({"type": "null"})},
    }
    assert type_of(schema) == "{\na?: {\n    b?: string,\n    } & {\n    a?: null,\n    },\n}"


def test_the_items_of_an_array_may_be_a_reference() -> None:
    schema = {
        "type": "array",
        "items": {"$ref": "#/$defs/Path"},
        "$defs": {"Path": {"type": "string", "description": "from the root"}},
    }
    assert type_of(schema) == "(string /* from the root */)[]"


def test_a_recursive_reference_names_what_it_leads_back_to() -> None:
    node = {
        "type": "object",
        "properties": {"kids": {"type": "array", "items": {"$ref": "#/$defs/Node"}}},
    }
    schema = {"$ref": "#/$defs/Node", "$defs": {"Node": node}}
    assert type_of(schema) == "{\nkids?: (any /* recursive: Node */)[],\n}"


def test_references_that_chase_each_other_end() -> None:
    defs = {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}
    assert type_of({"$ref": "#/$defs/a", "$defs": defs}) == "any /* recursive: a */"


def test_a_reference_to_the_whole_is_recursive() -> None:
    schema = prop({"$ref": "#"})
    assert type_of(schema) == "{\na?: {\n    a?: any /* recursive: # */,\n    },\n}"


@pytest.mark.parametrize(
    "ref",
    [
        "https://example.com/s.json",
        "#anchor",
        "#/$defs/none",
        "#/required/9",
        "#/required/x",
        "#/type/x",
        7,
    ],
)
def test_a_reference_to_nothing_is_quoted(ref: object) -> None:
    schema = {**prop({"$ref": ref}), "required": ["a"]}
    quoted = f'"{ref}"' if isinstance(ref, str) else ref
    assert type_of(schema) == f'{{\na: any /* {{"$ref":{quoted}}} */,\n}}'


def test_a_pointer_may_be_escaped_and_may_count() -> None:
    schema = {
        **prop({"$ref": "#/$defs/a~1b%20c/anyOf/1"}),
        "$defs": {"a/b c": {"anyOf": [{}, {"type": "boolean"}]}},
    }
    assert type_of(schema) == "{\na?: boolean,\n}"


def test_a_pointer_may_count_as_far_as_it_likes() -> None:
    schema = prop({"$ref": f"#/anyOf/{'9' * 5000}"}) | {"anyOf": [{}]}
    assert type_of(schema).startswith('{\na?: any /* {"$ref":"#/anyOf/99')


def test_what_is_quoted_is_cut_where_it_is_long() -> None:
    assert type_of("x" * 1000) == f'any /* "{"x" * 399}… */'


def test_a_reference_to_a_boolean_schema_is_that() -> None:
    assert type_of({**prop({"$ref": "#/$defs/no"}), "$defs": {"no": False}}) == "{\na?: never,\n}"


def test_references_that_double_at_every_step_stay_affordable() -> None:
    defs: Schema = {"d0": {"type": "string", "description": "x" * 500}}
    for step in range(1, 35):
        both = {"$ref": f"#/$defs/d{step - 1}"}
        defs[f"d{step}"] = {"type": "object", "properties": {"l": both, "r": both}}
    text = type_of({"$ref": "#/$defs/d34", "$defs": defs})
    assert 'any /* {"$ref":' in text
    assert len(text) < 1_000_000
