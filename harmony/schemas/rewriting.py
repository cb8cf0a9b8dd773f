"""Rewrites JSON Schemas so that llguidance reads them as the rest of the server does."""

from collections.abc import Callable, Mapping
from typing import Any

from harmony import pointers
from harmony.schemas.places import INNER_WORDS, SCHEMA_MAPS

_COMPOSING = ("$ref", "anyOf", "oneOf", "allOf")


def without_dialects(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of `schema` without `$schema` and `$id`, which llguidance reads like `check_strict`.

    In llguidance an older dialect disables `prefixItems` in its schema, and references inside a
    schema with an identifier are relative to that schema.
    """
    return _rewritten(schema, _drop_dialect)


def _drop_dialect(place: dict[str, Any]) -> None:
    place.pop("$schema", None)
    place.pop("$id", None)


def for_llguidance(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of `schema` that llguidance understands.

    References become URIs, the only form that it resolves. OpenAPI's `nullable`
    (https://spec.openapis.org/oas/v3.0.3#schema-object), which it does not know, becomes a type or
    an alternative; at the root, whose value is an object, it has no effect.
    """
    return _rewritten({k: v for k, v in schema.items() if k != "nullable"}, _translate)


def _translate(place: dict[str, Any]) -> None:
    if isinstance(reference := place.get("$ref"), str):
        place["$ref"] = pointers.canonical(reference)
    if place.pop("nullable", False) is True:
        _allow_null(place)


def _allow_null(place: dict[str, Any]) -> None:
    """Let a place be null too. What references may lead to keeps its path, as far as possible."""
    composing = [word for word in _COMPOSING if word in place]
    if len(composing) > 1:  # no single keyword holds the alternatives
        return
    if "anyOf" in place:
        if isinstance(place["anyOf"], list):
            place["anyOf"] = [*place["anyOf"], {"type": "null"}]
    elif composing:
        word = composing[0]
        place["anyOf"] = [{word: place.pop(word)}, {"type": "null"}]
    if "const" in place:
        place["enum"] = [place.pop("const")]
    if "type" in place:
        named = place["type"]
        place["type"] = [*(named if isinstance(named, list) else [named]), "null"]
    if isinstance(place.get("enum"), list):
        place["enum"] = [*place["enum"], None]


def _rewritten(
    schema: Mapping[str, Any], rewrite: Callable[[dict[str, Any]], object]
) -> dict[str, Any]:
    """A copy of `schema` in which `rewrite` was called with it and with each schema inside."""
    waiting = [whole := dict(schema)]

    def copied(value: Any) -> Any:
        if not isinstance(value, Mapping):
            return value
        waiting.append(copy := dict(value))
        return copy

    while waiting:
        place = waiting.pop()
        rewrite(place)
        for word in place.keys() & INNER_WORDS:
            value = place[word]
            if isinstance(value, list):
                place[word] = [copied(inner) for inner in value]
            elif word in SCHEMA_MAPS and isinstance(value, Mapping):
                place[word] = {name: copied(inner) for name, inner in value.items()}
            else:
                place[word] = copied(value)
    return whole
