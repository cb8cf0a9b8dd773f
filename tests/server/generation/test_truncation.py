"""Prompts that are too long."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harmony.messages import Author, Channel, Conversation, DeveloperContent, Message, Role
from harmony.render import render
from harmony.tokenizer import decode
from server.generation.truncation import render_within

DEVELOPER = Message(Author(Role.DEVELOPER), DeveloperContent("Be kind."))


def asks(name: str) -> Message:
    return Message(Author(Role.USER), f"ask {name}")


def turn(name: str, calls: int = 0) -> list[Message]:
    return [
        asks(name),
        *[call("f"), result("f")] * calls,
        Message(Author(Role.ASSISTANT), f"said {name}", Channel.FINAL),
    ]


def call(name: str) -> Message:
    return Message(Author(Role.ASSISTANT), "{}", Channel.COMMENTARY, f"functions.{name}", "json")


def result(name: str) -> Message:
    return Message(Author(Role.TOOL, f"functions.{name}"), "ok", Channel.COMMENTARY, "assistant")


def talk(*turns: list[Message]) -> Conversation:
    return Conversation((DEVELOPER, *(message for each in turns for message in each)))


def test_what_fits_is_whole() -> None:
    whole = talk(turn("a"), turn("b"))
    assert render_within(whole, len(render(whole))) == render(whole)


def test_the_oldest_turns_go_first_and_the_instructions_stay() -> None:
    a, b, c = turn("a", 2), turn("b", 1), turn("c")
    assert render_within(talk(a, b, c), len(render(talk(b, c)))) == render(talk(b, c))
    assert render_within(talk(a, b, c), len(render(talk(b, c))) - 1) == render(talk(c))


@pytest.mark.parametrize(
    "together",
    [
        [asks("b"), call("f"), asks("c"), result("f")],
        [asks("b"), call("f"), call("g"), result("f"), asks("c"), result("g")],
        [asks("b"), call("f"), asks("c"), call("f"), asks("d"), result("f"), result("f")],
    ],
    ids=["one", "parallel", "nested"],
)
def test_a_call_and_its_result_are_dropped_together(together: list[Message]) -> None:
    whole = talk(turn("a"), together, turn("z"))
    assert render_within(whole, len(render(whole)) - 1) == render(talk(together, turn("z")))
    assert render_within(whole, len(render(talk(together))) - 1) == render(talk(turn("z")))


@pytest.mark.parametrize("later", [[], [call("f"), result("f")]], ids=["none", "of another call"])
def test_a_call_without_a_result_awaits_none(later: list[Message]) -> None:
    last = [asks("c"), *later, *turn("d")]
    whole = talk([asks("b"), call("f")], last)
    assert render_within(whole, len(render(whole)) - 1) == render(talk(last))


def test_a_result_whose_call_is_not_there_stays_in_its_turn() -> None:
    rest = [asks("b"), result("f"), *turn("c")]
    whole = talk(turn("a"), rest)
    assert render_within(whole, len(render(whole)) - 1) == render(talk(rest))


def test_a_call_before_the_first_turn_stays_with_its_result() -> None:
    whole = talk([call("f"), asks("a"), result("f")], turn("b"))
    assert render_within(whole, 1) == render(whole)


def test_the_last_turn_stays_though_it_is_too_long() -> None:
    assert render_within(talk(turn("a"), turn("b", 9)), 1) == render(talk(turn("b", 9)))
    assert render_within(talk(turn("a")), 1) == render(talk(turn("a")))


def test_without_a_user_there_is_no_turn_to_drop() -> None:
    assert render_within(talk(), 1) == render(talk())


def test_reasoning_stays_as_the_conversation_requires() -> None:
    thought = Message(Author(Role.ASSISTANT), "hm", Channel.ANALYSIS)
    asked, answer = turn("b")
    whole = Conversation((*turn("a"), asked, thought, answer), all_reasoning=True)
    short = render_within(whole, len(render(whole)) - 1)
    assert "hm" in decode(short)
    assert "ask a" not in decode(short)


@given(st.lists(st.integers(0, 3), min_size=1, max_size=6), st.integers(0, 400))
def test_as_little_as_it_takes_is_dropped(calls: list[int], limit: int) -> None:
    turns = [turn(str(index), count) for index, count in enumerate(calls)]
    prompts = [render(talk(*turns[start:])) for start in range(len(turns))]
    fitting = [prompt for prompt in prompts if len(prompt) <= limit]
    assert render_within(talk(*turns), limit) == (fitting or prompts[-1:])[0]


def test_reasoning_whose_answer_is_dropped_does_not_come_back() -> None:
    thought = Message(Author(Role.ASSISTANT), "hm " * 50, Channel.ANALYSIS)
    unanswered = turn("b")[:1]
    whole = Conversation((thought, *turn("a"), *unanswered, *unanswered))
    assert "hm" not in decode(render_within(whole, len(render(whole)) - 1))


def test_no_more_is_rendered_than_shows_that_it_is_too_long() -> None:
    long = Conversation((Message(Author(Role.USER), "word " * 100_000),))
    assert 10 < len(render_within(long, 5, 10)) < 100_000
