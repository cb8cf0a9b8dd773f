"""Pages that can be searched, as the server's index searches them, and a browser's session."""

import re
import sqlite3
from collections.abc import Iterator, Sequence
from functools import cached_property

from demo.skills.browser.display import Display, Page, find_page, results_page, show
from demo.skills.case import hosted_call, hosted_result
from demo.skills.forms import compact
from harmony.messages import Message

LINES = 20
"""How many lines of a page are asked for."""
RESULTS = 3
_SNIPPET_WORDS = 40
_HEADING = re.compile(r"(#{1,6}) +(.+)")
_MOST_CHARACTERS = 1200
_MOST_HEADING = 200
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


def sections(body: str) -> Iterator[tuple[str, str]]:
    """The sections of a page, each with the headings that it is under."""
    # As `server.tools.browser.search.sections` divides pages, which a test compares.
    headings: dict[int, str] = {}
    lines: list[str] = []
    size = 0
    is_code = False
    for line in body.split("\n"):
        is_code ^= line.lstrip().startswith("```")
        heading = None if is_code else _HEADING.match(line)
        is_long = size > _MOST_CHARACTERS and not (is_code or line.strip())
        if (heading or is_long) and size:
            yield " ".join(headings.values()), "\n".join(lines).strip()
            lines, size = [], 0
        if heading:
            level = len(heading[1])
            headings = {k: text for k, text in headings.items() if k < level}
            headings[level] = heading[2][:_MOST_HEADING]
        lines.append(line)
        size += len(line.strip())
    yield " ".join(headings.values()), "\n".join(lines).strip()


class Site:
    """Pages with a full-text index."""

    def __init__(self, pages: Sequence[Page]) -> None:
        self.pages = tuple(pages)
        self._last: tuple[tuple[str, int], list[tuple[Page, str]]] = ("", 0), []

    @cached_property
    def _database(self) -> sqlite3.Connection:
        database = sqlite3.connect(":memory:", check_same_thread=False)
        database.execute(
            "CREATE VIRTUAL TABLE sections USING fts5(page UNINDEXED, title, heading, body, "
            "tokenize = 'porter unicode61 remove_diacritics 2')"
        )
        database.execute(
            "INSERT INTO sections(sections, rank) VALUES ('rank', 'bm25(0.0, 2.0, 4.0, 1.0)')"
        )
        database.executemany(
            "INSERT INTO sections VALUES (?, ?, ?, ?)",
            (
                (number, page.title, heading, text)
                for number, page in enumerate(self.pages)
                for heading, text in sections(page.body)
            ),
        )
        return database

    def search(self, query: str, count: int = RESULTS) -> list[tuple[Page, str]]:
        """The pages with words of the query, best first, each with the text around the words."""
        if self._last[0] != (query, count):
            self._last = (query, count), self._search(query, count)
        return self._last[1]

    def _search(self, query: str, count: int) -> list[tuple[Page, str]]:
        words = dict.fromkeys(re.findall(r"\w+", query.lower()))
        match = " OR ".join(f'"{word}"' for word in words if word not in _STOPS)
        rows = self._database.execute(
            "SELECT page, snippet(sections, 3, '', '', ' … ', ?) FROM sections "
            "WHERE sections MATCH ? ORDER BY rank",
            (_SNIPPET_WORDS, match),
        )
        found: dict[int, str] = {}
        for number, text in rows:
            found.setdefault(number, text)
            if len(found) == count:
                break
        return [(self.pages[number], text) for number, text in found.items()]


class Session:
    """The displays of one conversation. Each method returns the call, its result and the display.

    first: the cursor of the first display.
    """

    def __init__(self, site: Site, first: int = 0) -> None:
        self.site = site
        self.displays: list[Display] = []
        self._next = first

    def search(self, query: str) -> tuple[Message, Message, Display]:
        """Search for `query`.

        A space before it makes its words the tokens that they are in the question.
        """
        page = results_page(query, self.site.search(query))
        arguments = compact({"query": f" {query}", "topn": RESULTS})
        return self._shown("search", arguments, show(self._next, page))

    def look(self, words: Sequence[str]) -> Display:
        """What a search for the words would show, without being part of the conversation."""
        query = " ".join(words)
        return show(self._next, results_page(query, self.site.search(query)))

    def back_to(self, count: int) -> None:
        """Forget all displays but the first `count`."""
        self._next -= len(self.displays) - count
        del self.displays[count:]

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
