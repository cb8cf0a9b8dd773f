"""What people name in requests: rooms, dishes, tasks, short messages. Read from `demo/data`.

A line `song (title): a song title` begins a domain; the lines below it hold its values, between
`|`. In brackets is what other words may stand in a value's place, if it is not a `word`.
"""

import re
from dataclasses import dataclass
from functools import cache

from demo.skills.catalogue.files import lines
from demo.skills.words import Split, split_of

_HEAD = re.compile(r"([a-z_]+)(?: \((text|title)\))?: ")


@dataclass(frozen=True, slots=True)
class Domain:
    """The values of a domain. stand_in: the type of other words that may stand in their place."""

    values: tuple[str, ...]
    stand_in: str


@cache
def domains() -> dict[str, Domain]:
    """All domains by their names."""
    heads: dict[str, str] = {}
    found: dict[str, list[str]] = {}
    name = ""
    for line in lines("values.txt"):
        if head := _HEAD.match(line):
            name = head[1]
            heads[name], found[name] = head[2] or "word", []
        else:
            found[name] += [value.strip() for value in line.split("|") if value.strip()]
    return {name: Domain(tuple(dict.fromkeys(found[name])), heads[name]) for name in found}


@cache
def values(domain: str, split: Split) -> tuple[str, ...]:
    """The values of a domain that a split may use."""
    return tuple(value for value in domains()[domain].values if split_of(value) is split)
