"""Rewrites JSON Schemas so that llguidance reads them as the rest of the server does."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from harmony import pointers
from harmony.schemas.bounds import correct_bounds
from harmony.schemas.keywords import named_types, unenforceable, without_effect
from harmony.schemas.places import INNER_WORDS, SCHEMA_MAPS

_TYPES: tuple[tuple[Any, str], ...] = (
    (bool, "boolean"),
    ((int, float), "number"),
    (str, "string"),
    (Mapping, "object"),
    (list, "array"),
    (object, "null"),
)
"""The types of JSON values. bool, which is an int too, comes first."""

_COMBINING = ("$ref", "oneOf", "allOf")


def without_dialects(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of `schema` without `$schema` and `$id`, which llguidance reads like `check_strict`.

    In llguidance an older dialect disables `prefixItems` in its schema, and references inside a
    schema with an identifier are relative to that schema.
    """
    return _rewritten(schema, _drop_dialect)


def _drop_dialect(place: dict[str, Any]) -> None:
    place.pop("$schema", None)
    place.pop("$id", None)


def relaxed(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of `schema` without the keywords that llguidance does not enforce as they are defined.

    Outside of `oneOf` it permits all that `schema` permits, so what remains can be enforced.
    """
    return _rewritten(schema, _relax)


def _relax(place: dict[str, Any]) -> None:
    for word in unenforceable(place) & place.keys():
        value = place.pop(word)
        if word == "const":
            value = [value]
        if word in ("const", "enum") and isinstance(value, list):
            # Alternatives that differ in their types remain different.
            place.setdefault("type", sorted({_type_of(one) for one in value}))


def _type_of(value: Any) -> str:
    return next(name for kind, name in _TYPES if isinstance(value, kind))


def for_llguidance(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of `schema` that llguidance understands.

    References become URIs, the only form that it resolves. Keywords without effect are dropped: it
    would refuse some, and read others otherwise. Bounds that it does not keep are written in other
    ways. OpenAPI's `nullable` (https://spec.openapis.org/oas/v3.0.3#schema-object), which it does
    not know, becomes a type or an alternative; at the root, whose value is an object, it has no
    effect.
    """
    return _rewritten({k: v for k, v in schema.items() if k != "nullable"}, _translate)


def _translate(place: dict[str, Any]) -> None:
    for word in [*without_effect(place)]:
        del place[word]
    if isinstance(reference := place.get("$ref"), str):
        place["$ref"] = pointers.canonical(reference)
    if place.pop("nullable", False) is True:
        _allow_null(place)
    correct_bounds(place)


def _allow_null(place: dict[str, Any]) -> None:
    """Let a place be null too. What references may lead to keeps its path, as far as possible."""
    combined = {word: place.pop(word) for word in _COMBINING if word in place}
    alternatives = [combined, {"type": "null"}]
    if isinstance(place.get("anyOf"), list):
        place["anyOf"] = [*place["anyOf"], {"type": "null"}]
    if combined and "anyOf" in place:
        place["allOf"] = [{"anyOf": alternatives}]
    elif combined:
        place["anyOf"] = alternatives
    if "const" in place:
        place["enum"] = [place.pop("const")]
    if "type" in place:
        place["type"] = [*named_types(place), "null"]
    if isinstance(place.get("enum"), list):
        place["enum"] = [*place["enum"], None]


def _rewritten(
    schema: Mapping[str, Any], rewrite: Callable[[dict[str, Any]], object]
) -> dict[str, Any]:
    """A copy of `schema` in which `rewrite` was called with it and with each schema inside."""
    copy = _Copy(schema)
    # All are found first, since the references name the places before any was rewritten.
    for place in copy.places():
        rewrite(place)
    return copy.whole


class _Copy:
    """A copy of a schema, of which no schema is shared with the original."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self.whole = dict(schema)
        self._own = {id(self.whole)}

    def places(self) -> Iterable[dict[str, Any]]:
        """The whole, and the schemas inside: also those to which only references lead."""
        found: dict[int, dict[str, Any]] = {}
        waiting = [self.whole]
        while waiting:
            place = waiting.pop()
            if id(place) not in found:
                found[id(place)] = place
                values = [*self._inner(place), self._target(place.get("$ref"))]
                waiting += [value for value in values if isinstance(value, dict)]
        return found.values()

    def _inner(self, place: dict[str, Any]) -> Iterator[Any]:
        for word in place.keys() & INNER_WORDS:
            value = self._owned(place, word)
            if isinstance(value, list):
                yield from (self._owned(value, index) for index in range(len(value)))
            elif word in SCHEMA_MAPS and isinstance(value, dict):
                yield from (self._owned(value, name) for name in value)
            else:
                yield value

    def _target(self, reference: object) -> Any:
        """What a reference leads to, under whichever keywords; None if it leads nowhere."""
        value: Any = self.whole
        for step in pointers.steps(reference) or ():
            key = pointers.key(value, step)
            if key is None:
                return None
            value = self._owned(value, key)
        return value

    def _owned(self, holder: Any, key: str | int) -> Any:
        value = holder[key]
        if id(value) not in self._own and isinstance(value, Mapping | list | tuple):
            value = holder[key] = dict(value) if isinstance(value, Mapping) else list(value)
            self._own.add(id(value))
        return value
