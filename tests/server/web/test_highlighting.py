import pytest
from pygments.lexers import find_lexer_class_by_name

from server.web.highlighting import LANGUAGES, MAX_HIGHLIGHTED, Highlighter

ASSIGNMENT = "x = 1\n"
SLOW = "a " * (MAX_HIGHLIGHTED // 2)
"""Java takes many seconds for it."""


def test_long_code_has_no_colours() -> None:
    html = Highlighter().html
    assert "<span" in html(ASSIGNMENT, "python")
    assert "<span" not in html(ASSIGNMENT * 10_000, "python")


@pytest.mark.parametrize("language", ["python", "py", "js", "C++", "sh"])
def test_common_languages_have_colours_by_each_name(language: str) -> None:
    assert "<span" in Highlighter().html("if (x) 1;\n", language)


# The first three take seconds for one token of some texts, the others take lexers by name.
@pytest.mark.parametrize("language", ["easytrieve", "zeek", "console", "markdown", "http", "rst"])
def test_languages_that_block_the_interpreter_have_no_colours(language: str) -> None:
    assert Highlighter().html("a = 1\n", language) == "a = 1\n"


@pytest.mark.parametrize("language", sorted(LANGUAGES))
def test_a_language_has_the_first_name_of_its_lexer(language: str) -> None:
    assert find_lexer_class_by_name(language).aliases[0] == language


def test_code_that_takes_too_long_has_no_colours() -> None:
    assert Highlighter(0.05).html(SLOW, "java") == SLOW


def test_the_time_is_for_all_code_together() -> None:
    highlighter = Highlighter(0.05)
    highlighter.html(SLOW, "java")
    assert highlighter.html(ASSIGNMENT, "python") == ASSIGNMENT
