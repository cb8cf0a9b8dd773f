"""Rewrites the schemas of a server's tools into a small subset of JSON Schema.

Servers write schemas in several dialects, with references, titles and parts that are no schema. A
server may also send a schema that is expensive to compile, or to check arguments against. The
result is safe to declare, to compile and to check: references are expanded, and its size is
limited, as is the work to make it. Where a part cannot be expressed, the result permits more than
the schema does. The server checks the arguments itself in any case.
"""

from collections.abc import Callable, Mapping
from typing import Any

from harmony import pointers
from server.threads import cost

MAX_NODES = 4096
"""Schemas in the result."""

MAX_TEXT = 1 << 18
"""Characters of the names, texts and values in the result, where each value costs 8 more."""

MAX_DEPTH = 32
MAX_VALUES = 4096
"""Values of an enum, or names of properties, in one schema."""

_VALUE = 8  # the cost of a value without text, in characters
_TYPES = frozenset({"string", "number", "boolean", "integer", "object", "array", "null"})
_COUNTS = (*("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"),)
_NUMBERS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
_ANNOTATIONS = frozenset({"description", "default", "examples", "const", "format", "pattern"})


class TooLarge(ValueError):
    """The schema has too many parts or too much text once its references are expanded."""


def flatten(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of an object's properties, without references. Raises TooLarge."""
    flat = _Flattener(schema).schema(schema, 0, frozenset())
    if not isinstance(flat, dict) or flat.get("type", "object") != "object":
        return {"type": "object", "properties": {}}
    return {"type": "object", **flat}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


class _Flattener:
    """Copies one schema document; `root` is what references refer to."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._nodes = 0
        self._text = 0

    def schema(self, value: Any, depth: int, open_refs: frozenset[str]) -> Any:
        """A schema, its references expanded. One within itself becomes `{}`, which permits all."""
        if isinstance(value, bool):
            self._add_text(_VALUE)
            return value
        self._nodes += 1
        if self._nodes > MAX_NODES:
            raise TooLarge(f"more than {MAX_NODES:,} parts")
        if not isinstance(value, Mapping) or depth > MAX_DEPTH:
            return {}
        if isinstance(reference := value.get("$ref"), str):
            if reference in open_refs:
                return {}
            self._add_text(len(reference))  # which takes time to resolve
            open_refs |= {reference}
            target = self.schema(pointers.resolve(reference, self._root), depth + 1, open_refs)
            beside = {key: inner for key, inner in value.items() if key != "$ref"}
            own = self.schema(beside, depth + 1, open_refs)
            return _with_siblings(target, own)
        return self._keywords(value, depth, open_refs)

    def _add_text(self, characters: int) -> None:
        """Count what a reference copies, or reads, each time that it is expanded."""
        self._text += characters
        if self._text > MAX_TEXT:
            raise TooLarge(f"more than {MAX_TEXT:,} characters")

    def _keywords(
        self, value: Mapping[str, Any], depth: int, open_refs: frozenset[str]
    ) -> dict[str, Any]:
        def inner(part: Any) -> Any:
            return self.schema(part, depth + 1, open_refs)

        flat = {key: part for key, part in value.items() if _is_simple(key, part)}
        self._add_text(len(value) + cost(flat, MAX_TEXT, _VALUE))
        flat |= _types(value.get("type"))
        flat |= _object(value, inner)
        names = [*flat.get("properties", ()), *flat.get("required", ())]
        self._add_text(cost(names, MAX_TEXT, _VALUE))
        flat |= _array(value, inner)
        for key in ("anyOf", "oneOf", "allOf"):
            parts = value.get(key)
            if isinstance(parts, list) and parts:
                flat[key] = [inner(part) for part in parts]
        return _without_simple_union(flat)


def _is_simple(key: str, part: Any) -> bool:
    """Whether a keyword without schemas in it has a value that it may have."""
    if key in _COUNTS:
        return isinstance(part, int) and not isinstance(part, bool) and part >= 0
    if key in _NUMBERS:
        return _is_number(part) and (key != "multipleOf" or part > 0)
    if key == "enum":
        return isinstance(part, list) and 0 < len(part) <= MAX_VALUES
    if key in ("description", "format", "pattern"):
        return isinstance(part, str)
    if key == "default":
        return part is not None
    return key in _ANNOTATIONS


def _types(value: Any) -> dict[str, Any]:
    if isinstance(value, str) and value in _TYPES:
        return {"type": value}
    if isinstance(value, list) and len(value) <= len(_TYPES):
        known = [each for each in value if isinstance(each, str) and each in _TYPES]
        if known and len(known) == len(value):
            return {"type": known[0] if len(known) == 1 else list(dict.fromkeys(known))}
    return {}


def _object(value: Mapping[str, Any], inner: Callable[[Any], Any]) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    properties = value.get("properties")
    if isinstance(properties, Mapping):
        if len(properties) > MAX_VALUES:
            raise TooLarge(f"more than {MAX_VALUES:,} properties")
        flat["properties"] = {name: inner(part) for name, part in properties.items()}
    required = value.get("required")
    if isinstance(required, list) and len(required) <= MAX_VALUES:
        names = dict.fromkeys(name for name in required if isinstance(name, str))
        flat["required"] = list(names)
    others = value.get("additionalProperties")
    # It says nothing of the names that a pattern matches, and patterns are left out.
    if isinstance(others, Mapping | bool) and not value.get("patternProperties"):
        flat["additionalProperties"] = inner(others)
    return flat


def _array(value: Mapping[str, Any], inner: Callable[[Any], Any]) -> dict[str, Any]:
    items, first = value.get("items"), value.get("prefixItems")
    if isinstance(items, list):  # as older dialects write tuples
        items, first = value.get("additionalItems"), items
    flat: dict[str, Any] = {}
    if isinstance(first, list) and first:
        flat["prefixItems"] = [inner(part) for part in first]
    if isinstance(items, Mapping | bool):
        flat["items"] = inner(items)
    return flat


def _without_simple_union(flat: dict[str, Any]) -> dict[str, Any]:
    """`type: [A, B]` in place of `anyOf: [{type: A}, {type: B}]`, which optional fields have."""
    parts = flat.get("anyOf")
    if "type" in flat or not isinstance(parts, list):
        return flat
    if not all(isinstance(part, dict) and part.keys() == {"type"} for part in parts):
        return flat
    types = [part["type"] for part in parts]
    if not all(isinstance(each, str) for each in types):
        return flat
    rest = {key: value for key, value in flat.items() if key != "anyOf"}
    return {**rest, **_types(list(dict.fromkeys(types)))}


def _with_siblings(target: Any, own: Any) -> Any:
    """The target of a reference and what stands beside the reference."""
    if not isinstance(target, dict) or not isinstance(own, dict) or not own:
        return target
    if own.keys() <= {"description", "default", "examples"}:
        return {**target, **own}
    return {"allOf": [target, own]}
