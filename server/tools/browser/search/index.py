"""A full-text index of a folder of documents, in SQLite (FTS5).

Sections are indexed rather than whole documents: so a document is found by the part that says what
is asked for, and that part is what the model reads of it first.
The index follows the folder: files whose time or size changed are read again, and indexed again if
their content changed. All methods block; callers use threads.
"""

import asyncio
import hashlib
import logging
import os
import re
import sqlite3
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from server.tools.browser import pdf
from server.tools.browser.lines import without_links
from server.tools.browser.page import Page, make_page, one_line
from server.tools.browser.page_process import PageProcesses
from server.tools.browser.search.sections import Section, sections
from server.tools.fetch.errors import UnsupportedBody
from server.tools.fetch.pages import PDF, FetchedPage
from server.tools.file_names import is_utf8

logger = logging.getLogger(__name__)

MOST_FILES = 50_000
MOST_BYTES = 5 << 20
_MOST_WORDS = 32
_SNIPPET_WORDS = 40
_MOST_SUMMARY = 600
_COMMIT_SECONDS = 0.2
_STOP_SECONDS = 0.1
"""How often it is asked during a conversion whether the refresh is to end."""
_SECTION_BITS = 16
"""A section's row id is the file's, and in so many bits below it its place in the file."""
_COMMON_TEXT = """
a an and are as at be by can do does for from has have how i if in is it its me my of on or s so t
that the their there this to was what when where which who why will with you your
"""
_COMMON = frozenset(_COMMON_TEXT.split())
"""Words that say nothing of what is looked for."""
_VERSION = 3
_COMPLETE = 1
_MARKDOWN = "text/markdown"
TYPES = {
    ".md": _MARKDOWN,
    ".markdown": _MARKDOWN,
    ".html": "text/html",
    ".htm": "text/html",
    ".txt": "text/plain",
    ".text": "text/plain",
    ".rst": "text/plain",
    ".pdf": PDF,
}
"""The media type of a file, by its suffix in lower case; others are not indexed."""
_SCHEMA = (
    "DROP TABLE IF EXISTS files",
    "DROP TABLE IF EXISTS pages",
    "DROP TABLE IF EXISTS sections",
    "CREATE TABLE files (id INTEGER PRIMARY KEY, path TEXT UNIQUE NOT NULL, "
    "modified INTEGER NOT NULL, size INTEGER NOT NULL, hash BLOB NOT NULL)",
    "CREATE VIRTUAL TABLE sections USING fts5(title, heading, body, "
    "tokenize = 'porter unicode61 remove_diacritics 2')",
    "INSERT INTO sections(sections, rank) VALUES ('rank', 'bm25(2.0, 4.0, 1.0)')",
    "PRAGMA application_id = 0",
    f"PRAGMA user_version = {_VERSION}",
)
# The ranks alone come first: a snippet takes several times as long, and few sections are shown.
# With min(), SQLite takes the other columns from the row that has the minimum.
_SEARCH = f"""
WITH best AS MATERIALIZED (
    SELECT rowid AS number, min(rank) AS place FROM sections WHERE sections MATCH :match
    GROUP BY rowid >> {_SECTION_BITS} ORDER BY place LIMIT :count
)
SELECT path, title, snippet(sections, 2, '', '', ' … ', {_SNIPPET_WORDS})
FROM best CROSS JOIN sections ON sections.rowid = best.number
JOIN files ON files.id = best.number >> {_SECTION_BITS}
WHERE sections MATCH :match ORDER BY best.place
"""


@dataclass(frozen=True, slots=True)
class Hit:
    """A document that was found. path: relative to the folder, with `/`."""

    path: str
    title: str
    summary: str


class _Indexed(NamedTuple):
    """The row of an indexed file. modified: Unix nanoseconds. size: bytes. hash: SHA-256."""

    id: int
    modified: int
    size: int
    hash: bytes


