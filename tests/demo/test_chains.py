"""Chains of calls: each step has its arguments from the request or from an earlier result."""

import json
from typing import Any

import pytest

from demo.skills import calls, drills
from demo.skills.case import Case, Turn
from demo.skills.words import Split
from harmony.messages import Message, Role
from tests.demo.drawing import drawn


def text(message: Message) -> str:
    return str(message.content)


def said(case: Case) -> list[str]:
    """What users and functions said, in order."""
    messages = [*case.history, *(m for turn in case.turns for m in turn.results)]
    return [text(m) for m in messages if m.author.role in (Role.USER, Role.TOOL)]


def called(turn: Turn) -> str | None:
    return turn.messages[-1].recipient


@pytest.mark.parametrize("split", Split)
def test_a_chain_calls_two_to_four_times_and_then_answers(split: Split) -> None:
    for index in range(60):
        *steps, last = calls.chain(drawn(index, split)).turns
        assert 2 <= len(steps) <= 4
        assert all(called(turn) for turn in steps)
        assert called(last) is None


@pytest.mark.parametrize("make", [calls.chain, drills.chaining])
def test_every_name_in_a_call_was_said_before(make: Any) -> None:
    for index in range(100):
        case = make(drawn(index))
        heard = " ".join(said(case)).lower()
        for turn in case.turns:
            if called(turn):
                for value in json.loads(text(turn.messages[-1])).values():
                    if isinstance(value, str) and value.istitle():
                        assert value.lower() in heard


def test_some_arguments_come_from_the_result_before_alone() -> None:
    reused = 0
    for index in range(200):
        case = calls.chain(drawn(index))
        request = text(case.history[-1])
        for before, turn in zip(case.turns, case.turns[1:], strict=False):
            if called(turn):
                for value in json.loads(text(turn.messages[-1])).values():
                    found = isinstance(value, str) and value not in request
                    reused += found and value in text(before.results[0])
    assert reused > 20


def test_a_drill_of_chains_numbers_the_steps() -> None:
    for index in range(30):
        case = drills.chaining(drawn(index))
        steps = [text(turn.messages[0]) for turn in case.turns if called(turn)]
        assert sum(step.startswith("Step 1: ") for step in steps) == 3
