"""JSON schemas as short text for people, with links to those that have names."""

import json
from html import escape
from typing import Any

_BOUNDS = {
    "minimum": "≥ {}",
    "maximum": "≤ {}",
    "exclusiveMaximum": "&lt; {}",
    "maxLength": "at most {} characters",
}


def type_of(schema: dict[str, Any]) -> str:
    """The type that a JSON schema describes, as HTML."""
    match schema:
        case {"$ref": ref}:
            name = escape(ref.rpartition("/")[2])
            return f'<a href="#{name}">{name}</a>'
        case {"anyOf": alternatives}:
            return " or ".join(map(type_of, alternatives))
        case {"const": value}:
            return _value(value)
        case {"enum": values}:
            return " or ".join(map(_value, values)) + _default(schema)
        case {"type": "array", "items": items} if items:
            return f"array of {_grouped(items)}"
        case {"type": "object", "additionalProperties": dict(values)}:
            return f"object of {_grouped(values)}"
        case {"type": kind}:
            return escape(kind) + _bounds(schema) + _default(schema)
        case _:
            return "any"


def _grouped(schema: dict[str, Any]) -> str:
    text = type_of(schema)
    return f"({text})" if " or " in text else text


def _value(value: Any) -> str:
    return f"<code>{escape(json.dumps(value))}</code>"


def _bounds(schema: dict[str, Any]) -> str:
    found = [text.format(schema[name]) for name, text in _BOUNDS.items() if name in schema]
    return f" ({', '.join(found)})" if found else ""


def _default(schema: dict[str, Any]) -> str:
    return f", by default {_value(schema['default'])}" if "default" in schema else ""
