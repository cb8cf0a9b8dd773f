from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harmony.history import without_answered_reasoning as rule
from harmony.messages import Author, Channel, Message, Role

ANALYSIS, COMMENTARY, FINAL = Channel


def user(text: str = "?") -> Message:
    return Message(Author(Role.USER), text)


def says(text: str, channel: Channel | None) -> Message:
    return Message(Author(Role.ASSISTANT), text, channel)


def calls(recipient: str, channel: Channel = COMMENTARY) -> Message:
    return Message(Author(Role.ASSISTANT), "{}", channel, recipient, "json")


def result(name: str, channel: Channel = COMMENTARY) -> Message:
    return Message(Author(Role.TOOL, name), "ok", channel, "assistant")


MESSAGES = st.lists(
    st.sampled_from(
        [
            user(),
            *(says("text", channel) for channel in (*Channel, None)),
            *(calls("functions.f", channel) for channel in Channel),
            *(calls("python", channel) for channel in Channel),
            *(result("python", channel) for channel in Channel),
        ]
    )
)


def test_reasoning_before_an_answer_is_dropped() -> None:
    question, thought, answer = user(), says("hm", ANALYSIS), says("42", FINAL)
    assert rule([question, thought, answer]) == (question, answer)


def test_reasoning_before_every_answer_is_dropped() -> None:
    turns = [user("a"), says("hm", ANALYSIS), says("1", FINAL)]
    turns += [user("b"), says("so", ANALYSIS), says("2", FINAL), user("c")]
    assert [message.content for message in rule(turns)] == ["a", "1", "b", "2", "c"]


def test_reasoning_stays_while_a_call_awaits_its_answer() -> None:
    turns = [user(), says("look it up", ANALYSIS), calls("functions.f"), result("functions.f")]
    assert rule(turns) == tuple(turns)


def test_all_reasoning_since_the_last_answer_stays_over_several_calls() -> None:
    old = [says("old", ANALYSIS), says("1", FINAL)]
    turn = [user(), says("first f", ANALYSIS), calls("functions.f"), result("functions.f")]
    turn += [says("then g", ANALYSIS), calls("functions.g"), result("functions.g")]
    assert rule([*old, *turn]) == (old[1], *turn)


def test_an_answer_ends_the_reasoning_between_calls_but_not_the_calls() -> None:
    call, output = calls("functions.f"), result("functions.f")
    turns = [says("f", ANALYSIS), call, output, says("done", ANALYSIS), says("1", FINAL)]
    assert rule(turns) == (call, output, turns[-1])


def test_a_preamble_is_no_answer() -> None:
    turns = [says("plan", ANALYSIS), says("I will look", COMMENTARY), calls("functions.f")]
    assert rule(turns) == tuple(turns)


def test_reasoning_without_an_answer_stays_after_the_next_question() -> None:
    turns = [user("a"), says("hm", ANALYSIS), user("b")]
    assert rule(turns) == tuple(turns)


def test_calls_of_functions_on_the_analysis_channel_stay_with_their_results() -> None:
    turns = [calls("functions.f", ANALYSIS), result("functions.f", ANALYSIS), says("1", FINAL)]
    assert rule(turns) == tuple(turns)


def test_a_built_in_call_on_the_analysis_channel_is_dropped_with_its_result() -> None:
    answer = says("1", FINAL)
    turns = [says("hm", ANALYSIS), calls("python", ANALYSIS), result("python", ANALYSIS), answer]
    assert rule(turns) == (answer,)


def test_a_built_in_call_on_commentary_stays_with_its_result() -> None:
    turns = [calls("browser.open"), result("browser.open"), says("1", FINAL)]
    assert rule(turns) == tuple(turns)


@pytest.mark.parametrize(
    ("call", "answered", "stay"), [(ANALYSIS, COMMENTARY, False), (COMMENTARY, ANALYSIS, True)]
)
def test_a_result_on_another_channel_follows_its_call(
    call: Channel, answered: Channel, stay: bool
) -> None:
    pair, answer = (calls("python", call), result("python", answered)), says("1", FINAL)
    assert rule([*pair, answer]) == (*(pair if stay else ()), answer)


def test_each_result_follows_the_call_before_it() -> None:
    kept = calls("python"), result("python")
    dropped = calls("python", ANALYSIS), result("python", ANALYSIS)
    answer = says("1", FINAL)
    assert rule([*dropped, *kept, *dropped, answer]) == (*kept, answer)


def test_built_in_calls_are_kept_until_the_turn_has_its_answer() -> None:
    turns = [says("0", FINAL), user(), calls("python", ANALYSIS), result("python", ANALYSIS)]
    assert rule(turns) == tuple(turns)


def test_built_in_calls_before_a_call_of_a_function_are_kept() -> None:
    turns = [user(), calls("python", ANALYSIS), result("python", ANALYSIS)]
    turns += [says("now f", ANALYSIS), calls("functions.f"), result("functions.f")]
    assert rule(turns) == tuple(turns)


def test_a_result_without_its_call_is_judged_by_its_channel() -> None:
    answer = says("1", FINAL)
    assert rule([result("python", ANALYSIS), result("python"), answer]) == (
        result("python"),
        answer,
    )


def test_a_message_to_all_is_no_call() -> None:
    turns = [calls("all", ANALYSIS), says("1", FINAL)]
    assert rule(turns) == tuple(turns)


def test_a_call_on_the_final_channel_is_no_answer() -> None:
    turns = [says("hm", ANALYSIS), calls("functions.f", FINAL)]
    assert rule(turns) == tuple(turns)


def test_an_empty_history_stays_empty() -> None:
    assert rule([]) == ()


@given(messages=MESSAGES)
def test_only_reasoning_and_built_in_calls_are_ever_dropped(messages: list[Message]) -> None:
    def others(some: Iterable[Message]) -> list[Message]:
        thoughts = says("text", ANALYSIS)
        return [m for m in some if m != thoughts and "python" not in (m.recipient, m.author.name)]

    assert others(messages) == others(rule(messages))


@given(messages=MESSAGES)
def test_applying_the_rules_twice_changes_nothing(messages: list[Message]) -> None:
    assert rule(rule(messages)) == rule(messages)


@given(messages=MESSAGES, more=MESSAGES)
def test_what_was_dropped_stays_dropped(messages: list[Message], more: list[Message]) -> None:
    assert rule([*rule(messages), *more]) == rule([*messages, *more])
