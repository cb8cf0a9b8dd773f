"""Whether two texts are the same arguments of a call.

Clients that hold arguments as values write them anew when they send a call back: with other white
space, other escapes, in another order. Only what every reader must take for the same is the same:
numbers are compared exactly and by their kind (1 is neither 1.0 nor true), and texts that leave a
reader a choice (a name that stands twice, NaN, what is no JSON at all) by their characters.
"""

import json
from decimal import Decimal, InvalidOperation
from typing import Any

MAX_REWRITTEN = 1 << 18
"""Characters of arguments that are read to compare them; longer ones are compared as texts."""


def same_arguments(one: str, other: str) -> bool:
    """Whether both are one text, or the same JSON of at most `MAX_REWRITTEN` characters."""
    if one == other:
        return True
    if max(len(one), len(other)) > MAX_REWRITTEN:
        return False
    try:
        return bool(_read(one) == _read(other))
    except (ValueError, InvalidOperation, RecursionError):
        return False


def _read(text: str) -> Any:
    """The value, with its numbers as pairs that equal no other value."""
    return json.loads(
        text,
        object_pairs_hook=_object,
        parse_int=lambda digits: (int, digits),
        parse_float=lambda digits: (float, Decimal(digits)),
        parse_constant=_refuse,
    )


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    read = dict(pairs)
    if len(read) < len(pairs):
        raise ValueError("a name stands twice")
    return read


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is no JSON")
