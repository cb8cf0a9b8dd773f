from types import MappingProxyType
from typing import Any

import pytest

from harmony.literal import aside, comment, json_text, lines_of, one_line


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"a": [1, 2.0, None, True]}, '{"a":[1,2.0,null,true]}'),
        ('é"\n', '"é\\"\\n"'),
        (MappingProxyType({"a": 1}), '{"a":1}'),
        ({"a": 1, (1, 2): 3}, '{"a":1}'),
        (frozenset(), '"frozenset()"'),
        (nested(100_000), '"…"'),
    ],
)
def test_any_value_has_a_json_text(value: Any, text: str) -> None:
    assert json_text(value) == text


def test_a_value_that_holds_itself_has_a_json_text() -> None:
    value: list[Any] = []
    value.append(value)
    assert json_text(value) == '"…"'


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("", []),
        ("\n", [""]),
        ("a\r\nb\n", ["a", "b"]),
        ("a\n\nb", ["a", "", "b"]),
        ("a\u2028b\x0cc", ["a\u2028b\x0cc"]),
    ],
)
def test_lines_end_with_line_feeds_alone(text: str, lines: list[str]) -> None:
    assert lines_of(text) == lines


def test_every_line_of_a_comment_is_one() -> None:
    assert comment("a\nb", "  ") == "  // a\n  // b\n"


def test_an_empty_text_is_an_empty_comment() -> None:
    assert comment("") == "// \n"


def test_lines_are_joined_by_spaces() -> None:
    assert one_line("a\nb\n") == "a b"


def test_an_aside_cannot_be_left_from_within() -> None:
    assert aside("a */ b") == "/* a * / b */"
