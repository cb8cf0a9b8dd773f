"""The rules of robots.txt (RFC 9309)."""

import pytest

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
