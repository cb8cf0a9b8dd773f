"""What people name in requests: rooms, dishes, tasks, short messages. Read from `demo/data`.

A line `room: a room of a home` begins a domain; the lines below it hold its values, between `|`.
"""

import re
from functools import cache
from importlib import resources

from demo.skills.words import Split, split_of

_HEAD = re.compile(r"([a-z_]+): ")
_PHRASES = frozenset(
    ["task", "reason", "problem", "message", "note", "subject_line", "search", "question"]
    + ["sentence"]
)
_TITLES = frozenset(
    ["brand", "shop", "company", "restaurant", "hotel", "landmark", "street", "station", "airport"]
    + ["country", "region", "song", "artist", "film", "book", "podcast", "school", "pet"]
)


@cache
def _all() -> dict[str, tuple[str, ...]]:
    text = resources.files("demo").joinpath("data", "values.txt").read_text("utf-8")
    found: dict[str, list[str]] = {}
    name = ""
    for line in text.splitlines():
        if head := _HEAD.match(line):
            name = head[1]
            found[name] = []
        elif name:
            found[name] += [value.strip() for value in line.split("|") if value.strip()]
    return {name: tuple(dict.fromkeys(values)) for name, values in found.items()}


def names() -> frozenset[str]:
    """The names of all domains."""
    return frozenset(_all())


@cache
def values(domain: str, split: Split) -> tuple[str, ...]:
    """The values of a domain that a split may use."""
    return tuple(value for value in _all()[domain] if split_of(value) is split)


def stand_in(domain: str) -> str:
    """The type of other words that may stand in a value's place: `text`, `title` or `word`."""
    if domain in _PHRASES:
        return "text"
    return "title" if domain in _TITLES else "word"