class FolderIndex:
    """The index of one folder. Each thread that uses it needs an instance of its own.

    file: the database. Raises sqlite3.Error if it cannot be used.
    """

    def __init__(self, folder: Path, file: Path) -> None:
        self._folder = folder
        self._database = sqlite3.connect(file, timeout=5, check_same_thread=False)
        self._database.execute("PRAGMA journal_mode = WAL")
        self._database.execute("PRAGMA synchronous = NORMAL")
        self._database.execute("BEGIN IMMEDIATE")
        if self._database.execute("PRAGMA user_version").fetchone()[0] != _VERSION:
            for statement in _SCHEMA:
                self._database.execute(statement)
        self._database.commit()

    @property
    def is_complete(self) -> bool:
        """Whether the whole folder was indexed once, in this process or before."""
        found: int = self._database.execute("PRAGMA application_id").fetchone()[0]
        return found == _COMPLETE

    def close(self) -> None:
        """Close the database."""
        self._database.close()

    def search(self, text: str, count: int) -> list[Hit]:
        """The documents with words of the text, best first, by their best sections (BM25)."""
        words = dict.fromkeys(re.findall(r"\w+", text.lower())[:_MOST_WORDS])
        if not words:
            return []
        telling = [word for word in words if word not in _COMMON] or list(words)
        match = " OR ".join(f'"{word}"' for word in telling)
        rows = self._database.execute(_SEARCH, {"match": match, "count": count})
        return [Hit(path, title, one_line(text, _MOST_SUMMARY)) for path, title, text in rows]

    def read(self, path: str) -> bytes | None:
        """The content of an indexed file, None for any other path."""
        if not is_utf8(path):
            return None
        known = self._database.execute("SELECT 1 FROM files WHERE path = ?", (path,)).fetchone()
        return None if known is None else _content(self._folder / path)

    def refresh(self, is_stopped: Callable[[], bool] = lambda: False) -> None:
        """Bring the index up to date.

        is_stopped: asked between files, and while one is converted, whether to end early. Raises
        sqlite3.Error if the database cannot be written; the connection can be used again then.
        """
        # The connection as a context commits, or rolls back what an exception interrupted.
        with closing(_DocumentReader(is_stopped)) as reader, self._database, suppress(_Stopped):
            self._follow(reader, is_stopped)

    def _follow(self, reader: "_DocumentReader", is_stopped: Callable[[], bool]) -> None:
        """Index what changed in the folder. Raises _Stopped."""
        rows = self._database.execute("SELECT path, id, modified, size, hash FROM files")
        known = {path: _Indexed(*columns) for path, *columns in rows}
        committed = time.monotonic()
        for path, status in _documents(self._folder):
            if is_stopped():
                raise _Stopped
            old = known.pop(path, None)
            if old and (old.modified, old.size) == (status.st_mtime_ns, status.st_size):
                continue
            self._renew(reader, path, status, old)
            if time.monotonic() - committed > _COMMIT_SECONDS:  # others may write, too
                self._database.commit()
                committed = time.monotonic()
        for gone in known.values():
            self._remove(gone.id)
        if not self.is_complete:
            self._database.execute(f"PRAGMA application_id = {_COMPLETE}")

    def _renew(
        self,
        reader: "_DocumentReader",
        path: str,
        status: os.stat_result,
        old: _Indexed | None,
    ) -> None:
        """Index a document that is new, or whose time or size changed. old: its row."""
        content = _content(self._folder / path)
        if content is None:
            if old is not None:  # it could not be opened either
                self._remove(old.id)
            return
        digest = hashlib.sha256(content).digest()
        columns = (status.st_mtime_ns, status.st_size, digest)
        if old is not None and old.hash == digest:
            self._database.execute(
                "UPDATE files SET modified = ?, size = ?, hash = ? WHERE id = ?", (*columns, old.id)
            )
            return
        document = reader.read(path, content)
        if old is not None:
            self._remove(old.id)
        row = self._database.execute(
            "INSERT INTO files (path, modified, size, hash) VALUES (?, ?, ?, ?) "
            "ON CONFLICT (path) DO NOTHING RETURNING id",
            (path, *columns),
        ).fetchone()
        if row is not None:  # another process may have indexed the file meanwhile
            first = row[0] << _SECTION_BITS
            self._database.executemany(
                "INSERT INTO sections (rowid, title, heading, body) VALUES (?, ?, ?, ?)",
                (
                    (first + place, document.title, section.heading, section.text)
                    for place, section in enumerate(document.sections)
                ),
            )

    def _remove(self, file_id: int) -> None:
        first = file_id << _SECTION_BITS
        self._database.execute(
            "DELETE FROM sections WHERE rowid BETWEEN ? AND ?",
            (first, first + (1 << _SECTION_BITS) - 1),
        )
        self._database.execute("DELETE FROM files WHERE id = ?", (file_id,))


