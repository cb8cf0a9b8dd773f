"""Which words of a display answer a question: a few consecutive ones of the line that fits best."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from demo.skills.browser.display import Display, without_links

MOST_WORDS = 10
_FEWEST_WORDS = 4
_PART = re.compile(r"(?<=[.:!?])\s+|\s*\|\s*|\s*…\s*|(?:^|(?<=\s)|\s+)(?:#+|\*|-|>)\s+")
_ITEM = re.compile(r"^  \* 【[^】]*】")


@dataclass(frozen=True, slots=True)
class Quote:
    """Words of a line. score: how many of the question's words the line holds."""

    text: str
    line: int
    score: int

    def cited(self, cursor: int) -> str:
        """The answer: the words and the marker of their source."""
        return f"{self.text} 【{cursor}†L{self.line}】."


def quote(display: Display, words: Sequence[str]) -> Quote | None:
    """What the display says about the words; None if it says nothing that can be quoted."""
    best: Quote | None = None
    for number in range(display.start, display.end):
        found = in_line(display.lines[number], number, words)
        if found and (best is None or found.score > best.score):
            best = found
    return best


def in_line(line: str, number: int, words: Sequence[str]) -> Quote | None:
    """The part of a line that holds most of the words, up to ten words from its beginning."""
    if number < 2 or line.startswith(("#", "URL:")) or not holds(line, words):
        return None
    best: Quote | None = None
    for part in _PART.split(without_links(_ITEM.sub("", line))):
        parts = part.split()[:MOST_WORDS]
        text = " ".join(parts).rstrip(".,:;!?")
        score = holds(text, words)
        if len(parts) >= _FEWEST_WORDS and score and (best is None or score > best.score):
            best = Quote(text, number, score)
    return best


def holds(text: str, words: Sequence[str]) -> int:
    """How many of the words a text holds."""
    there = {stem(word) for word in re.findall(r"\w+", text)}
    return sum({stem(part) for part in re.findall(r"\w+", word)} <= there for word in words)


def stem(word: str) -> str:
    """A word in lower case, without what marks a plural."""
    return word.lower().removesuffix("s")
