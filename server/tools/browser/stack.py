"""The pages of one conversation: an append-only stack, whose indices are the model's cursors."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from server.tools.base import Citation
from server.tools.browser.lines import MATCH_LINES, link_at, wrap
from server.tools.browser.page import Page, page_from_json

MOST_STORED = 512 * 1024
"""Characters of pages that are stored with an answer. Older pages keep their URL and title only."""
MOST_OPEN = 2 << 20
"""Characters of pages in memory while an answer runs."""
_VERSION = 1

Kind = Literal["search", "page", "find"]


class NoSuchPage(Exception):
    """The cursor leads to no page. The message is for the model."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One display of a page.

    titles: of a search page, the title of each link. lines: of a find page, the line of each match.
    source: of a find page, the cursor of the page that was searched, else -1. is_markup: whether
    the page's source is shown, as the model asked by `view_source`.
    """

    page: Page
    kind: Kind
    titles: tuple[str, ...] = ()
    lines: tuple[int, ...] = ()
    source: int = -1
    is_markup: bool = False

    @property
    def is_dropped(self) -> bool:
        """Whether the text is no longer there."""
        return not self.page.text


class PageStack:
    """The displays so far."""

    def __init__(self, state: Mapping[str, Any] | None = None) -> None:
        self._entries: list[Entry] = []
        self._lines: dict[int, list[str]] = {}  # of pages of results that were cited
        if state is not None and state.get("version") == _VERSION:
            pages = [page_from_json(page) for page in state["pages"]]
            for entry in state["stack"]:
                self._entries.append(_entry_from_json(entry, pages))

    def __len__(self) -> int:
        return len(self._entries)

    def push(self, entry: Entry) -> int:
        """The cursor of the new entry. Old texts are dropped where all together are too large."""
        self._lines.clear()
        self._entries.append(entry)
        self._entries = list(_within(self._entries, MOST_OPEN))
        return len(self._entries) - 1

    def get(self, cursor: int) -> tuple[int, Entry]:
        """The cursor, with -1 resolved to the last one, and its entry. Raises NoSuchPage."""
        if not self._entries:
            raise NoSuchPage("No pages to access!")
        last = len(self._entries) - 1
        if cursor == -1:
            cursor = last
        if not 0 <= cursor <= last:
            raise NoSuchPage(
                f"Cursor `{cursor}` is out of range. Available cursor indices: [0 - {last}]."
            )
        return cursor, self._entries[cursor]

    def renew(self, cursor: int, page: Page) -> None:
        """Replace the page of an entry whose text was dropped."""
        self._entries[cursor] = replace(self._entries[cursor], page=page)

    def cite(self, cursor: int, line: int | None = None) -> Citation | None:
        """The source behind a citation marker.

        For a page of search results it is the result at the line; for a page of find results, what
        the line that was found is cited as. None where there is no source.
        """
        if not 0 <= cursor < len(self._entries):
            return None
        entry = self._entries[cursor]
        if entry.kind == "page":
            return Citation(entry.page.url, entry.page.title)
        if entry.kind == "find":
            return self.cite(entry.source, None if line is None else self._found(cursor, line))
        link = None if line is None else self._link_at(cursor, line)
        return None if link is None else Citation(entry.page.links[link[0]], entry.titles[link[0]])

    def _found(self, cursor: int, line: int) -> int | None:
        """The line of the searched page that a line of find results shows; None if it shows none.

        The lines of a match stand below its link.
        """
        link = self._link_at(cursor, line)
        if link is None:
            return None
        match, first = link
        below = min(max(line - first - 1, 0), MATCH_LINES - 1)
        return self._entries[cursor].lines[match] + below

    def _link_at(self, cursor: int, line: int) -> tuple[int, int] | None:
        """The link that a line of results belongs to: its id and line; None if there is none."""
        page = self._entries[cursor].page
        lines = self._lines.get(cursor)
        if lines is None:
            lines = self._lines[cursor] = wrap(page.text)
        link = link_at(lines, line)
        return link if link is not None and link[0] < len(page.links) else None

    def to_json(self) -> dict[str, Any] | None:
        """The stack as JSON, bounded; None if it is empty."""
        if not self._entries:
            return None
        numbers: dict[int, int] = {}
        pages: list[Page] = []
        stack = []
        for entry in _within(self._entries, MOST_STORED):
            if id(entry.page) not in numbers:
                numbers[id(entry.page)] = len(pages)
                pages.append(entry.page)
            stack.append(_entry_to_json(entry, numbers[id(entry.page)]))
        return {
            "version": _VERSION,
            "pages": [page.to_json() for page in pages],
            "stack": stack,
        }


def _within(entries: list[Entry], limit: int) -> Iterator[Entry]:
    """The entries, the older ones without their texts where those exceed the limit."""
    counted: set[int] = set()
    dropped: dict[int, Page] = {}
    used = 0
    for entry in reversed(entries):
        page = entry.page
        if id(page) in counted or id(page) in dropped:
            continue
        used += page.characters
        if used > limit and entry is not entries[-1]:
            dropped[id(page)] = Page(page.url, page.title, "")
        else:
            counted.add(id(page))
    for entry in entries:
        yield replace(entry, page=dropped.get(id(entry.page), entry.page))


def _entry_to_json(entry: Entry, page: int) -> dict[str, Any]:
    return {
        "page": page,
        "kind": entry.kind,
        "titles": list(entry.titles),
        "lines": list(entry.lines),
        "source": entry.source,
        "is_markup": entry.is_markup,
    }


def _entry_from_json(data: Mapping[str, Any], pages: list[Page]) -> Entry:
    return Entry(
        pages[data["page"]],
        data["kind"],
        tuple(data["titles"]),
        tuple(data["lines"]),
        data["source"],
        data.get("is_markup", False),
    )
