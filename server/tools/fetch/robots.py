"""Reads robots.txt: which paths of a site a robot may fetch.

Source: RFC 9309. The longest matching rule decides, and `allow` wins a tie. `*` stands for any
characters, `$` at the end of a rule for the end of the path.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from urllib.parse import quote, unquote

MOST_BYTES = 512 * 1024
_MOST_RULES = 10_000
_MOST_WILDCARDS = 16


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
    """The rules of one site that apply to one robot."""

    rules: tuple[Rule, ...] = ()

    def allows(self, path: str) -> bool:
        """Whether the path, with its query, may be fetched."""
        path = _normal(path)
        applying = [rule for rule in self.rules if rule.path and rule.matches(path)]
        best = max(applying, key=lambda rule: (len(rule.path), rule.allow), default=None)
        return best is None or best.allow


ALLOW_ALL = Robots()
DENY_ALL = Robots((Rule(False, "/"),))


def parse(text: str, agent: str) -> Robots:
    """The rules for the robot `agent`: those of its own groups, else those of `*`."""
    own: list[Rule] = []
    general: list[Rule] = []
    has_own = False
    for names, rules in _groups(text):
        if agent.lower() in names:
            has_own = True
            own += rules
        elif "*" in names:
            general += rules
    return Robots(tuple(own if has_own else general))


def _groups(text: str) -> Iterator[tuple[set[str], list[Rule]]]:
    names: set[str] = set()
    rules: list[Rule] = []
    has_rules = False
    for key, value in _lines(text):
        if key == "user-agent":
            if has_rules:
                yield names, rules
                names, rules, has_rules = set(), [], False
            names.add(re.split(r"[/\s]", value.lower())[0])
        elif names:
            has_rules = True
            rules.append(Rule(key == "allow", _normal(value)))
    yield names, rules


def _lines(text: str) -> Iterable[tuple[str, str]]:
    count = 0
    for line in text.lstrip("\ufeff").splitlines():
        key, colon, value = line.partition("#")[0].partition(":")
        name = key.strip().lower()
        if colon and name in ("user-agent", "allow", "disallow") and count < _MOST_RULES:
            count += 1
            yield name, value.strip()


def _normal(path: str) -> str:
    """The path with each octet encoded in one way, so that spellings compare equal."""
    return quote(
        unquote(path, errors="surrogateescape"), safe="/*$?&=:@!+,;~'()", errors="surrogateescape"
    )
