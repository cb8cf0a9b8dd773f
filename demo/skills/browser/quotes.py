"""Which words of a display answer a question: a few consecutive ones of the line that fits best."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from demo.skills.browser.display import Display, without_links

MOST_WORDS = 10
_FEWEST_WORDS = 4
_FIRST_LINE = 2
_WEAK_TEXT = """
set sets setting settings configure configured configuring turn turned change changed make made run
running runs serve serves add added choose chosen start started stop stopped keep kept take taken
happen happens option way thing default new several possible allowed
"""
_WEAK = frozenset(_WEAK_TEXT.split())
_PART = re.compile(r"(?<=[.:!?])\s+|\s*\|\s*|\s*…\s*|(?:^|(?<=\s)|\s+)(?:#+|\*|-|>)\s+")
_ITEM = re.compile(r"^  \* 【[^】]*】")


@dataclass(frozen=True, slots=True)
class Quote:
    """Words of a line. score: how many of the question's words these hold. whole: the line."""

    text: str
    line: int
    score: int
    whole: str

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
    if number < _FIRST_LINE or line.startswith(("#", "URL:")) or not holds(line, words):
        return None
    best: Quote | None = None
    for text in quotable(line):
        score = holds(text, words)
        if score and (best is None or score > best.score):
            best = Quote(text, number, score, line)
    return best


def quotable(line: str) -> list[str]:
    """What can be quoted of a line: the first ten words of each of its parts."""
    parts = [part.split()[:MOST_WORDS] for part in _PART.split(without_links(_ITEM.sub("", line)))]
    return [" ".join(part).rstrip(".,:;!?") for part in parts if len(part) >= _FEWEST_WORDS]


def holds(text: str, words: Sequence[str]) -> int:
    """How many of the words a text holds."""
    return len(held_words(text, words))


def held_words(text: str, words: Sequence[str]) -> list[str]:
    """Those of the words that a text holds."""
    there = {stem(word) for word in re.findall(r"\w+", text)}
    return [word for word in words if {stem(part) for part in re.findall(r"\w+", word)} <= there]


def stem(word: str) -> str:
    """A word in lower case, without what marks a plural."""
    return word.lower().removesuffix("s")


def ranked(display: Display, words: Sequence[str]) -> list[Quote]:
    """The lines that say something about the words, the best one first.

    Of two lines with as many of the words the one is better that has more of them with its
    neighbours, then the one that has them in the same form, then the one with rarer words, then
    the first one.
    """
    held = [_held(display, number, words) for number in range(len(display.lines))]
    often = Counter(word for one in held for word in one)
    found: list[tuple[tuple[int, int, int, float], Quote]] = []
    for number in range(display.start, display.end):
        one = in_line(display.lines[number], number, words)
        if one is not None:
            mine = held[number]
            near = {*held[number - 1], *mine, *(held[number + 1 : number + 2] or [[]])[0]}
            same = sum(word in one.whole for word in mine)
            worth = len(mine), len(near), same, sum(_weight(word) / often[word] for word in mine)
            found.append((worth, one))
    found.sort(key=lambda pair: pair[0], reverse=True)
    return [one for _, one in found]


def _weight(word: str) -> float:
    """How much a word counts where two lines have as many: what is done counts less."""
    return 0.5 if word.lower() in _WEAK else 1


def _held(display: Display, number: int, words: Sequence[str]) -> list[str]:
    """The words that a line in view holds."""
    is_text = max(display.start, _FIRST_LINE) <= number < display.end
    return held_words(display.lines[number], words) if is_text else []


def stating(display: Display, sentence: str, value: str, words: Sequence[str]) -> Quote | None:
    """The words of a display that are of a sentence and tell the value; None if unclear.

    It is unclear where another line has more of the words than the sentence's.
    """
    sentence = sentence.rstrip(".")
    mine: list[Quote] = []
    others = 0
    for number in range(max(display.start, _FIRST_LINE), display.end):
        line = display.lines[number]
        if line.startswith(("#", "URL:")):
            continue
        of_it = [text for text in quotable(line) if text in sentence]
        if of_it:
            mine += [Quote(text, number, holds(text, words), line) for text in of_it]
        else:
            others = max(others, holds(line, words))
    told = [one for one in mine if value in one.text or sentence.startswith("|")]
    if not told:
        return None
    best = max(told, key=lambda one: one.score)
    return best if best.score and holds(best.whole, words) >= others else None
