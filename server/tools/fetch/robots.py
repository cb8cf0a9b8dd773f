"""Reads robots.txt: which paths of a site a robot may fetch.

Source: RFC 9309. The longest matching rule decides, and `allow` wins a tie. `*` stands for any
characters, `$` at the end of a rule for the end of the path.

The file is the site's, and may be made to be slow. Plain rules are looked up, however many there
are. Rules with wildcards are compared one after another: a site that has too many is closed, since
a rule that is left out may be the one that forbids a page.
"""

import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from urllib.parse import quote, unquote

MOST_BYTES = 512 * 1024
"""Bytes of a file. RFC 9309 asks for 500 KiB at least."""
SMALL_FILE = 4096
"""Bytes of a file that takes about a millisecond to read."""
_SMALL = 1 << 20
"""Characters of a path, times the bytes of the rules: they take about a millisecond to compare."""
_MOST_PATTERNS = 1000
_MOST_CHARACTERS = 1 << 16
"""Of all patterns of one robot together."""
_OVERHEAD = 128
"""The bytes of memory of a pattern, and of the rules of a site, beside their characters."""
_TEXT = 64
"""The bytes of memory of a text, beside its characters."""
_PLAIN = re.compile(r"[\w.~/*$?&=:@!+,;'()-]*", re.ASCII)
"""What `quote` leaves as it is."""


def _is_pattern(path: str) -> bool:
    return "*" in path or path.endswith("$")


@dataclass(frozen=True, slots=True)
class Pattern:
    """A rule with wildcards, or with an end."""

    allow: bool
    path: str

    def matches(self, path: str) -> bool:
        """Whether the rule applies to a path. The time is linear in both."""
        text = self.path.removesuffix("$")
        first, *others = text.split("*")
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
    """The rules of one site that apply to one robot.

    prefixes: the plain rules: whether what begins so is allowed. lengths: those that prefixes have,
    the longest first. patterns: the first one that matches decides. size: the bytes of memory that
    they take, about.
    """

    prefixes: Mapping[str, bool] = field(default_factory=dict)
    lengths: tuple[int, ...] = ()
    patterns: tuple[Pattern, ...] = ()
    size: int = _OVERHEAD

    @classmethod
    def of(cls, rules: Mapping[str, bool]) -> "Robots":
        """Order rules: the paths, and whether they are allowed."""
        patterns = [Pattern(allow, path) for path, allow in rules.items() if _is_pattern(path)]
        characters = sum(len(each.path) for each in patterns)
        if len(patterns) > _MOST_PATTERNS or characters > _MOST_CHARACTERS:
            return CLOSED
        patterns.sort(key=lambda each: (len(each.path), each.allow), reverse=True)
        prefixes = {path: allow for path, allow in rules.items() if not _is_pattern(path)}
        lengths = sorted({len(path) for path in prefixes}, reverse=True)
        texts = sum(map(len, prefixes)) + _TEXT * len(prefixes) + sys.getsizeof(prefixes)
        size = _OVERHEAD * (1 + len(patterns)) + characters + texts
        return cls(prefixes, tuple(lengths), tuple(patterns), size)

    def is_small(self, path: str) -> bool:
        """Whether `allows` takes about a millisecond at most."""
        lookups = min(len(self.lengths), len(path))
        return (self.size if self.patterns else _OVERHEAD * (1 + lookups)) * len(path) <= _SMALL

    def allows(self, path: str) -> bool:
        """Whether the path, with its query, may be fetched.

        For a long path, rules that are made for it take up to a tenth of a second.
        """
        path = _normal(path)
        prefix = next(
            (
                path[:end]
                for end in self.lengths
                if end <= len(path) and path[:end] in self.prefixes
            ),
            "",
        )
        allowed = self.prefixes.get(prefix, True)
        for pattern in self.patterns:
            if (len(pattern.path), pattern.allow) <= (len(prefix), allowed):
                break
            if pattern.matches(path):
                return pattern.allow
        return allowed


ALLOW_ALL = Robots()
DENY_ALL = Robots.of({"/": False})
"""For a site whose file cannot be had now."""
CLOSED = Robots.of({"/": False})
"""For a site whose file is over a limit."""


def parse(text: str, agent: str) -> Robots:
    """The rules for the robot `agent`: those of its own groups, else those of `*`."""
    groups: dict[str, dict[str, bool]] = {}
    names: set[str] = set()
    has_rules = True
    for key, value in _lines(text):
        if key == "user-agent":
            if has_rules:
                names, has_rules = set(), False
            name = re.split(r"[/\s]", value.lower(), maxsplit=1)[0]
            if name in (agent.lower(), "*"):
                groups.setdefault(name, {})
                names.add(name)
        else:
            has_rules = True
            if names and value:  # A rule without a path applies to nothing.
                path = _normal(value)
                for name in names:
                    groups[name][path] = key == "allow" or groups[name].get(path, False)
    own = agent.lower() if agent.lower() in groups else "*"
    return Robots.of(groups.get(own, {}))


def _lines(text: str) -> Iterator[tuple[str, str]]:
    for line in text.lstrip("\ufeff").splitlines():
        key, colon, value = line.partition("#")[0].partition(":")
        name = key.strip().lower()
        if colon and name in ("user-agent", "allow", "disallow"):
            yield name, value.strip()


def _normal(path: str) -> str:
    """The path with each octet encoded in one way, so that spellings compare equal."""
    if _PLAIN.fullmatch(path):
        return path
    return quote(
        unquote(path, errors="surrogateescape"), safe="/*$?&=:@!+,;~'()", errors="surrogateescape"
    )
