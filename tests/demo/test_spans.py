"""Texts that have to be copied as they stand, and numbers in rows."""

import re

from demo.skills.catalogue import series, spans
from demo.skills.catalogue.kinds import Parameter
from demo.skills.catalogue.values import draw_value, schema
from demo.skills.words import Split, begins_spelt, script_words, spelt, split_of
from harmony.tokenizer import encode
from tests.demo.drawing import drawn


def test_spelt_words_are_one_token_after_a_space_and_more_alone() -> None:
    common, every = spelt(Split.TRAIN)
    assert set(common) < set(every)
    for word in every[::500]:
        assert len(encode(f" {word}")) == 1
        assert len(encode(word)) in (2, 3)
        assert begins_spelt(f"{word} and more")
        assert split_of(word) is Split.TRAIN
    assert not set(every) & set(spelt(Split.HELD_OUT)[1])


def test_many_values_begin_with_a_word_that_is_spelt() -> None:
    made = [draw_value(drawn(i), Parameter(("a",), "word"))[0] for i in range(200)]
    assert sum(map(begins_spelt, made)) > 70


def test_passages_have_lines_marks_and_other_scripts_and_stand_in_the_request() -> None:
    found = []
    for index in range(400):
        text, said = draw_value(drawn(index), Parameter(("a",), "passage"))
        assert text in said
        assert 1 < len(text) < 260
        assert text == text.strip()
        found.append(text)
    assert len(set(found)) > 390
    assert sum("\n" in text for text in found) > 60
    assert sum(not text.isascii() for text in found) > 60
    assert sum("**" in text or "`" in text for text in found) > 10


def test_words_of_other_scripts_are_those_of_a_split() -> None:
    letters = "а-яё"
    train, held_out = (script_words(letters, split) for split in Split)
    assert len(train) > 1000
    assert not set(train) & set(held_out)


def test_some_phrases_have_articles_of_their_own() -> None:
    phrases = [spans.phrase(drawn(index)) for index in range(300)]
    titles = [spans.title(drawn(index)) for index in range(300)]
    assert sum(bool(re.match("(a|an|the|my) ", text)) for text in phrases) > 50
    assert sum(text.startswith(("The ", "A ")) for text in titles) > 60


def test_all_numbers_of_a_list_stand_in_the_request() -> None:
    for index in range(200):
        numbers, said = series.numbers(drawn(index), whole=index % 2 == 0)
        assert re.findall(r"\d+(?:\.\d+)?", said) == [str(abs(number)) for number in numbers]


def test_rows_stand_in_the_request_or_count_from_one() -> None:
    counted = 0
    for index in range(300):
        rows, said = series.rows(drawn(index))
        assert len({len(row) for row in rows}) == 1
        found = re.findall(r"\d+(?:\.\d+)?", said)
        if found != [str(abs(number)) for row in rows for number in row]:
            assert [row[0] for row in rows] == list(range(1, len(rows) + 1))
            assert found == [str(abs(row[1])) for row in rows]
            counted += 1
    assert 20 < counted < 120


def test_rows_are_declared_as_lists_of_lists() -> None:
    made = schema(drawn(0), Parameter(("a",), "number[][]"))
    assert made["items"] == {"type": "array", "items": {"type": "number"}}
