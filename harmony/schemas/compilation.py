"""What is known of a JSON Schema's grammar before llguidance compiles it."""

import re
from collections.abc import Mapping
from typing import Any, TypeGuard

from harmony import pointers
from harmony.schemas.places import MAX_DEPTH, TYPES, Place, UnsupportedSchema, places

MAX_OPEN = 400
"""The maximum of optional properties that a value may begin with, over all its alternatives.

llguidance stores about four items for each, and has a limit of 2,000 items (its default). A schema
with more properties compiles, but sampling fails at the beginning of such a value.
"""


def is_wide(schema: Mapping[str, Any]) -> bool:
    """Whether a value of `schema` may begin with more than `MAX_OPEN` optional properties."""
    choices = _Choices(schema)
    try:
        return any(choices.open(place.schema) > MAX_OPEN for place in places(Place((), schema, 0)))
    except UnsupportedSchema:  # reported by `check_strict`
        return False


class _Choices:
    """Counts the optional properties of values. root: the schema that references refer to."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._known: dict[int, int] = {}

    def open(self, schema: Any, depth: int = 0) -> int:
        """The number of optional properties that a value may begin with.

        Schemas that are nested too deep, or in themselves, count as 0. Keywords beside alternatives
        apply to each alternative.
        """
        if not isinstance(schema, Mapping) or depth > MAX_DEPTH:
            return 0
        if id(schema) in self._known:
            return self._known[id(schema)]
        self._known[id(schema)] = 0
        common = _optional(schema) + self.open(
            pointers.resolve(schema.get("$ref"), self._root), depth + 1
        )
        common += sum(self.open(each, depth + 1) for each in _listed(schema, "allOf"))
        ways = [*_listed(schema, "anyOf"), *_listed(schema, "oneOf")]
        count = sum(common + self.open(each, depth + 1) for each in ways) if ways else common
        self._known[id(schema)] = count
        return count


def _optional(schema: Mapping[str, Any]) -> int:
    properties = schema.get("properties")
    if not isinstance(properties, Mapping):
        return 0
    required = {name for name in _listed(schema, "required") if isinstance(name, str)}
    return len(properties.keys() - required)


def _listed(schema: Mapping[str, Any], word: str) -> list[Any]:
    value = schema.get(word)
    return value if isinstance(value, list) else []


_PLAIN_WORDS = frozenset(
    {
        *("type", "properties", "required", "additionalProperties", "items", "enum"),
        *("description", "title", "minLength", "maxLength"),
    }
)
_SURROGATE = re.compile("[\ud800-\udfff]")
_PLAIN_PLACES = 100
_PLAIN_CHARACTERS = 1_000


def is_plain(schema: Mapping[str, Any]) -> bool:
    """Whether a schema is so simple that it certainly compiles, and fast.

    It may have objects, arrays, scalars and enums of strings, within limits, but no references,
    patterns, bounds of numbers or unions.
    """
    try:
        for count, place in enumerate(places(Place((), schema, 0))):
            if count == _PLAIN_PLACES or not _is_plain(place):
                return False
    except UnsupportedSchema:
        return False
    return True


def _is_plain(place: Place) -> bool:
    schema = place.schema
    if not schema.keys() <= _PLAIN_WORDS or "type" not in schema:
        return False
    kind = schema["type"]
    if not isinstance(kind, str) or kind not in TYPES or (kind == "array") != ("items" in schema):
        return False
    # `places` leaves out the schemas true and false, and false may permit no value at all.
    if isinstance(schema.get("items"), bool):
        return False
    return _has_plain_properties(schema, kind) and _plain_texts(schema, kind)


def _has_plain_properties(schema: Mapping[str, Any], kind: str) -> bool:
    if {"properties", "required", "additionalProperties"}.isdisjoint(schema):
        return True
    if kind != "object" or schema.get("additionalProperties", False) is not False:
        return False
    required, properties = schema.get("required", []), schema.get("properties", {})
    return (
        isinstance(required, list)
        and isinstance(properties, Mapping)
        and all(isinstance(name, str) and name in properties for name in required)
        and all(map(_is_text, properties))
        and not any(isinstance(inner, bool) for inner in properties.values())
    )


def _plain_texts(schema: Mapping[str, Any], kind: str) -> bool:
    sizes = [schema[word] for word in ("minLength", "maxLength") if word in schema]
    if sizes and (kind != "string" or len(sizes) == 2 or "enum" in schema):
        return False
    if any(type(size) is not int or not 0 <= size <= _PLAIN_CHARACTERS for size in sizes):
        return False
    values = schema.get("enum", [""])
    return (
        isinstance(values, list)
        and 0 < len(values) <= _PLAIN_PLACES
        and all(_is_text(value) and len(value) <= _PLAIN_CHARACTERS for value in values)
        and ("enum" not in schema or kind == "string")
        and all(map(_is_text, (schema.get("title", ""), schema.get("description", ""))))
    )


def _is_text(value: object) -> TypeGuard[str]:
    """Whether `value` is a string without lone surrogates, which llguidance cannot read."""
    return isinstance(value, str) and not _SURROGATE.search(value)
