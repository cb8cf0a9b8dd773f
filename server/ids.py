"""Ids of objects that the server creates: a prefix for the kind, and 48 hexadecimal digits.

The first digits are the time of creation, so that a page of a list can begin after an object that
has been deleted since. The ids by which results name their calls are shorter.
"""

import re
import secrets
import time
from collections.abc import Sequence
from typing import Literal

_TIME_DIGITS, _RANDOM_BYTES = 14, 17
_ID = re.compile(rf"[a-z]+[_-]([0-9a-f]{{{_TIME_DIGITS}}})[0-9a-f]{{{2 * _RANDOM_BYTES}}}")
# Microseconds. Ids of earlier versions have random digits instead of a time, which are hardly ever
# between these limits.
_FIRST, _TOLERANCE = 1_700_000_000_000_000, 86_400_000_000

_last = 0


def new_id(prefix: str) -> str:
    """`prefix` (`resp`, `msg`, …), an underscore, the time, and 136 random bits.

    The ids of one process are in the order of creation, as texts too.
    """
    global _last
    _last = max(_last + 1, _now())
    return f"{prefix}_{_last:0{_TIME_DIGITS}x}{secrets.token_hex(_RANDOM_BYTES)}"


def new_call_id() -> str:
    """`call_` and 136 random bits: 39 characters.

    OpenAI's Chat API takes at most 40. Clients that know this send longer ids back as others, and
    the reasoning before the call would not be found.
    """
    return f"call_{secrets.token_hex(_RANDOM_BYTES)}"


def created(id_: str) -> int | None:
    """The time in an id of `new_id`, in Unix microseconds; None for any other id."""
    match = _ID.fullmatch(id_)
    moment = int(match[1], 16) if match else 0
    return moment if _FIRST < moment < _now() + _TOLERANCE else None


def bounds(cursor: str) -> tuple[str, str] | None:
    """The lower and upper bound, as texts, of ids of `new_id` with the prefix of `cursor`.

    None if `cursor` is not such an id.
    """
    if created(cursor) is None:
        return None
    kind = _kind(cursor)
    ends = _FIRST, _now() + _TOLERANCE
    return f"{kind}{ends[0]:0{_TIME_DIGITS}x}", f"{kind}{ends[1]:0{_TIME_DIGITS}x}"


def place_after(
    ids: Sequence[str], cursor: str, order: Literal["asc", "desc"], *, mixed: bool = False
) -> int:
    """The place in a list where the entries begin that follow `cursor`.

    ids: of the entries, in the order of the list. cursor: one of them, the last one if several are
    equal; or the id of an entry that was deleted. Its place is known exactly where entries are in
    the order in which their ids were made. mixed: whether entries of other kinds may follow it. The
    result is the length of the list for other ids.
    """
    places = [place for place, each in enumerate(ids) if each == cursor]
    if places:
        return places[-1] + 1
    moment = created(cursor)
    if moment is not None:
        for place, each in enumerate(ids):
            other = created(each) if mixed or _kind(each) == _kind(cursor) else None
            if other is not None and (other > moment if order == "asc" else other < moment):
                return place
    return len(ids)


def _kind(id_: str) -> str:
    """The prefix of an id of `new_id`."""
    return id_[: -_TIME_DIGITS - 2 * _RANDOM_BYTES]


def _now() -> int:
    return time.time_ns() // 1000
