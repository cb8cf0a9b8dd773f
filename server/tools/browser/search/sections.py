"""Divides a page into the sections that a search finds."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

_HEADING = re.compile(r"(#{1,6}) +(.+)")
_FENCE = "```"
_MOST_CHARACTERS = 1200
_MOST_HEADING = 200
"""Characters of a heading that the sections under it repeat: each of them is stored with it."""


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a page. heading: the headings that it is under, outermost first.

    Of each heading it has at most 200 characters. text: its own heading in full, and what follows.
    """

    heading: str
    text: str


def sections(body: str, most: int) -> Iterator[Section]:
    """The sections of a page's text: from heading to heading, long ones up to an empty line.

    most: how many there may be; the last one has all the rest. There is one at least.
    """
    headings: dict[int, str] = {}
    lines: list[str] = []
    size = count = 0
    is_code = False
    for line in body.split("\n"):
        if line.lstrip().startswith(_FENCE):
            is_code = not is_code
        is_inside = is_code or count + 1 == most
        heading = None if is_inside else _HEADING.match(line)
        is_long = size > _MOST_CHARACTERS and not (is_inside or line.strip())
        if (heading or is_long) and size:
            yield _section(headings, lines)
            count += 1
            lines, size = [], 0
        if heading:
            level = len(heading[1])
            headings = {outer: text for outer, text in headings.items() if outer < level}
            headings[level] = heading[2][:_MOST_HEADING]
        lines.append(line)
        size += len(line.strip())
    if size or not count:
        yield _section(headings, lines)


def _section(headings: dict[int, str], lines: list[str]) -> Section:
    return Section(" ".join(headings.values()), "\n".join(lines).strip())
