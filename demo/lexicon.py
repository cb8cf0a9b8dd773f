"""What words mean, as far as a small model needs it: tags of a hand-made lexicon.

`data/lexicon.txt` has a line for each word: the word, then its tags, among them its part of speech.
Words of like meaning share tags, so that the model understands a word that no training text has.
The file belongs to the weights as the vocabulary does. It may grow at its end alone: tags are
numbered in the order in which they first occur.
"""

from functools import cache
from importlib import resources

MOST = 8
"""How many tags a word has at most; what is beyond them is left out."""


@cache
def text() -> str:
    """The lexicon's file."""
    return resources.files("demo").joinpath("data", "lexicon.txt").read_text("utf-8")


@cache
def lexicon() -> tuple[dict[str, tuple[int, ...]], tuple[str, ...]]:
    """The numbers of each word's tags, and the names of all tags."""
    numbers: dict[str, int] = {}
    words: dict[str, tuple[int, ...]] = {}
    for line in text().splitlines():
        word, *tags = line.split()
        words[word] = tuple(numbers.setdefault(tag, len(numbers)) for tag in tags[:MOST])
    return words, tuple(numbers)
