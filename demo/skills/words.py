"""The words that cases are made of: taken from the packaged vocabulary or put together.

Every word belongs to one of two splits by its hash: what evaluation uses, training never sees.
Evaluation uses words of the lexicon alone; training also takes any other letters that are tokens.
"""

import hashlib
import re
from collections.abc import Callable
from enum import StrEnum
from functools import cache
from random import Random

from demo.embedding import core, pieces
from demo.lexicon import lexicon
from harmony import vocab
from harmony.tokenizer import encode

_HELD_OUT = 38
_ONSETS = (
    "b", "d", "f", "g", "k", "l", "m", "n", "p", "r", "s", "t", "v", "z", "br", "dr", "kl", "st",
    "tr", "pl", "gr", "sh",
)  # fmt: skip
_VOWELS = ("a", "e", "i", "o", "u", "ai", "or", "an", "el", "in", "ur", "on")
_NOT_VALUES = frozenset((
    "true", "false", "null", "none", "yes", "not", "and", "the", "with", "without", "where", "then",
    "first", "after", "that", "this", "for", "from", "into", "about", "called", "are", "was",
    "were", "has", "have", "had", "his", "her", "its", "our", "your", "them", "they", "you", "she",
    "him", "who", "what", "how", "when", "why", "which", "will", "would", "can", "could", "please",
    "tool", "call", "function", "undefined", "nan",
))  # fmt: skip


_APART = frozenset(("adv", "conj", "interjection", "prep", "aux"))
_FOREIGN = frozenset(("french", "german"))


class Split(StrEnum):
    """Which words and texts a case may use."""

    TRAIN = "train"
    HELD_OUT = "held-out"


def split_of(text: str) -> Split:
    """The split of `text`, by its hash: about 15 % are held out."""
    digest = hashlib.blake2b(text.lower().encode(), digest_size=1).digest()[0]
    return Split.HELD_OUT if digest < _HELD_OUT else Split.TRAIN


@cache
def _pieces() -> tuple[str, ...]:
    return tuple(piece.decode("utf-8", "replace") for piece in vocab.token_bytes())


@cache
def _matching(pattern: str, twin: str, split: Split) -> tuple[str, ...]:
    """The bare words of tokens ` word` that are also tokens as `twin` + word."""
    known = frozenset(_pieces())
    meaning = lexicon()[0]
    form = re.compile(pattern)
    found = (piece[1:] for piece in _pieces() if form.fullmatch(piece))
    return tuple(
        word
        for word in found
        if twin + word in known
        and word in known
        and word.lower() not in _NOT_VALUES
        and split_of(word) is split
        and (split is Split.TRAIN or word.lower() in meaning)
    )


def words(split: Split) -> tuple[str, ...]:
    """Lower-case words that are one token with and without a leading space."""
    return _matching(r" [a-z]{3,9}", "", split)


def nouns(split: Split) -> tuple[str, ...]:
    """Words that are also one token after an underscore, as in names of functions."""
    return _matching(r" [a-z]{3,9}", "_", split)


def names(split: Split) -> tuple[str, ...]:
    """Capitalised words that are one token with and without a leading space."""
    return _matching(r" [A-Z][a-z]{2,8}", "", split)


@cache
def spelt(split: Split, before: str = "") -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Words that are one token after a space and two or three after a quote, or behind `before`:
    those in the lexicon, and all of them."""
    meaning, texts = lexicon()[0], _pieces()
    table = pieces(before)
    tokens = (table[:, 1] >= 0).nonzero().flatten()
    found = []
    for token, parts in zip(tokens.tolist(), table[tokens].tolist(), strict=True):
        word = texts[token][1:]
        whole = "".join(texts[part] for part in parts if part >= 0) == before + word
        if whole and re.fullmatch("[A-Z]?[a-z]{2,13}", word) and split_of(word) is split:
            found.append(word)
    return tuple(word for word in found if word.lower() in meaning), tuple(found)


@cache
def begins_spelt(text: str) -> bool:
    """Whether the text begins with such a word."""
    return bool(pieces()[encode(f" {text}")[0], 1] >= 0)


def spelt_alone(text: str, before: str = "") -> bool:
    """Whether `text` has the same tokens alone, or behind `before`, as after a space, but for its
    first word, which is several tokens there."""
    first, *others = encode(f" {text}")
    parts = [part for part in pieces(before)[first].tolist() if part >= 0]
    return len(parts) > 0 and encode(before + text) == [*parts, *others]


@cache
def script_words(letters: str, split: Split) -> tuple[str, ...]:
    """What follows the space in tokens of these letters, given as in a regular expression."""
    form = re.compile(f" ?([{letters}]+)")
    found = (match[1] for piece in _pieces() if (match := form.fullmatch(piece)))
    return tuple(word for word in dict.fromkeys(found) if split_of(word) is split)


def aligned(text: str) -> bool:
    """Whether `text` splits into the same cores alone and after a space, so that it can be copied.

    (`_lantern` is not: it shares no token with ` lantern`.)
    """
    texts = vocab.token_bytes()
    alone, spaced = encode(text), encode(f" {text}")
    if texts[spaced[0]] == b" ":  # numbers are tokens of their own
        del spaced[0]
    return [core(texts[i]) for i in alone] == [core(texts[i]) for i in spaced]


def _made_up(rng: Random, split: Split) -> str:
    while True:
        syllables = (rng.choice(_ONSETS) + rng.choice(_VOWELS) for _ in range(rng.randint(2, 3)))
        word = "".join(syllables)
        word = word.capitalize() if rng.random() < 0.6 else word
        if split_of(word) is split and aligned(word) and len(encode(word)) <= 4:
            return word


def _phrase(rng: Random, split: Split) -> str:
    count = rng.choice((1, 1, 1, 2, 2, 3, 4))
    return " ".join(rng.choice(words(split)) for _ in range(count))


def _title(rng: Random, split: Split) -> str:
    return " ".join(rng.choice(names(split)) for _ in range(rng.choice((1, 1, 2, 2, 3))))


def _code(rng: Random, split: Split) -> str:
    return f"{rng.choice(words(split))}{rng.choice('-_')}{rng.randint(1, 999)}"


def _date(rng: Random, split: Split) -> str:
    del split
    return f"{rng.randint(2019, 2030)}-{rng.randint(1, 12):02}-{rng.randint(1, 28):02}"


def _time(rng: Random, split: Split) -> str:
    del split
    return f"{rng.randint(0, 23):02}:{rng.randint(0, 59):02}"


def _address(rng: Random, split: Split) -> str:
    return f"{rng.choice(words(split))}@{rng.choice(words(split))}.com"


_TEXTS: tuple[tuple[int, Callable[[Random, Split], str]], ...] = (
    (40, _phrase),
    (30, _title),
    (14, _made_up),
    (6, _code),
    (4, _date),
    (3, _time),
    (3, _address),
)


def text_value(rng: Random, split: Split) -> str:
    """A value of one to four words or tokens, of the kinds that people's arguments have."""
    weights, makers = zip(*_TEXTS, strict=True)
    while True:
        value: str = rng.choices(makers, weights)[0](rng, split)
        if aligned(value):
            return value


@cache
def may_stand_apart(word: str) -> bool:
    """Whether a word may stand before a sentence or a name and be no part of it: Hence, Often."""
    words, tags = lexicon()
    mine = {tags[number] for number in words.get(word.lower(), ())}
    return bool(mine & _APART) and not mine & _FOREIGN


def person(rng: Random, split: Split) -> str:
    """A name of one or two words."""
    return " ".join(rng.choice(names(split)) for _ in range(rng.choice((1, 1, 2))))
