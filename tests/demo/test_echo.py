"""Echoes: what is said again, as often as it should be, and that no wording is the evaluation's."""

import re

import pytest

from demo.skills import drills, echo, recall
from demo.skills.case import Case
from demo.skills.words import Split
from harmony.messages import Role
from tests.demo.drawing import drawn


def answers(case: Case) -> list[str]:
    return [str(turn.messages[-1].content) for turn in case.turns]


def asked(case: Case) -> list[str]:
    messages = (case.history[-1], *(m for turn in case.turns for m in turn.results))
    return [str(m.content) for m in messages if m.author.role is Role.USER]


def test_what_is_said_again_is_the_last_answer_or_a_part_of_it() -> None:
    whole = 0
    for index in range(200):
        case = echo.repeating(drawn(index))
        said, (again,) = str(case.history[-2].content), answers(case)
        assert again in said
        whole += again == said
    assert 40 < whole < 160


def test_an_echo_has_the_words_as_often_as_the_request() -> None:
    for index in range(200):
        case = echo.case(drawn(index))
        (request,), (said,) = asked(case), answers(case)
        if not said.startswith("1") and len(case.history) == 2:
            assert said.rstrip(".") in request


def test_only_what_was_said_is_repeated() -> None:
    for index in range(200):
        case = drills.hearing(drawn(index))
        said = str(case.history[-2].content)
        assert all(answer in said for answer in answers(case))


def test_an_answer_in_a_loop_is_said_once() -> None:
    loop = re.compile(r"(.{9,})[ \n]?\1")
    cases = [drills.hearing(drawn(index)) for index in range(300)]
    assert sum(bool(loop.search(str(case.history[-2].content))) for case in cases) > 20
    assert not any(loop.search(answer) for case in cases for answer in answers(case))


def test_copies_without_a_full_stop_are_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(echo, "_STATEMENTS", ("{number}",))
    monkeypatch.setattr(echo, "_LOOPED", 1)
    for index in range(50):
        (_, shown), [(_, turns)] = echo.heard(drawn(index), 1)
        assert {*str(shown.content).split()} == {str(turns[0].messages[-1].content)}


def test_the_only_number_of_an_answer_may_be_asked_for() -> None:
    exchanges = [echo.repeated(drawn(index), "It is 42.")[1] for index in range(50)]
    assert {str(turns[0].messages[-1].content) for turns in exchanges} == {"It is 42.", "42"}


def test_wordings_are_none_of_the_evaluation() -> None:
    for wordings in (echo._REPEAT, echo._REPEAT_PART):
        assert not {*wordings[Split.TRAIN]} & {*wordings[Split.HELD_OUT]}
    held_out = ("can you repeat that", "say it again", "repeat only the", "give me only the")
    for index in range(300):
        for text in asked(drills.hearing(drawn(index))):
            assert not [words for words in held_out if words in text.lower()]


def test_facts_are_recalled_and_those_not_told_are_said_to_be_missing() -> None:
    untold = 0
    for index in range(100):
        case = drills.remembering(drawn(index))
        noted = [text.split(" is ")[0] for text in answers(case) if text.startswith("Noted")]
        for text in answers(case):
            if text.startswith("You have not told me your "):
                untold += 1
                about = text.removeprefix("You have not told me your ").rstrip(".")
                assert f"Noted: your {about}" not in noted
    assert untold > 20


def test_a_statement_holds_the_fact() -> None:
    for index in range(200):
        draw = drawn(index)
        fact = recall.draw_fact(draw, ())
        assert fact.value.lower() in recall.statement(draw, fact).lower()
        if fact.about != "name":
            assert fact.about in recall.asked(draw, fact)
