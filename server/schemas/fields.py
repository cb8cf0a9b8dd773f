"""Checks of raw JSON values whose errors name the field by its dotted path.

They are used where a pydantic union would report the errors of every alternative. All raise
InvalidRequest with the given `param`.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import orjson

from server.errors import InvalidRequest
from server.schemas.limits import MAX_DECLARATION, MAX_ITEMS, MAX_LABEL

T = TypeVar("T")

_NAMES = {
    str: "a string",
    bool: "a boolean",
    int: "an integer",
    list: "an array",
    dict: "an object",
}


def invalid(param: str, problem: str, code: str | None = None) -> InvalidRequest:
    """The error for a field. problem: a clause without a full stop."""
    return InvalidRequest(f"Invalid value for '{param}': {problem}.", param=param, code=code)


def missing(param: str) -> InvalidRequest:
    """The error for a field that is required and absent."""
    return InvalidRequest(
        f"Missing required parameter: '{param}'.", param=param, code="missing_required_parameter"
    )


def required(fields: Mapping[str, Any], name: str, where: str, read: Callable[[Any, str], T]) -> T:
    """What `read` makes of the field and its path.

    where: the path of `fields`. Null is a value, and no absence: `read` judges it.
    """
    param = f"{where}.{name}"
    if name not in fields:
        raise missing(param)
    return read(fields[name], param)


def string(value: Any, param: str) -> str:
    """`value`, which must be a string."""
    if not isinstance(value, str):
        raise wrong_type(value, param, str)
    return value


def label(value: Any, param: str) -> str:
    """`value`, which must be a string of at most `MAX_LABEL` characters: an id or a name."""
    if len(string(value, param)) > MAX_LABEL:
        raise invalid(param, f"expected at most {MAX_LABEL} characters")
    return str(value)


def optional_label(value: Any, param: str) -> str | None:
    """`value`, which must be null or a label."""
    return None if value is None else label(value, param)


def optional_string(value: Any, param: str) -> str | None:
    """`value`, which must be a string or null."""
    return None if value is None else string(value, param)


def boolean(value: Any, param: str) -> bool:
    """`value`, which must be a boolean."""
    if not isinstance(value, bool):
        raise wrong_type(value, param, bool)
    return value


def optional_boolean(value: Any, param: str) -> bool | None:
    """`value`, which must be a boolean or null."""
    return None if value is None else boolean(value, param)


def mapping(value: Any, param: str) -> dict[str, Any]:
    """`value`, which must be a JSON object."""
    if not isinstance(value, dict):
        raise wrong_type(value, param, dict)
    return value


def optional_mapping(value: Any, param: str) -> dict[str, Any] | None:
    """`value`, which must be a JSON object or null."""
    return None if value is None else mapping(value, param)


def array(value: Any, param: str, most: int = MAX_ITEMS) -> list[Any]:
    """`value`, which must be a JSON array of at most `most` elements."""
    if not isinstance(value, list):
        raise wrong_type(value, param, list)
    if len(value) > most:
        raise invalid(param, f"expected at most {most} elements")
    return value


def declaration(value: Any, param: str) -> None:
    """Raises InvalidRequest for a value of more than `MAX_DECLARATION` bytes: answers repeat it."""
    if value is not None and _size(value) > MAX_DECLARATION:
        raise invalid(param, f"it is larger than {MAX_DECLARATION} bytes of JSON")


def _size(value: Any) -> int:
    try:
        return len(orjson.dumps(value))
    except TypeError:  # an integer of more than 64 bits
        return len(json.dumps(value))


def digits(text: str, most: int) -> int | None:
    """The integer from 0 to `most` that `text` has in decimal digits, None for any other text.

    The text may have any length, while `int` raises ValueError for thousands of digits.
    """
    is_short = text.isascii() and text.isdecimal() and len(text) <= len(str(most))
    return int(text) if is_short and int(text) <= most else None


def wrong_type(value: Any, param: str, *expected: type) -> InvalidRequest:
    """The error for a value that has none of the expected types."""
    got = "null" if value is None else _NAMES.get(type(value), "a number")
    names = " or ".join(_NAMES[each] for each in expected)
    return invalid(param, f"expected {names}, but got {got}", code="invalid_type")
