"""Words that belong together, by the tags of the lexicon, for training.

A kind has a fixed number of wordings, and a model with enough time knows them. Words that share a
rare tag (`dark` and `lamp`, `stove` and `oven`) are so many that they have to be understood.
"""

import re
from collections import defaultdict
from collections.abc import Mapping
from functools import cache

from demo.lexicon import lexicon
from demo.skills.words import Split, nouns, split_of
from harmony import vocab

_PARTS = frozenset({"noun", "verb", "adj", "adv"})
_FORMS = frozenset({"plural", "past_tense"})
_NEVER = frozenset((
    "german", "french", "abbreviation", "firstname", "surname", "name", "person", "company_name",
    "pronoun", "prep", "det", "aux", "conj", "negation", "number_word", "numword", "religion",
    "gender", "program_code",
))  # fmt: skip
_MOST_OF_A_TAG = 45
_LEAST_OF_A_TAG = 3

_Form = tuple[bool, bool, str]


@cache
def _known() -> Mapping[str, frozenset[str]]:
    """The tags of the words that training may use: plain English, and one token after a space."""
    pieces, (words, tags) = set(vocab.token_bytes()), lexicon()
    named = {word: frozenset(tags[number] for number in words[word]) for word in words}
    return {
        word: mine
        for word, mine in named.items()
        if re.fullmatch("[a-z]{3,14}", word)
        and f" {word}".encode() in pieces
        and split_of(word) is Split.TRAIN
        and not mine & _NEVER
    }


@cache
def _members() -> Mapping[str, tuple[str, ...]]:
    """The words of each tag that says something."""
    found: dict[str, list[str]] = defaultdict(list)
    for word, tags in _known().items():
        for tag in sorted(tags - _PARTS - _FORMS):
            found[tag].append(word)
    return {
        tag: tuple(words)
        for tag, words in found.items()
        if _LEAST_OF_A_TAG <= len(words) <= _MOST_OF_A_TAG
    }


def _form(word: str) -> _Form:
    tags = _known()[word]
    ending = next((e for e in ("ing", "ly", "est", "ed") if word.endswith(e)), "")
    if "verb" in tags and "noun" not in tags and word.endswith("s"):
        ending = "s"
    return "plural" in tags, "past_tense" in tags, ending


@cache
def related(word: str) -> tuple[str, ...]:
    """Words in the same form that share a rare tag and a part of speech with `word`."""
    if word not in _known():
        return ()
    tags, form = _known()[word], _form(word)
    found = [
        other
        for tag in sorted(tags & _members().keys())
        for other in _members()[tag]
        if other != word and _form(other) == form and tags & _known()[other] & _PARTS
    ]
    return tuple(found)


@cache
def topics(word: str) -> frozenset[str]:
    """The tags that say what a word is about."""
    return _known().get(word, frozenset()) & _members().keys()


@cache
def themes() -> tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]:
    """For each tag with enough nouns: those that names may have, and all of them."""
    tokens = frozenset(nouns(Split.TRAIN))
    made: list[tuple[tuple[str, ...], tuple[str, ...]]] = []
    for words in _members().values():
        things = tuple(w for w in words if "noun" in _known()[w] and not w.endswith("ing"))
        short = tuple(word for word in things if word in tokens)
        if short and len(things) >= _LEAST_OF_A_TAG:
            made.append((short, things))
    return tuple(made)


@cache
def deeds() -> tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]:
    """As `themes`, for verbs in their base form."""
    tokens = frozenset(nouns(Split.TRAIN))
    made: list[tuple[tuple[str, ...], tuple[str, ...]]] = []
    for words in _members().values():
        verbs = tuple(w for w in words if "verb" in _known()[w] and _base(w))
        short = tuple(word for word in verbs if word in tokens)
        if short and len(verbs) >= _LEAST_OF_A_TAG:
            made.append((short, verbs))
    return tuple(made)


def _base(word: str) -> bool:
    tags = _known()[word]
    return not tags & _FORMS and not word.endswith(("ing", "ed", "s"))
