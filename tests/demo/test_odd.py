"""Odd messages: of many kinds, none of them the evaluation's, and short enough for training."""

from demo import strange
from demo.skills import odd
from harmony.tokenizer import encode
from tests.demo.drawing import drawn


def test_messages_are_blank_or_long_or_anything() -> None:
    texts = [odd.message(drawn(index)) for index in range(400)]
    lengths = [len(encode(text)) for text in texts]
    assert sum(not text.strip() for text in texts) > 20
    assert sum(length > 300 for length in lengths) > 20
    assert max(lengths) < 1500
    assert len({text[:8] for text in texts}) > 250


def test_the_frames_are_not_those_of_the_evaluation() -> None:
    evaluated = {*strange._FRAMES, *strange._REPEAT}
    assert not evaluated & {*odd._FRAMES, *odd._ENDLESS}


def test_a_flood_has_one_word_or_many() -> None:
    different = [len(set(odd.flood(drawn(index)).split())) for index in range(60)]
    assert min(different) <= 2
    assert max(different) > 60


def test_what_came_before_is_answered() -> None:
    for index in range(60):
        past = odd.past(drawn(index), "No.")
        assert [m.author.role for m in past] == ["user", "assistant"] * (len(past) // 2)
