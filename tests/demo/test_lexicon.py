"""The lexicon, and what the embedding takes from it."""

from collections import Counter

from demo.embedding import pieces, tagged
from demo.lexicon import MOST, lexicon, text
from harmony.tokenizer import decode, encode


def names_of(word: str) -> set[str]:
    words, tags = lexicon()
    return {tags[number] for number in words[word]}


def test_words_of_like_meaning_share_tags() -> None:
    assert {"buy", "verb"} <= names_of("purchase") & names_of("buy")
    assert names_of("photograph") & names_of("snapshot")
    assert not names_of("kitchen") & names_of("invoice") - {"noun"}


def test_each_word_stands_once_with_at_least_one_tag() -> None:
    lines = [line.split() for line in text().splitlines()]
    assert not [word for word, count in Counter(line[0] for line in lines).items() if count > 1]
    assert not [line for line in lines if len(line) < 2 or line[0] != line[0].lower()]


def test_tags_are_numbered_in_the_order_of_their_first_occurrence() -> None:
    seen = dict.fromkeys(tag for line in text().splitlines() for tag in line.split()[1:][:MOST])
    assert lexicon()[1] == tuple(seen)


def test_tokens_of_a_word_have_its_tags_in_any_case_and_others_have_none() -> None:
    rows, (words, tags) = tagged(), lexicon()
    for written in (" kitchen", " Kitchen"):
        (token,) = encode(written)
        assert tuple(rows[token, : len(words["kitchen"])].tolist()) == words["kitchen"]
    assert set(rows[encode('":"')[0]].tolist()) == {len(tags)}


def test_words_that_are_several_tokens_without_their_space_have_their_pieces() -> None:
    (token,) = encode(" kitchen")
    assert [decode([p]) for p in pieces()[token].tolist() if p >= 0] == ["k", "itchen"]
    (whole,) = encode(" Paris")
    assert pieces()[whole].tolist() == [-1, -1, -1]


def test_words_that_are_several_tokens_after_a_dot_have_their_pieces() -> None:
    (token,) = encode(" vacuum")
    assert [decode([p]) for p in pieces(".")[token].tolist()] == [".v", "ac", "uum"]
    (whole,) = encode(" get")
    assert pieces(".")[whole].tolist() == [-1, -1, -1]
