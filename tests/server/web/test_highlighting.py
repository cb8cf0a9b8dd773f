from server.web.highlighting import MAX_HIGHLIGHTED, Highlighter

ASSIGNMENT = "x = 1\n"
SLOW = "a " * (MAX_HIGHLIGHTED // 2)
"""Java takes many seconds for it."""


def test_long_code_has_no_colours() -> None:
    html = Highlighter().html
    assert "<span" in html(ASSIGNMENT, "python")
    assert "<span" not in html(ASSIGNMENT * 10_000, "python")


def test_code_that_takes_too_long_has_no_colours() -> None:
    assert Highlighter(0.05).html(SLOW, "java") == SLOW


def test_the_time_is_for_all_code_together() -> None:
    highlighter = Highlighter(0.05)
    highlighter.html(SLOW, "java")
    assert highlighter.html(ASSIGNMENT, "python") == ASSIGNMENT