def _documents(folder: Path) -> Iterator[tuple[str, os.stat_result]]:
    """The documents below the folder. Hidden ones and symbolic links are left out.

    Names that are not UTF-8 are, too: the index stores text, and URLs have it.
    """
    count = 0
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(filter(_is_shown, folders))
        for name in sorted(filter(_is_shown, names)):
            if os.path.splitext(name)[1].lower() not in TYPES:
                continue
            path = os.path.join(place, name)
            with suppress(OSError):
                status = os.lstat(path)
                is_document = stat.S_ISREG(status.st_mode) and status.st_size <= MOST_BYTES
                if is_document and count < MOST_FILES:
                    count += 1
                    yield os.path.relpath(path, folder).replace(os.sep, "/"), status


def _is_shown(name: str) -> bool:
    return not name.startswith(".") and is_utf8(name)


def _content(path: Path) -> bytes | None:
    """The bytes of a file, None if it is gone, is a link or is too large."""
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), "rb") as file:
            content = file.read(MOST_BYTES + 1)
    except OSError:
        return None
    return content if len(content) <= MOST_BYTES else None


@dataclass(frozen=True, slots=True)
class _Document:
    """What is indexed of a document."""

    title: str
    sections: tuple[Section, ...]


class _Stopped(Exception):
    """The refresh is to end."""


class _DocumentReader:
    """Reads the documents of one refresh. The processes that convert them can be stopped.

    is_stopped: asked meanwhile, whether the refresh is to end.
    """

    def __init__(self, is_stopped: Callable[[], bool]) -> None:
        self._is_stopped = is_stopped
        self._processes = PageProcesses()
        self._runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)

    def read(self, path: str, content: bytes) -> _Document:
        """The title and the sections; the name alone if the document cannot be read.

        Raises _Stopped.
        """
        try:
            page = self._page(path, content)
            body = without_links(page.text.split("\n", 2)[-1])  # without the URL
            return _Document(page.title, tuple(sections(body, 1 << _SECTION_BITS)))
        except _Stopped:
            raise
        except (pdf.UnreadablePdf, UnsupportedBody) as error:
            logger.info("a document is indexed by its name alone: %s", error)
        except Exception as error:  # one document must not end the indexing of all others
            logger.warning("a document is indexed by its name alone: %s", type(error).__name__)
        return _Document(Path(path).name, tuple(sections("", 1)))

    def close(self) -> None:
        """End the processes."""
        with self._runner:
            self._runner.run(self._processes.close())

    def _page(self, path: str, content: bytes) -> Page:
        kind, name = TYPES[Path(path).suffix.lower()], Path(path).name
        return self._runner.run(self._unless_stopped(FetchedPage(name, kind, None, content)))

    async def _unless_stopped(self, fetched: FetchedPage) -> Page:
        conversion = asyncio.create_task(self._converted(fetched))
        while not conversion.done() and not self._is_stopped():
            await asyncio.wait([conversion], timeout=_STOP_SECONDS)
        if conversion.done():
            return await conversion
        conversion.cancel()
        await asyncio.wait([conversion])
        raise _Stopped

    async def _converted(self, fetched: FetchedPage) -> Page:
        if fetched.media_type != PDF:
            return await self._processes.convert(fetched)
        # Without the headings of a page that is opened: its sections would be found by them.
        found = await pdf.extract(fetched.body)
        return make_page(fetched.url, found.title or fetched.url, "\n".join(found.pages))
