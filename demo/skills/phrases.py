"""Wordings that are put together: `[put|bring] this [in|into] a table` stands for four of them."""

import re
from collections.abc import Sequence

from demo.skills.case import Draw

_CHOICE = re.compile(r"\[([^\[\]]*)\]")


def worded(draw: Draw, pattern: str) -> str:
    """One of the wordings of a pattern; choices may stand inside choices."""
    while "[" in pattern:
        pattern = _CHOICE.sub(lambda match: draw.pick(match[1].split("|")), pattern)
    return pattern


def enumerated(parts: Sequence[str]) -> str:
    """The parts, at least one, as a sentence lists them: `a, b and c`."""
    return ", ".join(parts[:-1]) + " and " + parts[-1] if parts[1:] else parts[0]


def capital(text: str) -> str:
    """The text with a capital letter in front, if it begins with a letter."""
    return text[:1].upper() + text[1:]
