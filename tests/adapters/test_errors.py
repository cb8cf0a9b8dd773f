import pytest

from adapters.errors import first_line, one_line


@pytest.mark.parametrize(
    ("message", "line"),
    [("", "ValueError"), ("\n ", "ValueError"), ("\na\nb", "ValueError: a")],
)
def test_an_error_in_one_line_has_its_class_and_the_first_line(message: str, line: str) -> None:
    assert one_line(ValueError(message)) == line


@pytest.mark.parametrize(("message", "line"), [(" \n", "ValueError"), ("a\nb", "a")])
def test_the_first_line_of_an_error_without_a_message_is_its_class(message: str, line: str) -> None:
    assert first_line(ValueError(message)) == line
