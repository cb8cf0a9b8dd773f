"""Reads robots.txt: which paths of a site a robot may fetch.

Source: RFC 9309. The longest matching rule decides, and `allow` wins a tie. `*` stands for any
characters, `$` at the end of a rule for the end of the path.

The file is the site's, and may be made to be slow: its size and what is kept of it are bounded.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from urllib.parse import quote, unquote

MOST_BYTES = 512 * 1024
"""Bytes of a file. RFC 9309 asks for 500 KiB at least."""
SMALL_FILE = 4096
"""Bytes of a file that takes about a millisecond to read."""
_SMALL = 1 << 20
"""Characters of a path, times the bytes of the rules: they take about a millisecond to compare."""
_MOST_RULES = 1000
_MOST_CHARACTERS = 1 << 16
"""Of all rules of one robot together. The rules that are over a limit are left out."""
_MOST_WILDCARDS = 16
_OVERHEAD = 128
"""The bytes of memory of a rule, beside its characters."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule. path: its literal parts between wildcards."""

    allow: bool
    path: str

    def matches(self, path: str) -> bool:
        """Whether the rule applies to a path. The time is linear in both."""
        text = self.path.removesuffix("$")
        first, *others = text.split("*")[: _MOST_WILDCARDS + 1]
        if not path.startswith(first):
            return False
        place = len(first)
        for part in others:
            found = path.find(part, place)
            if found < 0:
                return False
            place = found + len(part)
        if not self.path.endswith("$") or place == len(path):
            return True
        return bool(others) and path.endswith(others[-1])


@dataclass(frozen=True, slots=True)
class Robots:
    """The rules of one site that apply to one robot. The first one that matches decides.

    size: the bytes of memory that they take, about.
    """

    rules: tuple[Rule, ...] = ()
    size: int = _OVERHEAD

    def is_small(self, path: str) -> bool:
        """Whether `allows` takes about a millisecond at most."""
        return self.size * len(path) <= _SMALL

    def allows(self, path: str) -> bool:
        """Whether the path, with its query, may be fetched.

        For a long path, rules that are made for it take up to a tenth of a second.
        """
        path = _normal(path)
        return next((rule.allow for rule in self.rules if rule.matches(path)), True)


ALLOW_ALL = Robots()
DENY_ALL = Robots((Rule(False, "/"),))


def parse(text: str, agent: str) -> Robots:
    """The rules for the robot `agent`: those of its own groups, else those of `*`."""
    groups: dict[str, _Rules] = {}
    names: set[str] = set()
    has_rules = True
    for key, value in _lines(text):
        if key == "user-agent":
            if has_rules:
                names, has_rules = set(), False
            name = re.split(r"[/\s]", value.lower(), maxsplit=1)[0]
            if name in (agent.lower(), "*"):
                groups.setdefault(name, _Rules())
                names.add(name)
        else:
            has_rules = True
            for name in names:
                groups[name].add(key == "allow", value)
    return (groups.get(agent.lower()) or groups.get("*") or _Rules()).robots()


@dataclass(slots=True)
class _Rules:
    """The rules of a robot, as far as they are within the limits. characters: of their paths."""

    rules: list[Rule] = field(default_factory=list)
    characters: int = 0

    def add(self, allow: bool, path: str) -> None:
        """Add the rule of a line. One without a path applies to nothing."""
        if not path or len(self.rules) == _MOST_RULES or len(path) > _MOST_CHARACTERS:
            return
        rule = Rule(allow, _normal(path))
        if self.characters + len(rule.path) <= _MOST_CHARACTERS:
            self.characters += len(rule.path)
            self.rules.append(rule)

    def robots(self) -> Robots:
        """The rules in the order in which they decide."""
        self.rules.sort(key=lambda rule: (len(rule.path), rule.allow), reverse=True)
        size = _OVERHEAD * (1 + len(self.rules)) + self.characters
        return Robots(tuple(self.rules), size)


def _lines(text: str) -> Iterator[tuple[str, str]]:
    for line in text.lstrip("\ufeff").splitlines():
        key, colon, value = line.partition("#")[0].partition(":")
        name = key.strip().lower()
        if colon and name in ("user-agent", "allow", "disallow"):
            yield name, value.strip()


def _normal(path: str) -> str:
    """The path with each octet encoded in one way, so that spellings compare equal."""
    return quote(
        unquote(path, errors="surrogateescape"), safe="/*$?&=:@!+,;~'()", errors="surrogateescape"
    )
