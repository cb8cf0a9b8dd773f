"""Routes: where transcripts name the function that a request is for."""

import pytest

from demo.routes import read, routed
from demo.skills import draw_case
from demo.skills.case import Case
from demo.skills.words import Split
from demo.transcript import transcript
from harmony.messages import DeveloperContent, Effort
from harmony.tokenizer import decode


def _names(case: Case) -> list[str]:
    (content,) = [m.content for m in case.history if isinstance(m.content, DeveloperContent)]
    return [tool.name for tool in content.tools[0].tools]


@pytest.mark.parametrize("skill", ["call", "everyday", "chain"])
def test_all_declared_names_are_found_in_their_order(skill: str) -> None:
    case = draw_case(1, 4, Split.TRAIN, skill)
    found = read(transcript(case).ids)
    assert found is not None
    declared = [decode(found.ids[start:stop]).strip() for start, stop in found.names]
    assert declared == _names(case)


def test_routes_lead_to_the_tokens_of_the_name() -> None:
    case = draw_case(1, 5, Split.HELD_OUT, "everyday", Effort.LOW)
    found = read(transcript(case).ids)
    assert found is not None
    called = (case.turns[0].messages[-1].recipient or "").removeprefix("functions.")
    said = "".join(decode([found.ids[route.at + 1]]) for route in found.routes if route.first)
    assert said.strip() == called
    assert {_names(case)[route.right] for route in found.routes} == {called}


def test_only_the_first_naming_in_a_turn_is_marked() -> None:
    found = read(transcript(draw_case(1, 1, Split.HELD_OUT, "everyday", Effort.MEDIUM)).ids)
    assert found is not None
    starts = [route for route in found.routes if route.part == 0]
    assert [route.first for route in starts] == [True] + [False] * (len(starts) - 1)
    assert len(starts) > 2


def test_a_request_is_what_the_user_wrote() -> None:
    case = draw_case(1, 5, Split.HELD_OUT, "everyday")
    found = read(transcript(case).ids)
    assert found is not None
    start, stop = found.routes[0].request
    assert decode(found.ids[start:stop]) == case.history[-1].content


def test_cases_without_calls_have_no_routes() -> None:
    assert read(transcript(draw_case(1, 0, Split.TRAIN, "chat")).ids) is None


def test_cases_without_calls_are_left_out() -> None:
    assert len(list(routed(1, 20, Split.TRAIN, "everyday"))) == 20
    assert not list(routed(1, 20, Split.TRAIN, "sums"))
