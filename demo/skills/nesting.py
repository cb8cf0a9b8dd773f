"""Records with objects inside: some properties of a flat schema are moved into an inner one."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from demo.skills.case import Draw
from demo.skills.catalogue.asking import Declared
from demo.skills.words import nouns

_INNER = ("info", "data", "about", "meta", "main", "attributes", "facts", "extra", "inner", "base")

_LISTS = ("items", "records", "entries", "list", "results")


def nested(draw: Draw, declared: Declared) -> Declared:
    """The declaration with two or more of its properties in an inner object."""
    schema = declared.tool.parameters or {}
    properties = schema["properties"]
    if len(properties) < 2:
        return declared
    name = draw.pick((draw.pick(_INNER), draw.pick(nouns(draw.split))))
    if name in properties:
        return declared
    moved = draw.rng.sample(list(properties), draw.rng.randint(2, len(properties)))
    inner = _object(schema, [key for key in properties if key in moved])
    outer = _object(schema, [key for key in properties if key not in moved])
    places = list(outer["properties"].items())
    places.insert(draw.rng.randint(0, len(places)), (name, inner))
    outer["properties"] = dict(places)
    if inner["required"]:
        outer["required"].append(name)
    return replace(declared, tool=replace(declared.tool, parameters=outer))


def _object(schema: Mapping[str, Any], names: list[str]) -> dict[str, Any]:
    """The schema with the properties of these names alone."""
    return {
        **schema,
        "properties": {name: schema["properties"][name] for name in names},
        "required": [name for name in schema["required"] if name in names],
    }


def several(draw: Draw, schema: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The name of a list and the schema of an object that holds a list of such records."""
    name = draw.pick((*_LISTS, draw.pick(nouns(draw.split))))
    array = {"type": "array", "items": schema}
    whole = {"type": "object", "properties": {name: array}, "required": [name]}
    return name, {**whole, "additionalProperties": False}


def arranged(schema: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Flat values in the places that the schema has for them."""
    made: dict[str, Any] = {}
    for name, inner in schema["properties"].items():
        if name in values:
            made[name] = values[name]
        elif "properties" in inner and (held := arranged(inner, values)):
            made[name] = held
    return made
