"""The texts that a summary must not quote: instructions and results of tools."""

import re
import threading
import unicodedata
from collections import deque
from collections.abc import Iterable, Iterator

from server import threads

_CJK = r"\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
_WORD = re.compile(rf"[{_CJK}]|[^\W{_CJK}]+")
# Unicode's property Default_Ignorable_Code_Point, and the marks of annotations.
_INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
_LATER_JAMO = re.compile("[\u1160-\u11ff]")  # vowels and finals of Hangul syllables
_TERM = re.compile(r"[\w!#$%&*+./:=?@^~-]+")
_BETWEEN_TERMS = re.compile(r"[/:=&?#*]+")
_ENDS = "!#$%&*+./:=?^_~-"
LEAST_TERM = 8
"""Characters from which on a term with letters and digits may be a secret."""
LEAST_NUMBER = 6
"""Digits from which on a number may be a secret."""
_PIECE = 256  # characters: the time for a run of combining marks is quadratic


def plain(text: str) -> str:
    """The text in lower case and compatible form, without characters that are not visible."""
    # First, as an invisible character keeps a letter and its mark from becoming one character.
    visible = _INVISIBLE.sub("", text)
    return "".join(unicodedata.normalize("NFKC", piece) for piece in _pieces(visible)).casefold()


def _pieces(text: str) -> Iterator[str]:
    """The text in short pieces. Where equal runs of marks are cut depends on the runs only."""
    start = 0
    while start < len(text):
        end = min(start + _PIECE, len(text))
        if end < len(text):
            end = next((cut for cut in range(end, start, -1) if _is_apart(text[cut])), end)
        yield text[start:end]
        start = end


def _is_apart(character: str) -> bool:
    """Whether no form of a character is composed or reordered with what is before it."""
    if character.isascii():
        return True
    # Characters that are no marks may have forms that begin with one, such as U+FF9E.
    first = unicodedata.normalize("NFKD", character)[0]
    return not unicodedata.category(first).startswith("M") and not _LATER_JAMO.match(first)


def words(plain_text: str) -> list[str]:
    """The words without punctuation. Each Chinese, Japanese or Korean character is a word."""
    return _WORD.findall(plain_text)


def spaced(terms: Iterable[str]) -> str:
    """The words with a space before and after each, so that a run of them is a substring."""
    return f" {' '.join(terms)} "


def distinctive_terms(plain_text: str) -> Iterator[str]:
    """The terms that may be a secret or an address of a person.

    Terms of at least `LEAST_TERM` characters with letters and digits, numbers of at least
    `LEAST_NUMBER` digits, and e-mail addresses.
    """
    for found in _TERM.findall(plain_text):
        parts = _BETWEEN_TERMS.split(found)
        for part in dict.fromkeys((found, *parts)):
            term = part.strip(_ENDS)
            if _is_distinctive(term):
                yield term


def _is_distinctive(term: str) -> bool:
    if term.isdigit():
        return len(term) >= LEAST_NUMBER
    has_both = any(map(str.isdigit, term)) and any(map(str.isalpha, term))
    return "@" in term[1:-1] or (has_both and len(term) >= LEAST_TERM)


class Sources:
    """Instructions and results of tools, and what a summary has in common with them.

    Adding a text is cheap. The first check after it reads the text as a whole. Several threads may
    check at once, while another one adds texts.
    """

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self._unread = deque(texts)
        self._reading = threading.Lock()
        self._read: list[str] = []
        self._runs: list[str] = []
        self.size = sum(map(len, self._unread))
        """Characters of all texts."""

    def add(self, text: str) -> None:
        """Add a text."""
        self._unread.append(text)
        self.size += len(text)

    def has_run(self, terms: list[str], length: int) -> bool:
        """Whether a text has `length` of the words in a row, or consists of such a row.

        terms: the words of a summary.
        """
        self._read_all()
        whole = spaced(terms)
        if any(_is_short(run, length) and run in whole for run in self._runs):
            return True
        starts = range(len(terms) - length + 1)
        windows = [spaced(terms[start : start + length]) for start in starts]
        return any(window in run for run in self._runs for window in windows)

    def has_term(self, term: str) -> bool:
        """Whether a text contains a term, which is plain."""
        self._read_all()
        return any(term in text for text in self._read)

    def _read_all(self) -> None:
        if not self._unread:
            return
        with threads.waiting():
            self._reading.acquire()
        try:
            while self._unread:
                text = plain(self._unread[0])
                self._read.append(text)
                self._runs.append(spaced(words(text)))
                # Last, as a check that finds no unread text does not wait.
                self._unread.popleft()
        finally:
            self._reading.release()


def _is_short(run: str, length: int) -> bool:
    """Whether a text has fewer than `length` words, and at least three."""
    return 3 <= run.count(" ") - 1 < length
