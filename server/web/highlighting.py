"""Colours for code of some languages, within a time limit.

The time that lexers of Pygments take may grow with the square of the text's length. Where a single
token takes so long, no time limit helps: a match of a regular expression keeps the interpreter
until its end, which may be half a minute. Therefore only measured languages have colours.
"""

import time
from collections.abc import Iterable, Iterator
from html import escape
from typing import Any

import pygments
from pygments.formatters import HtmlFormatter
from pygments.lexers import find_lexer_class_by_name
from pygments.util import ClassNotFound

MAX_HIGHLIGHTED = 20_000
"""Characters of code that is highlighted. Longer code is shown without colours."""
SECONDS = 0.5
"""The processor time for all code of a request. Most pages of code take some milliseconds."""

LANGUAGES = frozenset(
    (
        *("bash", "c", "cpp", "csharp", "css", "go", "html", "java", "javascript", "json", "jsx"),
        *("kotlin", "php", "pycon", "python", "ruby", "rust", "scss", "sql", "swift", "toml"),
        *("tsx", "typescript", "xml", "yaml"),
    )
)
"""The first names of lexers that go from one token to the next within some milliseconds, also in
hostile texts, as `python -m benchmarks.highlighting` measures it. A lexer that takes others by
their names, such as that of Markdown, cannot be one of them."""

_FORMATTER = HtmlFormatter(nowrap=True, classprefix="hl-")


class Highlighter:
    """Makes HTML of code, with colours until its time is used up.

    seconds: of processor time, for all code together.
    """

    def __init__(self, seconds: float = SECONDS) -> None:
        self._left = seconds

    def html(self, text: str, language: str) -> str:
        """`text` with the colours of `language`, as `<span>` elements with classes; else escaped.

        Code of other than `LANGUAGES` has no colours, nor has code for which the time is too short.
        """
        if self._left <= 0 or len(text) > MAX_HIGHLIGHTED or not language:
            return escape(text)
        try:
            lexer_class = find_lexer_class_by_name(language)
        except ClassNotFound:
            return escape(text)
        if lexer_class.aliases[0] not in LANGUAGES:
            return escape(text)
        lexer = lexer_class(stripnl=False)
        began = time.thread_time()
        try:
            tokens = _until(began + self._left, lexer.get_tokens(text))
            return str(pygments.format(tokens, _FORMATTER))
        except _TimeIsUp:
            return escape(text)
        finally:
            self._left -= time.thread_time() - began


class _TimeIsUp(Exception):
    pass


def _until(end: float, tokens: Iterable[Any]) -> Iterator[Any]:
    for token in tokens:
        if time.thread_time() > end:
            raise _TimeIsUp
        yield token
