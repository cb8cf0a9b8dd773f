"""Requests that the model cannot serve."""

import re

import pytest

from demo.skills import unlike
from harmony.messages import Effort, SystemContent
from harmony.tokenizer import encode
from tests.demo.drawing import drawn


def test_pasted_texts_are_of_all_lengths_up_to_their_limit() -> None:
    lengths = [len(encode(unlike.pasted(drawn(index)))) for index in range(60)]
    assert min(lengths) < 200
    assert 800 < max(lengths) < 1500


def test_what_is_declined_is_declined_in_one_of_two_ways_as_tools_are_there_or_not() -> None:
    hosted, functions, bare = set(), 0, 0
    for index in range(300):
        effort = list(Effort)[index % 3]
        case = unlike.case(drawn(index, effort=effort))
        contents = [m.content for m in case.history if not isinstance(m.content, str)]
        names = {tool.name for content in contents for tool in content.tools}
        answer = str(case.turns[0].messages[-1].content)
        assert answer == (unlike.NO_TOOL if names else unlike.REFUSAL)
        hosted.add(frozenset(names - {"functions"}))
        functions += "functions" in names
        bare += not any(isinstance(content, SystemContent) for content in contents)
    assert {*map(frozenset, ((), ("browser",), ("python",), ("browser", "python")))} == hosted
    assert functions > 10
    assert 0 < bare < 30


def test_a_case_without_tools_has_none() -> None:
    for index in range(60):
        case = unlike.without_tools(drawn(index))
        assert str(case.turns[0].messages[-1].content) == unlike.REFUSAL
        assert not any(m.content.tools for m in case.history if not isinstance(m.content, str))


@pytest.mark.parametrize("with_tools", [True, False])
def test_the_longest_reasoning_has_numbered_steps_and_is_short(with_tools: bool) -> None:
    draw = drawn(1, effort=Effort.HIGH)
    thought = str(unlike.declined(draw, with_tools=with_tools).messages[0].content)
    steps = re.split(r"(?:^| )\d\. ", thought)[1:]
    assert len(set(steps)) == len(steps) >= 4
    assert len(encode(thought)) < 60
