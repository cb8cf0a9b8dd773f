"""Sentences from parts: all parts exist, and what is said is the whole value."""

import re

from demo.skills.catalogue import clauses
from demo.skills.catalogue.kinds import Parameter
from demo.skills.catalogue.values import draw_value
from demo.skills.words import Split
from tests.demo.drawing import drawn


def test_parts_are_distinct_and_hold_no_marks_of_requests() -> None:
    for section, found in clauses.parts().items():
        assert len(set(found)) == len(found) >= 90, section
        assert not [part for part in found if re.search(r'[{}\[\]|",]', part)]


def test_every_section_is_used() -> None:
    made = " ".join(maker(drawn(i)) for maker in clauses.MADE.values() for i in range(2000))
    for section, found in clauses.parts().items():
        assert any(part in made for part in found), section


def test_sentences_are_copied_whole() -> None:
    capitals = 0
    for index in range(200):
        value, said = draw_value(drawn(index), Parameter(("text",), "sentence"))
        assert value in said
        capitals += said[0].isupper()
    assert 10 < capitals < 190


def test_evaluation_has_only_sentences_that_are_written_out() -> None:
    values = {
        draw_value(drawn(index, Split.HELD_OUT), Parameter(("text",), "sentence"))[0]
        for index in range(200)
    }
    made = {clauses.statement(drawn(index)) for index in range(2000)}
    assert not values & made
