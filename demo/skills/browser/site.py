"""Pages that can be searched, as the server's index searches them, and a browser's session."""

import re
import sqlite3
from collections.abc import Sequence
from functools import cached_property

from demo.skills.browser.display import Display, Page, find_page, results_page, show
from demo.skills.case import hosted_call, hosted_result
from demo.skills.forms import compact
from harmony.messages import Message

LINES = 20
"""How many lines of a page are asked for."""
RESULTS = 3
_SNIPPET_WORDS = 40
_STOP_TEXT = """
a an and are as at be by can do does for from has have how i if in is it its me my of on or s so t
that the their there this to was what when where which who why will with you your
"""
_STOPS = frozenset(_STOP_TEXT.split())
"""The words that the server leaves out of a search."""
_EMPTY_TEXT = """
about tell please know find look up say says page read open use used work works show give search
same results further down rest need want get could would should much many long
"""
_EMPTY = frozenset(_EMPTY_TEXT.split())
"""Other words of a question that say nothing of its subject."""


def telling(question: str) -> list[str]:
    """The words of a question that say what it is about, in order."""
    words = dict.fromkeys(re.findall(r"\w+(?:[-.:]\w+)*", question))
    return [word for word in words if is_telling(word)]


def is_telling(word: str) -> bool:
    """Whether a search for the word makes sense."""
    return word.lower() not in _STOPS and word.lower() not in _EMPTY


class Site:
    """Pages with a full-text index."""

    def __init__(self, pages: Sequence[Page]) -> None:
        self.pages = tuple(pages)

    @cached_property
    def _database(self) -> sqlite3.Connection:
        database = sqlite3.connect(":memory:", check_same_thread=False)
        database.execute(
            "CREATE VIRTUAL TABLE pages USING fts5(title, body, "
            "tokenize = 'porter unicode61 remove_diacritics 2')"
        )
        database.execute("INSERT INTO pages(pages, rank) VALUES ('rank', 'bm25(4.0, 1.0)')")
        database.executemany(
            "INSERT INTO pages (rowid, title, body) VALUES (?, ?, ?)",
            ((number, page.title, page.body) for number, page in enumerate(self.pages)),
        )
        return database

    def search(self, query: str, count: int = RESULTS) -> list[tuple[Page, str]]:
        """The pages with words of the query, best first, each with the text around the words."""
        words = dict.fromkeys(re.findall(r"\w+", query.lower()))
        match = " OR ".join(f'"{word}"' for word in words if word not in _STOPS)
        rows = self._database.execute(
            "SELECT rowid, snippet(pages, 1, '', '', ' … ', ?) FROM pages "
            "WHERE pages MATCH ? ORDER BY rank LIMIT ?",
            (_SNIPPET_WORDS, match, count),
        )
        return [(self.pages[number], text) for number, text in rows]


class Session:
    """The displays of one conversation. Each method returns the call, its result and the display.

    first: the cursor of the first display.
    """

    def __init__(self, site: Site, first: int = 0) -> None:
        self.site = site
        self.displays: list[Display] = []
        self._next = first

    def search(self, query: str) -> tuple[Message, Message, Display]:
        """Search for `query`."""
        page = results_page(query, self.site.search(query))
        arguments = compact({"query": query, "topn": RESULTS})
        return self._shown("search", arguments, show(self._next, page))

    def open(self, target: int | str) -> tuple[Message, Message, Display]:
        """Open a link of the last display, or a URL."""
        url = target if isinstance(target, str) else self.displays[-1].page.links[target]
        page = next(page for page in self.site.pages if page.url == url)
        arguments = compact({"id": target, "num_lines": LINES})
        return self._shown("open", arguments, show(self._next, page, 0, LINES))

    def scroll(self) -> tuple[Message, Message, Display]:
        """Show what follows the last display."""
        last = self.displays[-1]
        arguments = compact({"loc": last.end, "num_lines": LINES})
        return self._shown("open", arguments, show(self._next, last.page, last.end, LINES))

    def find(self, pattern: str) -> tuple[Message, Message, Display, list[int]]:
        """Find a pattern on the page of the last display; also the lines of the matches."""
        page, lines = find_page(self.displays[-1].page, pattern)
        arguments = compact({"pattern": pattern})
        return *self._shown("find", arguments, show(self._next, page)), lines

    def _shown(
        self, name: str, arguments: str, display: Display
    ) -> tuple[Message, Message, Display]:
        self.displays.append(display)
        self._next += 1
        recipient = f"browser.{name}"
        return (
            hosted_call(recipient, arguments),
            hosted_result(recipient, display.text),
            display,
        )
