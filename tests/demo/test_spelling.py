"""Drills of names and values that are written in other tokens than they are read."""

import pytest

from demo.skills.spelling import drill
from demo.skills.words import Split, spelt, spelt_alone
from harmony.tokenizer import decode, encode
from tests.demo.drawing import drawn


def names(index: int) -> set[str]:
    """The functions that a drill calls."""
    case = drill(drawn(index))
    called = {turn.messages[-1].recipient or "" for turn in case.turns}
    return {name.removeprefix("functions.") for name in called}


def test_the_first_word_of_each_function_is_one_token_only_after_a_space() -> None:
    for name in set.union(*map(names, range(10))):
        word = decode(encode(f" {name}")[:1]).strip()
        assert name.startswith(word)
        assert len(encode(f".{word}")) > 1


@pytest.mark.parametrize("before", ["", "."])
def test_spelt_words_have_several_tokens_behind_what_stands_before_them(before: str) -> None:
    common, every = spelt(Split.TRAIN, before)
    assert set(common) < set(every)
    for word in every[:200]:
        assert len(encode(f" {word}")) == 1 < len(encode(before + word))


def test_a_name_is_spelt_alone_if_only_its_first_word_changes() -> None:
    assert spelt_alone("monthly_rate", ".")
    assert not spelt_alone("monthly_rate")
    assert not spelt_alone("weather_rate", ".")
