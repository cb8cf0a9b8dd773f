"""Serialised HTML becomes tags and texts."""

from server.tools.browser.normal_html import parts


def test_comments_are_left_out() -> None:
    assert list(parts("<p>a<!-- <b> --> c<!----></p>d")) == [("p", "a c"), ("/p", "d")]


def test_comments_without_an_end_are_read_in_linear_time() -> None:
    tags = parts("<p>a<!-- b -->c</p>d" + "<a<!--b>" * 1_000_000)

    assert "".join(text for _, text in tags) == "acd"
