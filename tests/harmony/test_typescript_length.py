"""Types of schemas that are made to be long."""

from typing import Any

import pytest

from harmony import typescript
from harmony.literal import json_text
from harmony.typescript import type_of

Schema = dict[str, Any]


def within(schema: Schema, levels: int = 38) -> Schema:
    for _ in range(levels):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema


MANY_LINES: dict[str, Schema] = {
    "a description": {"type": "string", "description": "\n" * 200_000},
    "a title": {"type": "string", "title": "a\n" * 200_000},
    "an object": {"type": "object", "properties": {}, "description": "\n" * 200_000},
    "a union": {"oneOf": [{}] * 200_000},
    "examples": {"type": "string", "examples": [0] * 200_000},
    "properties": {"type": "object", "properties": {f"p{n}": {} for n in range(100_000)}},
    "a pattern": {"type": "object", "patternProperties": {"\n" * 200_000: {}}},
}


@pytest.mark.parametrize("schema", MANY_LINES.values(), ids=MANY_LINES)
def test_many_lines_are_not_indented_without_limit(schema: Schema) -> None:
    assert "too long" not in type_of(within({"type": "string", "description": "a\n" * 1_000}))
    text = type_of(within(schema))
    assert "any /* too long */" in text
    assert len(text) < 10_000_000


def test_many_small_descriptions_are_not_indented_without_limit() -> None:
    each = {"type": "object", "properties": {"b": {"description": "\n" * 1_000}}}
    text = type_of(within({"anyOf": [each] * 200}, 30))
    assert len(text) < 10_000_000


def test_many_values_are_not_compared_with_many_types() -> None:
    # With quadratic work, this would take minutes.
    kinds = [f"t{n}" for n in range(100_000)]
    text = type_of({"type": [*kinds, "string"], "enum": [*range(100_000), "a"]})
    assert text == '"a"'


def test_a_deep_value_is_not_measured_once_for_each_level(monkeypatch: pytest.MonkeyPatch) -> None:
    measured: list[int] = []

    def measuring(value: object) -> str:
        text = json_text(value)
        measured.append(len(text))
        return text

    monkeypatch.setattr(typescript, "json_text", measuring)
    deep: Any = "a" * 1_000_000
    for _ in range(100):
        deep = [deep]
    references = [{"$ref": "#/deep" + "/0" * level} for level in range(100)]
    type_of({"anyOf": references, "deep": deep})
    assert sum(measured) < 25_000_000
