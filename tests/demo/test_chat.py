"""Small talk, echoes, and what is said again."""

from random import Random

from demo.skills import chat
from demo.skills.case import Draw
from demo.skills.words import Split
from harmony.messages import Effort


def drawn(index: int) -> Draw:
    return Draw(Random(f"chat/{index}"), Split.TRAIN, Effort.LOW)


def test_what_is_said_again_is_the_last_answer_or_a_part_of_it() -> None:
    whole = 0
    for index in range(200):
        case = chat.repeating(drawn(index))
        said, again = str(case.history[-2].content), str(case.turns[0].messages[-1].content)
        assert again in said
        whole += again == said
    assert 40 < whole < 160


def test_wishes_to_hear_it_again_are_worded_otherwise_in_the_evaluation() -> None:
    trained = {*chat._AGAIN, *chat._ONLY, *chat._REPEAT[Split.TRAIN]}
    trained |= {*chat._REPEAT_PART[Split.TRAIN]}
    assert not trained & {*chat._REPEAT[Split.HELD_OUT], *chat._REPEAT_PART[Split.HELD_OUT]}


def test_an_echo_has_the_words_as_often_as_the_request() -> None:
    for index in range(200):
        case = chat.echo(drawn(index))
        asked, said = str(case.history[-1].content), str(case.turns[0].messages[-1].content)
        if not said.startswith("1") and len(case.history) == 2:
            assert said.rstrip(".") in asked
