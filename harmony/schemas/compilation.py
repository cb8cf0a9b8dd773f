"""What is known of a JSON Schema's grammar before llguidance compiles it."""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import product
from math import prod
from typing import Any, TypeGuard

from harmony import pointers
from harmony.schemas.keywords import ANNOTATIONS, nested
from harmony.schemas.places import TYPES, Place, UnsupportedSchema, places

MAX_OPEN = 400
"""The maximum of optional properties that a value may begin with, over all its alternatives.

llguidance stores about four items for each, and has a limit of 2,000 items (its default). A schema
with more properties compiles, but sampling fails at the beginning of such a value.
"""

_MAX_STEPS = 50_000
"""The work on one schema. What needs more counts as wide: its alternatives multiply, or it is too
long for a grammar."""

_COMPOSING = frozenset({"$ref", "allOf", "anyOf", "oneOf"})
_LEADING = frozenset(
    {
        *("properties", "patternProperties", "additionalProperties", "items", "prefixItems"),
        *_COMPOSING,
    }
)

_Merge = tuple[Any, ...]
"""Schemas that describe one value together, such as those in an `allOf`."""
_Parts = tuple[Mapping[Any, Any], _Merge]
"""The schemas of the values in a value: those with a key or an index, and those of all others."""


def is_wide(schema: Mapping[str, Any]) -> bool:
    """Whether a value in `schema` may begin with more than `MAX_OPEN` optional properties.

    Alternatives that began alike are still possible in the values inside. So what they have under
    one key, or at one index of an array, counts together.
    """
    # Most schemas have no optional property, wherever it could be.
    has_optional = any(isinstance(one, Mapping) and _optional(one) for one in nested(schema))
    return has_optional and _Widths(schema).any_wide()


class _Widths:
    """Measures the values in one schema. root: the schema that references refer to."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._steps = 0
        self._seen: set[tuple[tuple[int, ...], ...]] = set()
        # By the ids of schemas, which the root keeps alive.
        self._optional: dict[int, int] = {}
        self._targets: dict[int, Any] = {}

    def any_wide(self) -> bool:
        """Whether any value is wide, or the work is too much to know."""
        waiting: list[Sequence[_Merge]] = [[(self._root,)]]
        while waiting and self._steps <= _MAX_STEPS:
            alternatives = self._alternatives(waiting.pop())
            ids = tuple(sorted(tuple(map(id, merge)) for merge in alternatives))
            if ids in self._seen:
                continue
            self._seen.add(ids)
            if sum(self._optional[id(one)] for merge in alternatives for one in merge) > MAX_OPEN:
                return True
            waiting += self._inner(alternatives, _properties)
            waiting += self._inner(alternatives, _items)
        return self._steps > _MAX_STEPS

    def _alternatives(self, merges: Iterable[_Merge]) -> list[_Merge]:
        """The alternatives of a value, each with all schemas that it has to fit."""
        found: list[_Merge] = []
        followed: set[int] = set()
        waiting: list[tuple[_Merge, _Merge]] = [((), _schemas(merge)) for merge in merges]
        while waiting and self._steps <= _MAX_STEPS:
            opened, closed = waiting.pop()
            if closed:
                waiting += self._opened(opened, closed, followed)
            else:
                found.append(opened)
        return found

    def _opened(
        self, opened: _Merge, closed: _Merge, followed: set[int]
    ) -> Iterable[tuple[_Merge, _Merge]]:
        """The alternatives of a merge by its first schema that was not opened yet.

        followed: the ids of the targets of references that are alternatives of their own.
        """
        schema, *rest = closed
        self._steps += 1 + len(opened) + len(rest) + len(schema)
        if any(schema is one for one in opened):
            return [(opened, tuple(rest))]
        words = schema.keys() - ANNOTATIONS
        target = self._measured(schema)
        if words == {"$ref"} and not (opened or rest):
            # llguidance stores what such a reference leads to once, however often it stands.
            if id(target) in followed:
                return []
            followed.add(id(target))
        if not words <= _COMPOSING:
            opened = (*opened, schema)
        every = [target, *_listed(schema, "allOf"), *rest]
        choices = [_listed(schema, word) or [None] for word in ("anyOf", "oneOf")]
        self._steps += prod(map(len, choices)) * len(every)
        if self._steps > _MAX_STEPS:
            return []
        return [(opened, _schemas((*chosen, *every))) for chosen in product(*choices)]

    def _measured(self, schema: Mapping[str, Any]) -> Any:
        """The target of the schema's reference. What takes long with a schema is done once."""
        key = id(schema)
        if key not in self._optional:
            self._optional[key] = _optional(schema)
            self._targets[key] = pointers.resolve(schema.get("$ref"), self._root)
        return self._targets[key]

    def _inner(
        self, alternatives: Iterable[_Merge], parts_of: Callable[[Mapping[str, Any]], _Parts]
    ) -> Iterable[list[_Merge]]:
        """What describes each value in a value, over all its alternatives."""
        named: defaultdict[Any, list[_Merge]] = defaultdict(list)
        unnamed: list[tuple[set[Any], _Merge]] = []
        for merge in alternatives:
            parts = [parts_of(schema) for schema in merge]
            keys = {key for with_keys, _ in parts for key in with_keys}
            others = tuple(schema for _, without in parts for schema in without)
            self._steps += len(keys) * (len(parts) + len(others))
            if self._steps > _MAX_STEPS:
                return []
            for key in keys:
                named[key].append(_value(parts, key))
            if others:
                unnamed.append((keys, others))
        self._steps += len(named) * len(unnamed)
        if self._steps > _MAX_STEPS:
            return []
        for key, merges in named.items():
            merges += [others for keys, others in unnamed if key not in keys]
        inner = [*named.values(), [others for _, others in unnamed]]
        return [merges for merges in inner if any(map(_leads_on, merges))]


def _schemas(values: Iterable[Any]) -> _Merge:
    """`values` without the schemas true and false, and without what is no schema."""
    return tuple(value for value in values if isinstance(value, Mapping))


def _leads_on(merge: _Merge) -> bool:
    """Whether there may be a value in the value; most are plain texts and numbers."""
    return not all(_LEADING.isdisjoint(schema) for schema in _schemas(merge))


def _value(parts: Iterable[_Parts], key: Any) -> _Merge:
    return tuple(
        schema
        for with_keys, without in parts
        for schema in ([with_keys[key]] if key in with_keys else without)
    )


def _properties(schema: Mapping[str, Any]) -> _Parts:
    patterns = _mapping(schema, "patternProperties").values()
    others = _schemas([schema.get("additionalProperties"), *patterns])
    return _mapping(schema, "properties"), others


def _items(schema: Mapping[str, Any]) -> _Parts:
    items = schema.get("items")
    if isinstance(items, list):  # a tuple in the older dialects
        return dict(enumerate(items)), ()
    return dict(enumerate(_listed(schema, "prefixItems"))), _schemas([items])


def _optional(schema: Mapping[str, Any]) -> int:
    required = {name for name in _listed(schema, "required") if isinstance(name, str)}
    return len(_mapping(schema, "properties").keys() - required)


def _mapping(schema: Mapping[str, Any], word: str) -> Mapping[str, Any]:
    value = schema.get(word)
    return value if isinstance(value, Mapping) else {}


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
