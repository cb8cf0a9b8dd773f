"""What operators allow, as text."""

import pytest

from server.tools.fetch.urls import AllowedDomain, is_within, parse_domains


def test_domains_may_name_a_port() -> None:
    assert parse_domains(["Corp.Example", ".wiki.example:8080"]) == (
        AllowedDomain("corp.example"),
        AllowedDomain("wiki.example", 8080),
    )


@pytest.mark.parametrize("text", ["", ":80", "a:", "a:x", "a:0", "a:70000", "."])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a domain"):
        parse_domains([text])


@pytest.mark.parametrize(
    ("host", "within"),
    [("a.example", True), ("B.A.example.", True), ("ba.example", False), ("example", False)],
)
def test_subdomains_are_within_a_domain(host: str, within: bool) -> None:
    assert is_within(host, "a.Example") is within
