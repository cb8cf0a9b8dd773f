"""Lines of 80 characters, views of 1,024 tokens, and what is found in them."""

import re
import textwrap
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harmony.tokenizer import count
from server.tools.browser import lines as lines_module
from server.tools.browser.lines import Match, display, find, link_at, view_end, wrap
from server.tools.browser.page import Page


def wrapped_as_in_training(text: str) -> list[str]:
    lines: list[str] = []
    for line in text.split("\n"):
        lines += textwrap.wrap(line, 80, replace_whitespace=False, drop_whitespace=False) or [""]
    return lines


PROSE = st.text(alphabet="abcdefgh  ,.", max_size=400)


@given(PROSE)
def test_prose_is_wrapped_as_in_training(text: str) -> None:
    assert wrap(text) == wrapped_as_in_training(text)


@pytest.mark.parametrize(
    "text",
    [
        "a\n\nb",
        "x" * 200,
        "word " * 15 + "a-long-hyphenated-word and more words to fill the line up to its end",
        "see https://example.com/a/very/long/path/that/does/not/end/for" + "/x" * 90 + " y" * 30,
        "word " * 15 + "x" * 81 + " " + "y" * 300,
        "x" * 100 + " " + "y" * 59 + " fills a line, " + "z" * 70 + " begins one",
        "x" * 100 + " " + "y" * 80 + " is a line",
        "x" * 40 + " " + "y" * 38 + "   " + "word " * 10,
        "word " * 10 + "ab-" * 26 + "ab end",
        "",
    ],
)
def test_other_texts_are_wrapped_as_in_training(text: str) -> None:
    assert wrap(text) == wrapped_as_in_training(text)


@given(st.text(max_size=500))
def test_wrapping_loses_nothing(text: str) -> None:
    lines = wrap(text)
    assert "".join(lines) == text.replace("\n", "")
    assert all(len(line) <= 80 for line in lines)


@pytest.mark.parametrize("end", range(70, 90))
def test_a_long_text_is_wrapped_as_a_whole(monkeypatch: pytest.MonkeyPatch, end: int) -> None:
    text = "\n" * 30 + "ab  c-d\t" * 60 + "\n\nx" + "y" * end + "\tz" * 60 + "\n"
    whole = wrap(text)
    monkeypatch.setattr(lines_module, "SLICE", 10)
    assert wrap(text) == whole


@pytest.mark.parametrize("text", ["a\t" * 40_000, "a" * 79 + "\t" + "b" * 90_000])
def test_a_long_line_is_read_in_slices(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """No other thread runs during one call of a regular expression."""
    searched: list[int] = []
    pattern: re.Pattern[str] = lines_module._LONG_RUN

    def search(line: str, start: int, end: int) -> re.Match[str] | None:
        searched.append(end - start)
        return pattern.search(line, start, end)

    monkeypatch.setattr(lines_module, "_LONG_RUN", SimpleNamespace(search=search))
    for name in ("_PIECE", "_RUN"):
        each = SimpleNamespace(finditer=getattr(lines_module, name).finditer)
        monkeypatch.setattr(lines_module, name, each)
    assert "".join(wrap(text)) == text
    assert max(searched) <= lines_module.SLICE + 80


def test_a_view_has_as_many_tokens_as_fit_rounded_up() -> None:
    lines = [f"line {number} has some words in it" for number in range(500)]
    end = view_end(lines, 100, 1024)
    shown = "".join(f"L{n}: {lines[n]}\n" for n in range(100, end))
    assert count(shown) > 1024
    assert count("".join(f"L{n}: {lines[n]}\n" for n in range(100, end - 1))) <= 1024


def test_a_view_ends_with_the_page() -> None:
    assert view_end(["a"] * 10, 5) == 10


def test_the_display_is_that_of_the_training() -> None:
    page = Page("https://a.example/x%20y", "Title", "")
    assert display(3, page, ["", "URL", "c"], 1, 3) == (
        "[3] Title (https://a.example/x y)\n**viewing lines [1 - 2] of 2**\n\nL1: URL\nL2: c"
    )
    assert display(0, Page("", "query", ""), ["x"], 0, 1).startswith("[0] query\n**viewing")


def test_long_urls_are_truncated() -> None:
    shown = display(0, Page("https://a.example/" + "x" * 3000, "T", ""), ["x"], 0, 1)
    assert len(shown.split("\n")[0]) == len("[0] T ()") + 1024


def test_matches_are_found_without_case_and_links() -> None:
    lines = ["A 【0†Big Cat†x.example】", "b", "c", "d", "big cat", "e"]
    assert find(lines, "BIG cat") == [Match(0, "A Big Cat\nb\nc\nd"), Match(4, "big cat\ne")]
    assert find(lines, "†") == []


def test_a_link_over_two_lines_keeps_the_numbers() -> None:
    lines = ["see 【12†the", "long name†some.example】 here", "needle"]
    assert find(lines, "needle") == [Match(2, "needle")]
    assert find(["【1†a†some", ".example】", "needle"], "needle")[0].line == 2


def test_at_most_fifty_matches_are_shown() -> None:
    assert len(find(["x"] * 1000, "x")) == 50


def test_the_link_of_a_line_is_found() -> None:
    lines = ["", "  * 【0†A†a.example】 summary", "goes on", "  * 【1†B†b.example】"]
    assert [link_at(lines, number) for number in (0, 1, 2, 3, 9)] == [
        None,
        (0, 1),
        (0, 1),
        (1, 3),
        (1, 3),
    ]
