"""Dividing pages into sections."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.tools.browser.search.sections import Section, sections

MOST = 1 << 16


def divided(body: str, most: int = MOST) -> list[tuple[str, str]]:
    return [(section.heading, section.text) for section in sections(body, most)]


def test_a_section_goes_from_its_heading_to_the_next_one() -> None:
    body = "Before.\n\n# Store\n\nIt keeps responses.\n\n## PostgreSQL\nFor several gateways."
    assert divided(body) == [
        ("", "Before."),
        ("Store", "# Store\n\nIt keeps responses."),
        ("Store PostgreSQL", "## PostgreSQL\nFor several gateways."),
    ]


def test_a_heading_ends_the_deeper_ones_before_it() -> None:
    body = "# A\n\na\n\n### B\n\nb\n\n## C\n\nc\n\n# D\n\nd"
    assert [heading for heading, _ in divided(body)] == ["A", "A B", "A C", "D"]


def test_what_looks_like_a_heading_in_code_is_none() -> None:
    body = "# Start\n\n```sh\n# install it\nmake\n```\n\n## Stop"
    assert divided(body) == [
        ("Start", "# Start\n\n```sh\n# install it\nmake\n```"),
        ("Start Stop", "## Stop"),
    ]


def test_a_long_section_is_divided_at_an_empty_line_under_the_same_heading() -> None:
    first, second = "word " * 300, "other " * 10
    body = f"# Long\n{first}\n\n{second}"
    assert divided(body) == [
        ("Long", f"# Long\n{first.strip()}"),
        ("Long", second.strip()),
    ]


@pytest.mark.parametrize("line", ["code", ""])
def test_code_is_not_divided(line: str) -> None:
    body = "```\n" + "x" * 2000 + f"\n{line}\n" + "y" * 2000 + "\n```"
    assert divided(body) == [("", body)]


def test_the_sections_under_a_long_heading_repeat_its_beginning_only() -> None:
    body = f"# {'a' * 5000}\n## {'b' * 5000}\n## b"
    assert divided(body) == [
        ("a" * 200, f"# {'a' * 5000}"),
        ("a" * 200 + " " + "b" * 200, f"## {'b' * 5000}"),
        ("a" * 200 + " b", "## b"),
    ]


def test_the_last_section_that_may_be_has_the_rest() -> None:
    assert divided("# A\n# B\n# C", 2) == [("A", "# A"), ("B", "# B\n# C")]


@pytest.mark.parametrize("body", ["", "\n \n"])
def test_a_page_without_text_is_one_section(body: str) -> None:
    assert list(sections(body, MOST)) == [Section("", "")]


@given(st.text(alphabet="# a`\n"), st.integers(1, 4))
def test_no_text_is_lost(body: str, most: int) -> None:
    found = list(sections(body, most))
    assert len(found) <= most
    assert "".join("".join(s.text for s in found).split()) == "".join(body.split())
