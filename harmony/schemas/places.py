"""The schemas inside a JSON Schema, with their paths."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from harmony.schemas.keywords import named_types

Path = tuple[str | int, ...]

MAX_DEPTH = 10
TYPES = frozenset({"string", "number", "boolean", "integer", "object", "array", "null"})
SCHEMA_MAPS = ("properties", "$defs", "definitions", "patternProperties")
"""The keywords whose value names schemas."""
_SCHEMA_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")
_INNER = (*SCHEMA_MAPS, *_SCHEMA_LISTS, "items", "additionalProperties")
INNER_WORDS = frozenset(_INNER)
"""The keywords whose value is a schema, or has schemas in it."""
_NESTING = frozenset({"properties", "patternProperties", "items", "prefixItems"})


class UnsupportedSchema(ValueError):
    """A schema that cannot be enforced strictly. path: the steps from the root to the fault."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path_text(path)}: {reason}")
        self.path = path
        self.reason = reason


def root_type(schema: Mapping[str, Any]) -> str | None:
    """The value of `type` at the root of `schema` if it is one JSON type, else None."""
    named = schema.get("type")
    return named if isinstance(named, str) and named in TYPES else None


def for_object(schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """`schema` of a value that is an object in any case, as the arguments of a call are.

    If it names types, the result names `object` alone. None if `object` is not among them.
    """
    written = {word: value for word, value in schema.items() if word != "nullable"}
    if "type" not in schema:
        return written
    return written | {"type": "object"} if "object" in named_types(schema) else None


def path_text(path: Path) -> str:
    """A path as text, such as `$` or `$.properties.a.anyOf[0]`."""
    steps = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return "$" + "".join(steps)


@dataclass(frozen=True, slots=True)
class Place:
    """A schema inside a schema. depth: the number of values around the value that it describes."""

    path: Path
    schema: Mapping[str, Any]
    depth: int


def places(root: Place, seen: set[int] | None = None) -> Iterator[Place]:
    """All schemas in `root`, itself first. Raises UnsupportedSchema for a value of a wrong type.

    seen: the ids of schemas to leave out, with all in them; those of the result are added.
    """
    seen = set() if seen is None else seen
    waiting = [root]
    while waiting:
        place = waiting.pop()
        if id(place.schema) in seen:
            continue
        seen.add(id(place.schema))
        yield place
        found = (_place(place, path, value) for path, value in _inner(place))
        waiting += reversed([inner for inner in found if inner is not None])


def _inner(place: Place) -> Iterator[tuple[Path, Any]]:
    schema = place.schema
    for word in _INNER:
        if word not in schema:
            continue
        if word in SCHEMA_MAPS:
            for name, value in of_kind(place, word, Mapping, {}).items():
                yield (word, name), value
        elif word in _SCHEMA_LISTS:
            for index, value in enumerate(of_kind(place, word, list, [])):
                yield (word, index), value
        else:
            yield (word,), schema[word]


def _place(outer: Place, steps: Path, value: Any) -> Place | None:
    path = (*outer.path, *steps)
    if isinstance(value, bool):
        return None
    if not isinstance(value, Mapping):
        raise UnsupportedSchema(path, "expected a schema")
    depth = outer.depth + (steps[0] in _NESTING)
    if depth > MAX_DEPTH:
        raise UnsupportedSchema(path, f"nested in more than {MAX_DEPTH} levels")
    return Place(path, value, depth)


def of_kind(place: Place, word: str, kind: type, missing: Any) -> Any:
    """A keyword's value, `missing` without it. Raises UnsupportedSchema for another type."""
    value = place.schema.get(word, missing)
    if not isinstance(value, kind):
        expected = "a list" if kind is list else "an object"
        raise UnsupportedSchema((*place.path, word), f"expected {expected}")
    return value
