"""Choices: where transcripts name the function that a request is for."""

import pytest

from demo.choices import choices, read
from demo.skills import draw_case
from demo.skills.case import Case
from demo.skills.words import Split
from demo.transcript import transcript
from harmony.messages import DeveloperContent, Effort
from harmony.tokenizer import decode


def _names(case: Case) -> list[str]:
    (content,) = [m.content for m in case.history if isinstance(m.content, DeveloperContent)]
    return [tool.name for tool in content.tools[0].tools]


def _called(case: Case) -> str:
    return (case.turns[0].messages[-1].recipient or "").removeprefix("functions.")


@pytest.mark.parametrize("skill", ["call", "everyday", "chain"])
def test_all_declared_names_are_found_in_their_order(skill: str) -> None:
    case = draw_case(1, 4, Split.TRAIN, skill)
    found = read(transcript(case).ids)
    assert found is not None
    declared = [decode(found.ids[start:stop]).strip() for start, stop in found.names]
    assert declared == _names(case)


def test_the_name_of_the_called_function_follows() -> None:
    case = draw_case(1, 5, Split.HELD_OUT, "everyday", Effort.LOW)
    found = read(transcript(case).ids)
    assert found is not None
    assert decode(found.ids[found.at + 1 :]).strip().startswith(_called(case))
    assert _names(case)[found.right] == _called(case)


def test_a_choice_is_the_first_naming_in_a_turn() -> None:
    case = draw_case(1, 1, Split.HELD_OUT, "everyday", Effort.MEDIUM)
    found = read(transcript(case).ids)
    assert found is not None
    before, after = decode(found.ids[: found.at + 1]), decode(found.ids[found.at + 1 :])
    assert _called(case) not in before.rpartition("<|start|>assistant")[2]
    assert after.count(_called(case)) > 2


def test_cases_without_calls_have_no_choice() -> None:
    assert read(transcript(draw_case(1, 0, Split.TRAIN, "chat")).ids) is None


def test_cases_without_calls_are_left_out() -> None:
    assert len(list(choices(1, 20, Split.TRAIN, "everyday"))) == 20
    assert not list(choices(1, 20, Split.TRAIN, "sums"))
