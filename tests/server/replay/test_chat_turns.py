import pytest

from harmony.messages import Author, Channel, Message, Role
from server.replay.chat_turns import restored

ASSISTANT = Author(Role.ASSISTANT)


def text(channel: Channel, content: str, *tokens: int) -> Message:
    return Message(ASSISTANT, content, channel, tokens=tokens or None)


def call(content: str, *tokens: int) -> Message:
    return Message(
        ASSISTANT, content, Channel.COMMENTARY, "functions.f", "json", tokens=tokens or None
    )


ANALYSIS, COMMENTARY = Channel.ANALYSIS, Channel.COMMENTARY
SAID = (
    text(ANALYSIS, "One.", 1),
    text(COMMENTARY, "Look.", 2),
    text(ANALYSIS, "Two.", 3),
    call("{}", 4),
)
GIVEN = (text(ANALYSIS, "One.\n\nTwo."), text(COMMENTARY, "Look."), call("{}"))


def test_what_comes_back_as_it_was_is_repeated_as_it_was_said() -> None:
    assert restored(GIVEN, SAID) is SAID


def test_preambles_that_were_told_with_the_reasoning_are_preambles_again() -> None:
    together = (text(ANALYSIS, "One.\n\nLook.\n\nTwo."), call("{}"))
    assert restored(together, SAID) is SAID


def test_reasoning_that_does_not_come_back_is_restored() -> None:
    assert restored(GIVEN[1:], SAID) is SAID


def test_a_changed_preamble_stays_and_gets_its_reasoning_back() -> None:
    changed = (text(COMMENTARY, "Hm."), call("{}"))
    assert list(restored(changed, SAID)) == [SAID[0], SAID[2], *changed]
    assert list(restored(GIVEN[2:], SAID)) == [SAID[0], SAID[2], call("{}")]


def test_arguments_that_were_written_anew_are_the_same_call() -> None:
    said = (text(ANALYSIS, "One.", 1), call('{"city":"Paris"}', 2))
    assert restored((call('{"city": "Paris"}'),), said) is said


def test_a_custom_tools_input_is_the_same_character_by_character_alone() -> None:
    said = (text(ANALYSIS, "One.", 1), Message(ASSISTANT, "[1]", COMMENTARY, "functions.sql"))
    given = (Message(ASSISTANT, "[ 1 ]", COMMENTARY, "functions.sql"),)
    assert restored(given, said) is given


@pytest.mark.parametrize(
    "given",
    [
        (text(ANALYSIS, "Other."), *GIVEN[1:]),
        (GIVEN[0], text(COMMENTARY, "Other."), GIVEN[2]),
        (*GIVEN[:2], call('{"other": 1}')),
        (*GIVEN, call("{}")),
    ],
)
def test_a_changed_turn_is_the_clients(given: tuple[Message, ...]) -> None:
    assert restored(given, SAID) is given


def test_what_is_not_known_is_as_the_client_has_it() -> None:
    final = (text(Channel.FINAL, "Yes"),)
    assert restored(GIVEN, ()) is GIVEN
    assert restored(final, ()) is final
