"""Small programs for python: what they show is right, and stays short."""

from demo.skills import programs
from tests.demo.drawing import drawn


def test_programs_are_many_and_their_outputs_are_short() -> None:
    made = [programs.program(drawn(index)) for index in range(300)]
    for said, code, output in made:
        assert programs.shown(code) == output
        assert len(output) <= 90
        assert not any(mark in said for mark in "{}#|")
    assert len({code for _, code, _ in made}) > 290
    assert sum("for " in code for _, code, _ in made) > 80


def test_a_cell_shows_the_value_of_its_last_line() -> None:
    assert programs.shown("total = 0\nfor n in range(3, 5 + 1):\n    total += n\ntotal") == "12"
    assert programs.shown("1 / 0") is None


def test_requests_are_worded_in_many_ways() -> None:
    asked = {programs.worded_request(drawn(i), "the sum", ("How much is {}?",)) for i in range(100)}
    assert len(asked) > 20
    assert all("the sum" in text.lower() for text in asked)
