"""Conversations with functions: what a correction keeps, what a distraction does not cause."""

import json
from itertools import pairwise
from typing import Any

import pytest

from demo.skills import corrections, dialogue
from demo.skills.case import Case
from demo.skills.phrases import worded
from demo.skills.words import Split
from demo.transcript import transcript
from harmony.messages import Author, Channel, Effort, Message, Role
from tests.demo.drawing import drawn


def messages(case: Case) -> list[Message]:
    turns = (m for turn in case.turns for m in (*turn.messages, *turn.results))
    return [*case.history, *turns]


def calls(case: Case) -> list[tuple[str, dict[str, object]]]:
    return [
        (message.recipient.removeprefix("functions."), json.loads(text(message)))
        for message in messages(case)
        if message.recipient is not None and message.author.role is Role.ASSISTANT
    ]


def text(message: Message) -> str:
    assert isinstance(message.content, str)
    return message.content


def declared(case: Case) -> set[str]:
    found = set()
    for message in case.history:
        namespaces = getattr(message.content, "tools", ())
        found |= {tool.name for space in namespaces for tool in space.tools}
    return found


@pytest.mark.parametrize("make", [dialogue.case, dialogue.drill])
@pytest.mark.parametrize("split", Split)
def test_only_functions_of_the_box_are_called(make: Any, split: Split) -> None:
    for index in range(60):
        case = make(drawn(index, split))
        called = {name for name, _ in calls(case)}
        assert called
        assert called <= declared(case)


def test_a_correction_changes_one_argument_of_the_call_before_it() -> None:
    corrected = 0
    for index in range(100):
        found = calls(dialogue.drill(drawn(index)))
        for (before, old), (after, new) in pairwise(found):
            changed = [key for key in new if new[key] != old.get(key)]
            corrected += before == after and new.keys() == old.keys() and len(changed) == 1
    assert corrected > 100


def test_every_name_in_a_call_was_said_by_the_user() -> None:
    for index in range(100):
        case = dialogue.drill(drawn(index))
        said = " ".join(text(m) for m in messages(case) if m.author == Author(Role.USER)).lower()
        for _, arguments in calls(case):
            for value in arguments.values():
                if isinstance(value, str) and value.istitle():
                    assert value.lower() in said


def test_values_keep_their_case_where_a_request_begins_with_one() -> None:
    begun = 0
    for index in range(300):
        draw = drawn(index, Split.HELD_OUT)
        for one in dialogue._draw_asked(draw, 2):
            task = dialogue._changed(draw, one).task if one.changeable() else one.task
            for value in (each.text for each in task.filled):
                if task.request.lower().startswith(value.lower()):
                    begun += 1
                    assert task.request.startswith(value)
    assert begun > 10


def test_what_is_to_be_done_again_is_one_task() -> None:
    for index in range(200):
        case = dialogue.drill(drawn(index, Split.HELD_OUT))
        asked = [text(m) for m in messages(case) if m.author == Author(Role.USER)]
        for before, request in pairwise(asked):
            if request in dialogue._REPEATED[Split.HELD_OUT]:
                assert "; when that is done, " not in before
                assert ", next " not in before


def test_a_result_that_gives_orders_is_quoted_without_them() -> None:
    quoted = 0
    for index in range(100):
        case = dialogue.drill(drawn(index))
        for turn in case.turns[:-1]:  # the last result may have no answer
            for result in turn.results:
                if any(order[:10] in text(result) for order in dialogue.ORDERS[Split.TRAIN]):
                    quoted += 1
                    value = text(result).split(". ")[0]
                    answers = [text(m) for t in case.turns for m in t.messages]
                    assert f"The result is {value}." in answers
    assert quoted > 10


def test_two_tasks_end_in_one_answer_with_both_results() -> None:
    for index in range(100):
        case = dialogue.case(drawn(index))
        for first, second, last in zip(case.turns, case.turns[1:], case.turns[2:], strict=False):
            called = [turn.messages[-1].recipient is not None for turn in (first, second, last)]
            if called == [True, True, False]:
                answer = text(last.messages[-1])
                assert answer.count(". ") + answer.count("failed") >= 1
                return
    pytest.fail("no request has two tasks")


def test_history_has_no_reasoning_and_sometimes_no_system_message() -> None:
    cases = [dialogue.case(drawn(index, effort=Effort.MEDIUM)) for index in range(100)]
    for case in cases:
        assert not any(message.channel is Channel.ANALYSIS for message in case.history)
    without = [case for case in cases if case.history[0].author.role is not Role.SYSTEM]
    assert 5 < len(without) < 50


@pytest.mark.parametrize("make", [dialogue.case, dialogue.drill])
def test_most_conversations_fit_the_training(make: Any) -> None:
    sizes = sorted(len(transcript(make(drawn(index))).ids) for index in range(60))
    assert sizes[30] <= 1100


def test_composed_wordings_are_none_of_the_evaluation() -> None:
    held_out = ("oh wait", "should be", "again, but", "make the", "and now", "instead of",
                "one more time", "do it once again", "when that is done", ", next ")  # fmt: skip
    draw = drawn(0)
    patterns = (*corrections.NAMED, *corrections.BARE, *corrections.REPEATED, *corrections.JOINED)
    for pattern in patterns:
        for _ in range(300):
            text = worded(draw, pattern).lower()
            assert not [words for words in held_out if words in text]
            assert not text.startswith("wait")
