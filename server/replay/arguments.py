"""Comparison of the arguments of two calls.

Some clients parse arguments and write them again when they send a call back: with other white
space, other escapes or another order of names. Two texts are equal only where every JSON reader
reads the same value. Numbers are compared exactly and by type: 1 equals neither 1.0 nor true. Texts
that readers may read differently (with a repeated name, with NaN, or not JSON at all) are compared
character by character.
"""

import json
from decimal import Decimal, InvalidOperation
from typing import Any

MAX_COMPARED = 1 << 18
"""Characters of arguments that are parsed for a comparison; longer ones are compared as texts."""


def same_arguments(one: str, other: str) -> bool:
    """Whether both are the same text, or the same JSON of at most `MAX_COMPARED` characters."""
    if one == other:
        return True
    if max(len(one), len(other)) > MAX_COMPARED:
        return False
    try:
        return bool(_parse(one) == _parse(other))
    except (ValueError, InvalidOperation, RecursionError):
        return False


def _parse(text: str) -> Any:
    """The value, in which each number is a pair of its type and value."""
    return json.loads(
        text,
        object_pairs_hook=_object,
        parse_int=lambda digits: (int, digits),
        parse_float=lambda digits: (float, Decimal(digits)),
        parse_constant=_refuse_constant,
    )


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ValueError("the object has the same name twice")
    return members


def _refuse_constant(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")
