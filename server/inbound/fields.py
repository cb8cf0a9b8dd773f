"""Checks of raw JSON that name the offending field by its dotted path.

Used where a pydantic union would answer with the errors of every alternative. All raise
InvalidRequest whose `param` is the path given.
"""

from typing import Any

from server.errors import InvalidRequest

_NAMES = {
    str: "a string",
    bool: "a boolean",
    int: "an integer",
    list: "an array",
    dict: "an object",
}


def invalid(param: str, problem: str, code: str | None = None) -> InvalidRequest:
    """The error for `param`; `problem` is a clause without its full stop."""
    return InvalidRequest(f"Invalid value for '{param}': {problem}.", param=param, code=code)


def string(value: Any, param: str) -> str:
    """`value`, which must be a string."""
    if not isinstance(value, str):
        raise _wrong_type(value, param, str)
    return value


def optional_string(value: Any, param: str) -> str | None:
    """`value`, which must be a string or null."""
    return None if value is None else string(value, param)


def optional_boolean(value: Any, param: str) -> bool | None:
    """`value`, which must be a boolean or null."""
    if value is not None and not isinstance(value, bool):
        raise _wrong_type(value, param, bool)
    return value


def mapping(value: Any, param: str) -> dict[str, Any]:
    """`value`, which must be a JSON object."""
    if not isinstance(value, dict):
        raise _wrong_type(value, param, dict)
    return value


def optional_mapping(value: Any, param: str) -> dict[str, Any] | None:
    """`value`, which must be a JSON object or null."""
    return None if value is None else mapping(value, param)


def array(value: Any, param: str) -> list[Any]:
    """`value`, which must be a JSON array."""
    if not isinstance(value, list):
        raise _wrong_type(value, param, list)
    return value


def digits(text: str, most: int) -> int | None:
    """The integer from 0 to `most` that `text` spells in decimal; None where it spells none.

    Text of any length may be asked about: `int` refuses what has thousands of digits.
    """
    spelled = text.isascii() and text.isdecimal() and len(text) <= len(str(most))
    return int(text) if spelled and int(text) <= most else None


def _wrong_type(value: Any, param: str, wanted: type) -> InvalidRequest:
    got = "null" if value is None else _NAMES.get(type(value), "a number")
    return invalid(param, f"expected {_NAMES[wanted]}, but got {got}", code="invalid_type")
