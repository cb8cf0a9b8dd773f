"""The rules of robots.txt (RFC 9309)."""

import sys

import pytest

from server.tools.fetch import robots
from server.tools.fetch.robots import parse

TEXT = """\ufeff# a comment
User-agent: other
User-agent: Third/2.0
Disallow: /other

User-agent: gpt-oss-server
Disallow: /a   # with a comment
Allow: /a/public
Disallow: /*.pdf$
Disallow: /*/deep/*/end
Disallow:
Sitemap: https://example.com/s.xml

User-agent: *
Disallow: /
"""


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("/", True),
        ("/a", False),
        ("/a/b?c", False),
        ("/a/public/x", True),
        ("/%61/b", False),
        ("/file.pdf", False),
        ("/file.pdf?x", True),
        ("/file.pdf.pdf", False),
        ("/x/deep/y/end/z", False),
        ("/x/deep/end", True),
        ("/other", True),
    ],
)
def test_the_longest_rule_of_the_own_group_decides(path: str, allowed: bool) -> None:
    assert parse(TEXT, "gpt-oss-server").allows(path) is allowed


@pytest.mark.parametrize(
    ("agent", "path", "allowed"),
    [("unknown", "/x", False), ("third", "/other", False), ("third", "/x", True)],
)
def test_the_general_group_is_for_robots_without_their_own(
    agent: str, path: str, allowed: bool
) -> None:
    assert parse(TEXT, agent).allows(path) is allowed


def test_allow_wins_a_tie() -> None:
    assert parse("User-agent: *\nDisallow: /a\nAllow: /a", "x").allows("/a")


def test_nonsense_allows_all() -> None:
    assert parse("<html>Disallow: /</html>\nDisallow: /\n", "x").allows("/")


def test_the_longest_rule_decides_wherever_it_stands() -> None:
    rules = "Allow: /a/b/c\nDisallow: /a\nAllow: /a/b\nDisallow: /a/b/c/d"
    found = parse(f"User-agent: *\n{rules}", "x")
    assert [found.allows(path) for path in ("/a", "/a/b", "/a/b/c/e", "/a/b/c/d")] == [
        *(False, True, True, False)
    ]


def many(count: int, agent: str = "*", characters: int = 12) -> str:
    lines = (f"Disallow: /{'x' * (characters - 8)}*{number:06}\n" for number in range(count))
    return f"User-agent: {agent}\n{''.join(lines)}"


def test_no_more_than_so_many_rules_are_kept() -> None:
    assert len(parse(many(robots._MOST_RULES + 1), "x").rules) == robots._MOST_RULES


def test_no_more_than_so_many_characters_of_rules_are_kept() -> None:
    found = parse(many(500, characters=1000), "x")
    assert [len(rule.path) for rule in found.rules] == [1000] * 65
    assert not parse(f"User-agent: *\nDisallow: /{'x' * robots._MOST_CHARACTERS}", "x").rules


def test_rules_for_other_robots_use_up_no_limit() -> None:
    text = many(robots._MOST_RULES, "other") + many(robots._MOST_RULES) + many(1, "gpt-oss-server")
    assert len(parse(text, "gpt-oss-server").rules) == 1


def test_the_size_of_rules_is_what_they_take() -> None:
    found = parse(many(500), "x")
    taken = sum(sys.getsizeof(rule) + sys.getsizeof(rule.path) for rule in found.rules)
    assert taken <= found.size <= 2 * taken
    # What is kept of the largest file is less than the file.
    most = parse(many(robots._MOST_RULES, characters=robots._MOST_CHARACTERS // 1000), "x")
    assert 150_000 < most.size < robots.MOST_BYTES


def test_only_little_work_is_small() -> None:
    few, most = parse(many(50), "x"), parse(many(robots._MOST_RULES), "x")
    assert few.is_small("/" + "a" * 100)
    assert not few.is_small("/" + "a" * 8000)
    assert not most.is_small("/" + "a" * 100)
