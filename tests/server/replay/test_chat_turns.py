from typing import Any

import pytest

from harmony.messages import Author, Channel, Message, Role
from server.replay.chat_turns import restore_turn

ASSISTANT = Author(Role.ASSISTANT)


def text(channel: Channel, content: str, *tokens: int) -> Message:
    return Message(ASSISTANT, content, channel, tokens=tokens or None)


def call(content: str, *tokens: int, name: str = "f") -> Message:
    return Message(
        ASSISTANT, content, Channel.COMMENTARY, f"functions.{name}", "json", tokens=tokens or None
    )


ANALYSIS, COMMENTARY = Channel.ANALYSIS, Channel.COMMENTARY
SAMPLED = (
    text(ANALYSIS, "One.", 1),
    text(COMMENTARY, "Look.", 2),
    text(ANALYSIS, "Two.", 3),
    call("{}", 4),
)
RECEIVED = (text(ANALYSIS, "One.\n\nTwo."), text(COMMENTARY, "Look."), call("{}"))


def test_an_unchanged_turn_is_repeated_as_sampled() -> None:
    assert restore_turn(RECEIVED, SAMPLED) is SAMPLED


def test_preambles_in_the_reasoning_field_become_preambles_again() -> None:
    together = (text(ANALYSIS, "One.\n\nLook.\n\nTwo."), call("{}"))
    assert restore_turn(together, SAMPLED) is SAMPLED


def test_dropped_reasoning_is_restored() -> None:
    assert restore_turn(RECEIVED[1:], SAMPLED) is SAMPLED


@pytest.mark.parametrize("piece", ["One.", "o.", "."])
def test_a_piece_of_the_reasoning_is_replaced_by_all_of_it(piece: str) -> None:
    assert restore_turn((text(ANALYSIS, piece), *RECEIVED[1:]), SAMPLED) is SAMPLED


@pytest.mark.parametrize("guess", ["One.", "Zero."])
def test_secret_reasoning_is_not_compared_with_what_the_client_sends(guess: str) -> None:
    guessed = (text(ANALYSIS, guess), *RECEIVED[1:])
    assert restore_turn(guessed, SAMPLED, is_secret=True) is SAMPLED
    changed = (text(COMMENTARY, "Hm."), call("{}"))
    turn = restore_turn((guessed[0], *changed), SAMPLED, is_secret=True)
    assert turn == [SAMPLED[0], SAMPLED[2], *changed]


@pytest.mark.parametrize("tag", ["<think>", '<think signature="x">\n', "\n<think>\n"])
@pytest.mark.parametrize("reasoning", ["One.\n\nTwo.", "One.", "One.\n\nLook.\n\nTwo."])
def test_reasoning_in_a_tag_before_the_text_is_not_a_part_of_it(tag: str, reasoning: str) -> None:
    tagged = text(COMMENTARY, f"{tag}{reasoning}\n</think>\n\nLook.")
    assert restore_turn((tagged, call("{}")), SAMPLED) is SAMPLED
    assert restore_turn((RECEIVED[0], tagged, call("{}")), SAMPLED) is SAMPLED


def test_a_guess_at_secret_reasoning_in_a_tag_is_not_compared_with_it() -> None:
    for guess in ("One.", "Zero."):
        tagged = (text(COMMENTARY, f"<think>{guess}</think>Look."), call("{}"))
        turn = restore_turn(tagged, SAMPLED, is_secret=True)
        assert turn == [SAMPLED[0], SAMPLED[2], *tagged]


def test_a_changed_text_after_reasoning_in_a_tag_stays_without_the_tag() -> None:
    tagged = text(COMMENTARY, "<think>One.</think>Hm.")
    assert restore_turn((tagged, call("{}")), SAMPLED) == [
        text(ANALYSIS, "One."),
        text(COMMENTARY, "Hm."),
        call("{}"),
    ]


@pytest.mark.parametrize("inside", ["Zero.", "", " "])
def test_a_tag_with_another_text_is_a_part_of_the_preamble(inside: str) -> None:
    tagged = text(COMMENTARY, f"<think>{inside}</think>Look.")
    assert [*restore_turn((tagged, call("{}")), SAMPLED)][2:] == [tagged, call("{}")]


def test_a_tag_that_the_model_wrote_before_the_text_is_a_part_of_it() -> None:
    sampled = (SAMPLED[0], text(COMMENTARY, "<think>One.</think>Look.", 2), SAMPLED[3])
    assert restore_turn(sampled[1:], sampled) is sampled


def test_reasoning_is_inserted_before_a_changed_preamble() -> None:
    changed = (text(COMMENTARY, "Hm."), call("{}"))
    assert list(restore_turn(changed, SAMPLED)) == [SAMPLED[0], SAMPLED[2], *changed]
    assert list(restore_turn(RECEIVED[2:], SAMPLED)) == [SAMPLED[0], SAMPLED[2], call("{}")]


def test_preambles_that_were_in_dropped_reasoning_are_restored_with_it() -> None:
    assert restore_turn(RECEIVED[2:], SAMPLED, json_content=True) is SAMPLED


