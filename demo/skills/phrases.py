"""Wordings that are put together: `[put|bring] this [in|into] a table` stands for four of them."""

import re

from demo.skills.case import Draw

_CHOICE = re.compile(r"\[([^\[\]]*)\]")


def worded(draw: Draw, pattern: str) -> str:
    """One of the wordings of a pattern; choices may stand inside choices."""
    while "[" in pattern:
        pattern = _CHOICE.sub(lambda match: draw.pick(match[1].split("|")), pattern)
    return pattern
