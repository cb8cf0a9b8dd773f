"""The model's calls of the browser: search, open and find, with their arguments."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from harmony.grammar import CallableTool, SchemaJson

NAME = "browser"
MOST_QUERY = 2000
MOST_PATTERN = 500
_LARGEST = 10**9
_LINK_ID = re.compile(r"\s*【?(-1|\d{1,9})(?:†.*)?\s*", re.DOTALL)


class BadCall(Exception):
    """The arguments cannot be used. The message is for the model."""


@dataclass(frozen=True, slots=True)
class Search:
    """Search the web. count: results, None for the default."""

    query: str
    count: int | None = None


@dataclass(frozen=True, slots=True)
class Open:
    """Open a link or a URL, or scroll.

    link: the id of a link on the page of `cursor`; -1 for none. url: opened where it is not None.
    line: the first line, -1 for the default. lines: how many, <= 0 for a view. source: show the
    page's source.
    """

    link: int = -1
    url: str | None = None
    cursor: int = -1
    line: int = -1
    lines: int = -1
    source: bool = False


@dataclass(frozen=True, slots=True)
class Find:
    """Find a pattern on a page."""

    pattern: str
    cursor: int = -1


Call = Search | Open | Find

_INTEGER = {"type": "integer", "minimum": -1, "maximum": 1_000_000}
_SCHEMAS: dict[str, dict[str, Any]] = {
    "search": {
        "query": {"type": "string", "minLength": 1, "maxLength": MOST_QUERY},
        "topn": {"type": "integer", "minimum": 1, "maximum": 100},
        "source": {"type": "string", "maxLength": 40},
    },
    "open": {
        "id": {"anyOf": [_INTEGER, {"type": "string", "minLength": 1, "maxLength": 8192}]},
        "cursor": _INTEGER,
        "loc": _INTEGER,
        "num_lines": _INTEGER,
        "view_source": {"type": "boolean"},
        "source": {"type": "string", "maxLength": 40},
    },
    "find": {
        "pattern": {"type": "string", "minLength": 1, "maxLength": MOST_PATTERN},
        "cursor": _INTEGER,
    },
}
_REQUIRED = {"search": ["query"], "open": [], "find": ["pattern"]}


def callable_tools() -> tuple[CallableTool, ...]:
    """The functions that the model may call, with the grammar of their arguments."""
    return tuple(
        CallableTool(
            f"{NAME}.{name}",
            SchemaJson(
                {
                    "type": "object",
                    "properties": properties,
                    "required": _REQUIRED[name],
                    "additionalProperties": False,
                }
            ),
        )
        for name, properties in _SCHEMAS.items()
    )


def function_of(recipient: str) -> str:
    """The name of the function, such as `open`."""
    return recipient.rpartition(".")[2]


def parse(recipient: str, content: str) -> Call:
    """The call. Numbers may be JSON strings or floats without a fraction. Raises BadCall."""
    arguments = _arguments(content)
    match function_of(recipient):
        case "search":
            count = _integer(arguments, "topn", _integer(arguments, "top_n", -1))
            return Search(_text(arguments, "query", MOST_QUERY), count if count > 0 else None)
        case "open":
            return _open(arguments)
        case "find":
            return Find(_text(arguments, "pattern", MOST_PATTERN), _integer(arguments, "cursor"))
        case name:
            raise BadCall(f"Unknown function: {name[:40]}. Use search, open or find.")


def _arguments(content: str) -> Mapping[str, Any]:
    try:
        arguments = json.loads(content) if content.strip() else {}
    except (ValueError, RecursionError) as error:
        raise BadCall("The arguments are not valid JSON.") from error
    if not isinstance(arguments, dict):
        raise BadCall("The arguments have to be a JSON object.")
    return arguments


def _open(arguments: Mapping[str, Any]) -> Open:
    target = arguments.get("id")
    link, url = -1, None
    if isinstance(target, str):
        number = _LINK_ID.fullmatch(target)
        if number is not None:
            link = int(number[1])
        elif target.strip():
            url = target.strip().encode("utf-8", "replace").decode()
    else:
        link = _integer(arguments, "id")
    return Open(
        link,
        url,
        _integer(arguments, "cursor"),
        _integer(arguments, "loc"),
        _integer(arguments, "num_lines"),
        arguments.get("view_source") is True,
    )


def _integer(arguments: Mapping[str, Any], name: str, default: int = -1) -> int:
    value = arguments.get(name)
    if value is None:
        return default
    if isinstance(value, str) and re.fullmatch(r"-?[0-9]{1,9}", value):
        value = int(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) > _LARGEST:
        raise BadCall(f"`{name}` should be an integer.")
    return value


def _text(arguments: Mapping[str, Any], name: str, most: int) -> str:
    value = arguments.get(name)
    if not isinstance(value, str) or not value.strip():
        raise BadCall(f"`{name}` should be a text that is not empty.")
    if len(value) > most:
        raise BadCall(f"`{name}` is longer than {most} characters.")
    return value.encode("utf-8", "replace").decode()  # JSON may spell half a surrogate pair
