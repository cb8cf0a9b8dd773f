"""Reads the arguments that the model wrote, and checks them against a flattened schema."""

from collections.abc import Mapping
from typing import Any

import orjson

# It comes with the SDK. Only this module and the client import what the extra installs.
from jsonschema import Draft202012Validator
from jsonschema.exceptions import (  # type: ignore[import-untyped]
    ValidationError,
    best_match,
)
from jsonschema.validators import create  # type: ignore[import-untyped]

from server.tools.mcp.limits import MAX_ARGUMENTS

# Without references and patterns, a check takes time in proportion to schema times arguments.
_CHECKED = (
    *("type", "enum", "const", "properties", "required", "additionalProperties"),
    *("items", "prefixItems", "anyOf", "allOf"),
    *("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"),
    *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
)
_Validator = create(
    meta_schema={},
    validators={
        **{name: Draft202012Validator.VALIDATORS[name] for name in _CHECKED},
        # Flattened alternatives permit more than the server's: a value may fit several of them.
        "oneOf": Draft202012Validator.VALIDATORS["anyOf"],
    },
    type_checker=Draft202012Validator.TYPE_CHECKER,
)
_MAX_REASON = 500
_MAX_CHECKS = 200_000
"""Pairs of a value in the arguments and one in the schema: each takes up to three microseconds."""
_CHARACTERS = 1000  # that cost as much as a value: errors quote what does not fit


class InvalidArguments(ValueError):
    """The arguments are not valid. The message tells the model why."""


def read_arguments(content: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments as an object that is valid under a flattened schema. Raises InvalidArguments.

    An empty text is an object without properties: some models write nothing for no arguments.
    """
    if len(content) > MAX_ARGUMENTS:
        raise InvalidArguments(f"the arguments have more than {MAX_ARGUMENTS:,} characters")
    try:
        value = orjson.loads(content.strip() or "{}")
    except orjson.JSONDecodeError as error:
        raise InvalidArguments(f"the arguments are not JSON: {error}") from None
    if not isinstance(value, dict):
        raise InvalidArguments("the arguments are not a JSON object")
    if (_count(value) + len(content) // _CHARACTERS) * _count(schema) > _MAX_CHECKS:
        return value  # The MCP server checks them in any case.
    problem: ValidationError | None = best_match(_Validator(schema).iter_errors(value))
    if problem is not None:
        place = "".join(f"[{step!r}]" for step in problem.absolute_path)
        reason = problem.message[:_MAX_REASON]
        raise InvalidArguments(f"the arguments{place} do not fit the schema: {reason}")
    return value


def _count(value: Any) -> int:
    """The values in a JSON value."""
    count, pending = 0, [value]
    while pending:
        item = pending.pop()
        count += 1
        if isinstance(item, Mapping):
            pending.extend(item.values())
        elif isinstance(item, list):
            pending.extend(item)
    return count
