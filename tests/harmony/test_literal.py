import json
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harmony.literal import comment, inline_comment, json_text, lines_of, one_line


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
        ("a\rb\r\rc", ["a", "b", "", "c"]),
    ],
)
def test_a_text_has_lines(text: str, lines: list[str]) -> None:
    assert lines_of(text) == lines


ENDS = [*"\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029", "\r\n"]


@pytest.mark.parametrize("end", ENDS, ids=ascii)
def test_no_end_of_a_line_leaves_a_comment(end: str) -> None:
    assert comment(f"a{end}b") == "// a\n// b\n"
    assert one_line(f"a{end}b") == "a b"
    assert inline_comment(f"a{end}b") == "/* a b */"


@pytest.mark.parametrize("end", ENDS, ids=ascii)
def test_a_json_text_becomes_one_line_of_equal_value(end: str) -> None:
    text = json_text({f"a{end}b": [end]})
    assert text.splitlines() == [text]
    assert json.loads(text) == {f"a{end}b": [end]}


@given(st.text())
def test_each_line_of_a_comment_is_a_comment(text: str) -> None:
    assert all(line.startswith("// ") for line in comment(text).splitlines())


def test_every_line_of_a_comment_is_one() -> None:
    assert comment("a\nb", "  ") == "  // a\n  // b\n"


def test_an_empty_text_is_an_empty_comment() -> None:
    assert comment("") == "// \n"


def test_lines_are_joined_by_spaces() -> None:
    assert one_line("a\nb\n") == "a b"


def test_an_aside_cannot_be_left_from_within() -> None:
    assert inline_comment("a */ b") == "/* a * / b */"
