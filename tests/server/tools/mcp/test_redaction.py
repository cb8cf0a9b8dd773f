"""Secrets in texts."""

import json

import pytest

from server.tools.mcp.redaction import Redactor


def test_the_longest_secret_is_replaced_first() -> None:
    redactor = Redactor(["secret", "secret-and-more"])

    assert redactor.clean("secret-and-more secret") == "[redacted] [redacted]"


def test_a_token_is_a_secret_without_its_scheme() -> None:
    assert Redactor(["Bearer abcdef"]).clean("abcdef Bearer abcdef") == "[redacted] [redacted]"


def test_short_values_are_no_secrets() -> None:
    assert Redactor(["1", "a b"]).clean("1 a b") == "1 a b"


@pytest.mark.parametrize("only_ascii", [True, False])
def test_a_secret_is_found_where_json_escapes_it(only_ascii: bool) -> None:
    text = json.dumps({"key": '"ü" is it'}, ensure_ascii=only_ascii)

    assert Redactor(['"ü" is it']).clean(text) == '{"key": "[redacted]"}'


def test_strings_in_json_are_cleaned() -> None:
    value = {"secret": ["secret", 1, None, {"a": "no"}]}

    assert Redactor(["secret"]).clean_json(value) == {
        "[redacted]": ["[redacted]", 1, None, {"a": "no"}]
    }
    assert Redactor().clean_json(value) is value


def test_only_the_descriptions_of_a_schema_are_cleaned() -> None:
    properties = {"secret": {"enum": ["secret"]}, "description": {"const": "secret"}}
    schema = {"description": "the secret", "properties": properties, "required": ["secret"]}

    cleaned = Redactor(["secret"]).clean_schema(schema)

    assert cleaned == {**schema, "description": "the [redacted]"}
    assert Redactor().clean_schema(schema) is schema


def test_no_text_or_example_of_a_schema_keeps_a_secret_but_its_values_do() -> None:
    values = [{"description": "secret"}]
    schema = {"examples": ["secret"], "$comment": "secret", "title": "secret", "enum": values}
    named = {"properties": {"enum": schema}}

    cleaned = Redactor(["secret"]).clean_schema(named)

    texts = {"examples": ["[redacted]"], "$comment": "[redacted]", "title": "[redacted]"}
    assert cleaned == {"properties": {"enum": {**texts, "enum": values}}}
