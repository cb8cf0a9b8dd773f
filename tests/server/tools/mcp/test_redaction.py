"""Secrets in texts."""

from server.tools.mcp.redaction import Redactor


def test_the_longest_secret_is_replaced_first() -> None:
    redactor = Redactor(["secret", "secret-and-more"])

    assert redactor.clean("secret-and-more secret") == "[redacted] [redacted]"


def test_a_token_is_a_secret_without_its_scheme() -> None:
    assert Redactor(["Bearer abcdef"]).clean("abcdef Bearer abcdef") == "[redacted] [redacted]"


def test_short_values_are_no_secrets() -> None:
    assert Redactor(["1", "a b"]).clean("1 a b") == "1 a b"


def test_strings_in_json_are_cleaned() -> None:
    value = {"secret": ["secret", 1, None, {"a": "no"}]}

    assert Redactor(["secret"]).clean_json(value) == {
        "[redacted]": ["[redacted]", 1, None, {"a": "no"}]
    }
    assert Redactor().clean_json(value) is value
