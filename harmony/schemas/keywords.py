"""Keywords that change nothing, and keywords that llguidance reads otherwise than JSON Schema."""

from collections.abc import Iterator, Mapping
from typing import Any, TypeGuard

MAX_EXACT_INTEGER = 1 << 53

ANNOTATIONS = frozenset(
    {
        *("title", "description", "default", "examples", "nullable", "deprecated", "$comment"),
        *("readOnly", "writeOnly", "$schema", "$id", "$anchor", "$defs", "definitions"),
    }
)
"""Keywords that exclude no value. `nullable` may add one."""

FORMATS = (
    "date-time",
    "time",
    "date",
    "duration",
    "email",
    "hostname",
    "ipv4",
    "ipv6",
    "uuid",
    "uri",
)
"""Formats that llguidance enforces."""

_BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
# llguidance compares these numbers as doubles.
_VALUES = ("const", "enum", "multipleOf", *_BOUNDS)


def without_effect(schema: Mapping[str, Any]) -> Iterator[str]:
    """The keywords of a schema that permit the same values as no such keyword."""
    if schema.get("uniqueItems") is False:
        yield "uniqueItems"
    names = schema.get("propertyNames", False)
    if names is True or names in ({}, {"type": "string"}):
        yield "propertyNames"
    factor = schema.get("multipleOf")
    if is_number(factor) and factor == 1 and _has_only_integers(schema):
        yield "multipleOf"


def inexact(schema: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The keywords that llguidance would not enforce exactly, each with the reason.

    A `multipleOf` permits no negative number there. It counts only where the schema names one:
    elsewhere it mostly describes prices and counts, which are not negative.
    """
    for word in _VALUES:
        for number in _numbers(schema.get(word)):
            if isinstance(number, int) and abs(number) > MAX_EXACT_INTEGER:
                yield word, f"{number} is beyond the integers that are exact, 2 ** 53"
                break
    if "multipleOf" in schema and "multipleOf" not in without_effect(schema):
        named = (number for word in _VALUES for number in _numbers(schema.get(word)))
        end = schema.get("exclusiveMaximum")
        if any(number < 0 for number in named) or (is_number(end) and end <= 0):
            yield "multipleOf", "negative numbers cannot be held to a multiple"


def unenforceable(schema: Mapping[str, Any]) -> set[str]:
    """The keywords to leave out, so that llguidance enforces the others as they are defined."""
    words = {"uniqueItems", "propertyNames", *(word for word, _ in inexact(schema))}
    words |= {word for word in _BOUNDS if any(map(_is_huge, _numbers(schema.get(word))))}
    if schema.get("format") not in FORMATS:
        words.add("format")
    least = [schema.get(word) for word in ("minimum", "exclusiveMinimum")]
    if not any(is_number(bound) and bound >= 0 for bound in least):
        words.add("multipleOf")
    return words


def named_types(schema: Mapping[str, Any]) -> list[Any]:
    """What `type` names, which may be one type or a list; nothing without it."""
    named = schema.get("type", [])
    return named if isinstance(named, list) else [named]


def nested(value: Any) -> Iterator[Any]:
    """A JSON value, and all values in it, however deep."""
    waiting = [value]
    while waiting:
        one = waiting.pop()
        yield one
        if isinstance(one, Mapping):
            waiting += one.values()
        elif isinstance(one, list):
            waiting += one


def _numbers(value: Any) -> Iterator[int | float]:
    return filter(is_number, nested(value))


def is_number(value: object) -> TypeGuard[int | float]:
    """Whether a JSON value is a number. In Python, true and false are too."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_huge(number: int | float) -> bool:
    return abs(number) > MAX_EXACT_INTEGER


def _has_only_integers(schema: Mapping[str, Any]) -> bool:
    types = named_types(schema)
    return "integer" in types and "number" not in types