@pytest.mark.parametrize("json_content", [False, True])
def test_a_final_message_before_a_call_is_a_part_of_the_content(json_content: bool) -> None:
    sampled = (*SAMPLED[:2], text(Channel.FINAL, "[1]", 5), *SAMPLED[2:])
    content = "[1]" if json_content else "Look.\n\n[1]"
    thoughts = "One.\n\nLook.\n\nTwo." if json_content else "One.\n\nTwo."
    received = (text(ANALYSIS, thoughts), text(COMMENTARY, content), call("{}"))
    assert restore_turn(received, sampled, json_content=json_content) is sampled
    assert restore_turn(received[1:], sampled, json_content=json_content) is sampled
    changed = (text(COMMENTARY, "[2]"), call("{}"))
    reasoned = [SAMPLED[0], SAMPLED[2], *changed]
    assert list(restore_turn(changed, sampled, json_content=json_content)) == reasoned


def test_a_made_up_tool_of_the_models_own_has_a_functions_name() -> None:
    made_up = (text(ANALYSIS, "One.", 1), Message(ASSISTANT, "1 + 1", ANALYSIS, "python", "code"))
    received = (Message(ASSISTANT, "1 + 1", COMMENTARY, "functions.python", "json"),)
    assert restore_turn(received, made_up) is made_up


def test_calls_of_hosted_tools_come_back_with_the_reasoning() -> None:
    hosted = Message(ASSISTANT, "1 + 1", ANALYSIS, "python", "code", tokens=(5,))
    result = Message(Author(Role.TOOL, "python"), "2", ANALYSIS, "assistant")
    loop = (SAMPLED[0], hosted, result, *SAMPLED[1:])
    assert restore_turn(RECEIVED, loop) is loop
    assert restore_turn(RECEIVED[1:], loop) is loop
    changed = (text(COMMENTARY, "Hm."), call("{}"))
    reasoning = [SAMPLED[0], hosted, result, SAMPLED[2]]
    assert list(restore_turn(changed, loop)) == [*reasoning, *changed]
    other = (text(COMMENTARY, "Look."), call('{"a":1}'))
    assert restore_turn(other, loop) is other


def test_functions_of_hosted_tools_are_not_calls_of_the_client() -> None:
    hosted = Message(ASSISTANT, "{}", COMMENTARY, "functions.dmcp__f", "json", tokens=(5,))
    result = Message(Author(Role.TOOL, "functions.dmcp__f"), "2", COMMENTARY, "assistant")
    loop = (hosted, result, call("{}", 4))
    assert restore_turn((call("{}"),), loop) is loop


def test_arguments_in_another_format_are_the_same_call() -> None:
    sampled = (text(ANALYSIS, "One.", 1), call('{"city":"Paris"}', 2))
    assert restore_turn((call('{"city": "Paris"}'),), sampled) is sampled


def test_a_custom_tools_input_is_compared_by_its_characters() -> None:
    sampled = (text(ANALYSIS, "One.", 1), Message(ASSISTANT, "[1]", COMMENTARY, "functions.sql"))
    received = (Message(ASSISTANT, "[ 1 ]", COMMENTARY, "functions.sql"),)
    assert restore_turn(received, sampled) is received


@pytest.mark.parametrize(
    "received",
    [
        (text(ANALYSIS, "Other."), *RECEIVED[1:]),
        (RECEIVED[0], text(COMMENTARY, "Other."), RECEIVED[2]),
        (*RECEIVED[:2], call('{"other": 1}')),
        (*RECEIVED[:2], call("{}", name="g")),
        (*RECEIVED, call("{}")),
        (text(ANALYSIS, "One."), text(COMMENTARY, "Look.\n\nTwo."), call("{}")),
    ],
)
def test_a_changed_turn_stays_as_received(received: tuple[Message, ...]) -> None:
    assert restore_turn(received, SAMPLED) is received


def test_an_unknown_turn_stays_as_received() -> None:
    final = (text(Channel.FINAL, "Yes"),)
    assert restore_turn(RECEIVED, ()) is RECEIVED
    assert restore_turn(final, ()) is final


def test_links_for_citation_markers_are_the_same_preamble() -> None:
    sampled = (text(COMMENTARY, "Look【1†L0】.", 2), call("{}", 4))
    received = (text(COMMENTARY, "Look ([a.example](https://a.example))."), call("{}"))
    assert restore_turn(received, sampled) is sampled


def test_a_message_with_one_of_many_calls_does_not_read_all_of_them() -> None:
    unread: Any = None
    received = (call("{}"),)
    assert restore_turn(received, (unread, call("{}", 4), call("{}", 5))) is received


def test_reasoning_before_many_calls_is_found_without_comparing_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sampled = (SAMPLED[0], *(call(f"{number}", 4) for number in range(20)))
    received = (text(COMMENTARY, "Hm."), *(call(f"{number}") for number in range(20)))
    compared: list[Any] = []
    with monkeypatch.context() as patches:
        patches.setattr(Message, "__eq__", lambda *pair: compared.append(pair))
        restored = restore_turn(received, sampled)
    assert list(restored) == [SAMPLED[0], *received]
    assert compared == []
