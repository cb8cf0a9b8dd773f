"""Bounds of numbers, as grammars keep them."""

import json
from typing import Any

import pytest

from harmony.grammar import GrammarSpec, SchemaJson, answer_grammar
from harmony.schemas import for_llguidance
from harmony.tokenizer import encode
from harmony.vocab import RETURN
from tests.harmony.drawing import Mask
from tests.harmony.schemas.drawing import closed

NUMBER = {"type": "number"}
EXCLUSIVE: list[tuple[dict[str, Any], str, str]] = [
    ({"exclusiveMinimum": 0, "maximum": 0.5}, "0", "0.01"),
    ({"exclusiveMinimum": 0.0, "exclusiveMaximum": 0.25, "minimum": -1}, "0", "0.2"),
    ({"exclusiveMinimum": 3, "maximum": 3.3, "multipleOf": 0.25}, "3", "3.25"),
    ({"exclusiveMinimum": 100, "maximum": 100.5}, "100", "100.001"),
    ({"exclusiveMinimum": 999_999_999, "maximum": 999_999_999.5}, "999999999", "999999999.25"),
    ({"minimum": -1.5, "exclusiveMaximum": -1}, "-1", "-1.25"),
    ({"exclusiveMinimum": -0.5, "exclusiveMaximum": 0}, "-0", "-0.25"),
    ({"exclusiveMinimum": 1, "minimum": 1.25, "maximum": 1.5}, "1.2", "1.25"),
]
BEGINNINGS: list[tuple[dict[str, Any], list[str], list[str]]] = [
    ({"minimum": 0, "maximum": 0.95}, ["0.9", "0.90", "0.95", "0"], ["0.96", "1"]),
    ({"maximum": 99.99}, ["99.9", "99.99", "99", "-100"], ["100", "99.991"]),
    ({"exclusiveMaximum": 0.875}, ["0.8", "0.87", "0.874"], ["0.875", "0.88"]),
    ({"minimum": 2.55, "maximum": 2.75}, ["2.55", "2.7", "2.6"], ["2.5", "2.76"]),
    ({"minimum": -0.95, "maximum": 0}, ["-0.9", "-0.95"], ["-0.96"]),
    ({"minimum": 0.92, "maximum": 0.95}, ["0.93", "0.95"], ["0.9", "0.91"]),
    ({"maximum": 1.205}, ["1", "1.2", "1.205"], ["1.21"]),
]


def accepts(inner: dict[str, Any], text: str) -> bool:
    schema = closed(a=inner)
    before = json.dumps(schema)
    mask = Mask(answer_grammar(GrammarSpec(answer=SchemaJson(schema))))
    assert json.dumps(schema) == before
    return mask.follow([*encode(f'{{"a":{text}}}'), RETURN]) is None


@pytest.mark.parametrize(("bounds", "bound", "inside"), EXCLUSIVE, ids=str)
def test_an_integer_is_excluded_where_the_other_bound_is_close(
    bounds: dict[str, Any], bound: str, inside: str
) -> None:
    assert not accepts(NUMBER | bounds, bound)
    assert accepts(NUMBER | bounds, inside)


@pytest.mark.parametrize(("bounds", "inside", "outside"), BEGINNINGS, ids=str)
def test_a_number_may_end_where_the_digits_of_a_bound_go_on(
    bounds: dict[str, Any], inside: list[str], outside: list[str]
) -> None:
    for schema in (NUMBER | bounds, {"type": ["null", "number"], **bounds}):
        assert [text for text in inside if not accepts(schema, text)] == []
        assert [text for text in outside if accepts(schema, text)] == []


def test_the_bounds_of_alternatives_are_kept() -> None:
    schema = {"oneOf": [NUMBER | {"maximum": 0.95}, {"type": "string"}]}
    assert accepts(schema, "0.9")
    assert accepts(schema, '"b"')
    assert not accepts(schema, "0.96")


@pytest.mark.parametrize(
    "inner",
    [
        NUMBER | {"exclusiveMinimum": 0},
        NUMBER | {"exclusiveMinimum": 0, "maximum": 1},
        NUMBER | {"exclusiveMinimum": 0, "maximum": 1e-15},
        NUMBER | {"minimum": 0.25, "maximum": 0.5},
        NUMBER | {"minimum": 0.25, "maximum": 1e300},
        NUMBER | {"exclusiveMinimum": float("inf"), "maximum": float("inf")},
        NUMBER | {"maximum": True, "exclusiveMinimum": "0"},
        NUMBER | {"maximum": 0.95, "allOf": "b"},
        {"type": "integer", "maximum": 0.95, "exclusiveMinimum": -1},
        {"maximum": 0.95},
    ],
    ids=str,
)
def test_other_bounds_stay(inner: dict[str, Any]) -> None:
    assert for_llguidance(closed(a=inner)) == closed(a=inner)
