"""Colours for code, within a time limit.

The time that some lexers of Pygments take grows with the square of the text's length.
"""

import time
from collections.abc import Iterable, Iterator
from html import escape
from typing import Any

import pygments
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name
from pygments.util import ClassNotFound

MAX_HIGHLIGHTED = 20_000
"""Characters of code that is highlighted. Longer code is shown without colours."""
SECONDS = 0.5
"""The processor time for all code of a request. Most pages of code take some milliseconds."""

_FORMATTER = HtmlFormatter(nowrap=True, classprefix="hl-")


class Highlighter:
    """Makes HTML of code, with colours until its time is used up.

    seconds: of processor time, for all code together.
    """

    def __init__(self, seconds: float = SECONDS) -> None:
        self._left = seconds

    def html(self, text: str, language: str) -> str:
        """`text` with the colours of `language`, as `<span>` elements with classes; else escaped.

        Code of an unknown language has no colours, nor has code for which the time is too short.
        """
        if self._left <= 0 or len(text) > MAX_HIGHLIGHTED or not language:
            return escape(text)
        try:
            lexer = get_lexer_by_name(language, stripnl=False)
        except ClassNotFound:
            return escape(text)
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
