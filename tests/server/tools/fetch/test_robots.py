"""The rules of robots.txt (RFC 9309)."""

import sys
from itertools import product

import pytest

from server.tools.fetch import robots
from server.tools.fetch.client import _ROBOTS_BYTES, _ROBOTS_OVERHEAD
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
    [
        ("unknown", "/x", False),
        ("other", "/other", False),
        ("third", "/other", False),
        ("third", "/x", True),
    ],
)
def test_the_general_group_is_for_robots_without_their_own(
    agent: str, path: str, allowed: bool
) -> None:
    assert parse(TEXT, agent).allows(path) is allowed


def test_allow_wins_a_tie() -> None:
    assert parse("User-agent: *\nDisallow: /a\nAllow: /a", "x").allows("/a")


def test_nonsense_allows_all() -> None:
    assert parse("<html>Disallow: /</html>\nDisallow: /\n", "x").allows("/")


def test_lines_of_other_kinds_are_left_out() -> None:
    text = "User-agent: x\nCrawl-delay: 9\nUser-agent: y\nNoindex: /a\nDisallow\nDisallow: /b"
    found = parse(text, "x")
    assert [found.allows(path) for path in ("/", "/a", "/b")] == [True, True, False]


@pytest.mark.parametrize(("rule", "closed"), [("*", "/a"), ("*/b", "/a/b"), ("*b$", "/a/b")])
def test_a_rule_may_begin_with_a_wildcard(rule: str, closed: str) -> None:
    assert not parse(f"User-agent: *\nDisallow: {rule}", "x").allows(closed)


def test_the_longest_rule_decides_wherever_it_stands() -> None:
    rules = "Allow: /a/b/c\nDisallow: /a\nAllow: /a/b\nDisallow: /a/b/c/d"
    found = parse(f"User-agent: *\n{rules}", "x")
    assert [found.allows(path) for path in ("/a", "/a/b", "/a/b/c/e", "/a/b/c/d")] == [
        *(False, True, True, False)
    ]


def many(count: int, agent: str = "*", characters: int = 12) -> str:
    lines = (f"Disallow: /{'x' * (characters - 8)}*{number:06}\n" for number in range(count))
    return f"User-agent: {agent}\n{''.join(lines)}"


@pytest.mark.parametrize(
    ("first", "last"), [("Allow: /a{}/", "Disallow: /"), ("Disallow:", "Disallow: /private/")]
)
def test_rules_after_thousands_of_others_are_obeyed(first: str, last: str) -> None:
    text = "".join(f"{first.format(number)}\n" for number in range(20_000))
    found = parse(f"User-agent: *\n{text}{last}", "x")
    assert not found.allows("/private/page")
    assert found.allows("/a19999/page")


def test_the_longest_rule_decides_whether_it_has_wildcards_or_not() -> None:
    rules = "Disallow: /a/*\nAllow: /a/b\nDisallow: /a/b/*.pdf$\nAllow: /a/b/c.pdfs\nAllow: /z/*"
    found = parse(f"User-agent: *\n{rules}\nDisallow: /z/y", "x")
    paths = ("/a/x", "/a/bx", "/a/b/c.pdf", "/a/b/c.pdfs", "/z/x", "/z/y", "/z")
    assert [found.allows(path) for path in paths] == [False, True, False, True, True, True, True]
    found = parse("User-agent: *\nDisallow: /a*b\nAllow: /aab\nAllow: /c*\nDisallow: /c1", "x")
    assert [found.allows(path) for path in ("/aab", "/axb", "/c1", "/c2")] == [
        *(True, False, True, True)
    ]


def test_all_wildcards_of_a_rule_are_compared() -> None:
    found = parse(f"User-agent: *\nDisallow: /\nAllow: /{'a*' * 40}b", "x")
    assert not found.allows("/" + "a" * 40)
    assert found.allows("/" + "a" * 40 + "b")


@pytest.mark.parametrize(
    "text",
    [
        many(robots._MOST_PATTERNS + 1),
        many(500, characters=1000),
        f"User-agent: *\nAllow: /{'x' * robots._MOST_CHARACTERS}*",
    ],
)
def test_a_site_with_more_wildcards_than_can_be_compared_is_closed(text: str) -> None:
    found = parse(f"{text}\nAllow: /", "x")
    assert found is robots.CLOSED
    assert not found.allows("/")
    assert not found.allows("/page")


def test_so_many_wildcards_are_compared() -> None:
    assert len(parse(many(robots._MOST_PATTERNS), "x").patterns) == robots._MOST_PATTERNS
    text = f"User-agent: *\nDisallow: /{'x' * (robots._MOST_CHARACTERS - 2)}*"
    assert len(parse(text, "x").patterns) == 1


def test_rules_for_other_robots_use_up_no_limit() -> None:
    others = many(robots._MOST_PATTERNS + 1, "other") + many(robots._MOST_PATTERNS + 1)
    text = others + many(1, "gpt-oss-server")
    assert len(parse(text, "gpt-oss-server").patterns) == 1


def test_an_own_group_without_rules_allows_all() -> None:
    text = "User-agent: *\nDisallow: /\n\nUser-agent: gpt-oss-server\nDisallow:\n"
    assert parse(text, "gpt-oss-server").allows("/x")


def test_the_size_of_rules_is_what_they_take() -> None:
    found = parse(many(500), "x")
    taken = sum(sys.getsizeof(rule) + sys.getsizeof(rule.path) for rule in found.patterns)
    assert taken <= found.size <= 2 * taken
    plain = "".join(f"Disallow: /{number}\n" for number in range(30_000))
    found = parse(f"User-agent: *\n{plain}", "x")
    taken = sys.getsizeof(found.prefixes) + sum(map(sys.getsizeof, found.prefixes))
    assert taken <= found.size <= 2 * taken


@pytest.mark.parametrize("letters", ["abcdefghijklmnopqrstuvwxyz0123456789-_.~ABCD", "äöüßéèàçñø"])
def test_the_rules_of_the_largest_file_fit_into_the_cache(letters: str) -> None:
    lines = (f"allow:{''.join(path)}\n" for path in product(letters, repeat=3))
    text = ("user-agent:*\n" + "".join(lines) * 2).encode()[: robots.MOST_BYTES].decode()
    text += f"allow:{'ä' * ((robots.MOST_BYTES - len(text.encode())) // 2)}"
    assert parse(text, "x").size < _ROBOTS_BYTES - _ROBOTS_OVERHEAD


def test_only_little_work_is_small() -> None:
    few, most = parse(many(50), "x"), parse(many(robots._MOST_PATTERNS), "x")
    assert few.is_small("/" + "a" * 100)
    assert not few.is_small("/" + "a" * 8000)
    assert not most.is_small("/" + "a" * 100)


def test_plain_rules_are_little_work_however_many_there_are() -> None:
    text = "".join(f"Disallow: /{number:06}\n" for number in range(20_000))
    assert parse(f"User-agent: *\n{text}", "x").is_small("/" + "a" * 1000)
    text = "".join(f"Disallow: /{'a' * number}b\n" for number in range(900))
    found = parse(f"User-agent: *\n{text}", "x")
    assert found.is_small("/" + "a" * 80)
    assert not found.is_small("/" + "a" * 1000)
