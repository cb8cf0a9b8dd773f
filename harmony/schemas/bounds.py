"""Bounds of numbers, written so that llguidance keeps them.

Its regex of a range is wrong in two ways. It permits an integer that is an exclusive bound if the
other bound has the same integer part: 0 for `0 < x <= 0.5`. And it permits no number with which the
digits of a bound begin: 0.9 for `x <= 0.95`. A model that has begun to write it would have to go on
with another digit.
"""

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from harmony.schemas.keywords import is_number, named_types

_DIGITS = 15
"""Significant digits that every double keeps."""
_SIDES = (
    (1, "minimum", "exclusiveMinimum", ("maximum", "exclusiveMaximum")),
    (-1, "maximum", "exclusiveMaximum", ("minimum", "exclusiveMinimum")),
)


def correct_bounds(place: dict[str, Any]) -> None:
    """Rewrite the bounds of a schema of numbers. Other schemas stay as they are."""
    if "number" not in named_types(place):
        return
    for sign, inclusive, exclusive, others in _SIDES:
        _move_integer(place, sign, inclusive, exclusive, others)
    for sign, inclusive, exclusive, _ in _SIDES:
        for word in (inclusive, exclusive):
            _add_beginnings(place, sign, word)


def _move_integer(
    place: dict[str, Any], sign: int, inclusive: str, exclusive: str, others: tuple[str, str]
) -> None:
    """Replace an exclusive bound by the next number, where llguidance would permit the bound.

    sign: 1 for a lower bound; -1 for an upper one, which is the same with other signs.
    """
    bound = place.get(exclusive)
    ends = [sign * place[word] for word in others if is_number(place.get(word))]
    if not is_number(bound) or sign * bound < 0 or bound % 1 != 0 or not ends:
        return
    least = sign * int(bound)
    if not least < min(ends) < least + 1:
        return
    nearest = least + 10.0 ** (len(str(least)) - _DIGITS)
    if not least < nearest < min(ends):
        return
    del place[exclusive]
    own = place.get(inclusive)
    if not is_number(own) or sign * own < nearest:
        place[inclusive] = sign * nearest


def _add_beginnings(place: dict[str, Any], sign: int, word: str) -> None:
    """Permit the numbers with which the digits of the bound `word` begin.

    sign: as in `_move_integer`.
    """
    bound, combined = place.get(word), place.get("allOf", [])
    if not is_number(bound) or sign * bound >= 0 or not isinstance(combined, list):
        return
    shorter = [*_beginnings(bound)]
    if shorter:
        del place[word]
        place["allOf"] = [*combined, {"anyOf": [{word: bound}, {"enum": shorter}]}]


def _beginnings(bound: int | float) -> Iterator[float]:
    whole, _, digits = f"{Decimal(repr(bound)):f}".partition(".")
    if len(digits) <= _DIGITS:
        # One that ends with 0 is the number of a shorter one, or an integer, which is permitted.
        ends = (end for end in range(1, len(digits)) if digits[end - 1] != "0")
        yield from (float(f"{whole}.{digits[:end]}") for end in ends)
