"""A full-text index of a folder of documents, in SQLite (FTS5).

Sections are indexed rather than whole documents: so a document is found by the part that says what
is asked for, and that part is what the model reads of it first.
The index follows the folder: files whose time or size changed are read again, and indexed again if
their content changed. All methods block; callers use threads.
"""

import hashlib
import logging
import os
import re
import sqlite3
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from server.tools.browser import pdf
from server.tools.browser.documents import text_page
from server.tools.browser.lines import without_links
from server.tools.browser.page import make_page, one_line
from server.tools.browser.search.sections import sections
from server.tools.fetch.client import PDF, FetchedPage

logger = logging.getLogger(__name__)

MOST_FILES = 50_000
MOST_BYTES = 5 << 20
_MOST_WORDS = 32
_SNIPPET_WORDS = 40
_MOST_SUMMARY = 600
_COMMIT_SECONDS = 0.2
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


@dataclass(frozen=True, slots=True)
class Hit:
    """A document that was found. path: relative to the folder, with `/`."""

    path: str
    title: str
    summary: str


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
        rows = self._database.execute(
            "SELECT path, title, snippet(sections, 2, '', '', ' … ', ?) FROM sections "
            f"JOIN files ON files.id = sections.rowid >> {_SECTION_BITS} "
            "WHERE sections MATCH ? ORDER BY rank",
            (_SNIPPET_WORDS, match),
        )
        hits: dict[str, Hit] = {}
        for path, title, text in rows:
            if path not in hits:
                hits[path] = Hit(path, title, one_line(text, _MOST_SUMMARY))
            if len(hits) == count:
                break
        rows.close()
        return list(hits.values())

    def read(self, path: str) -> bytes | None:
        """The content of an indexed file, None for any other path."""
        known = self._database.execute("SELECT 1 FROM files WHERE path = ?", (path,)).fetchone()
        return None if known is None else _content(self._folder / path)

    def refresh(self, is_stopped: Callable[[], bool] = lambda: False) -> None:
        """Bring the index up to date. is_stopped: asked between files, whether to end early."""
        known = {
            path: (number, modified, size, digest)
            for number, path, modified, size, digest in self._database.execute(
                "SELECT id, path, modified, size, hash FROM files"
            )
        }
        committed = time.monotonic()
        for path, status in _documents(self._folder):
            if is_stopped():
                break
            old = known.pop(path, None)
            if old is not None and old[1:3] == (status.st_mtime_ns, status.st_size):
                continue
            self._renew(path, status, old)
            if time.monotonic() - committed > _COMMIT_SECONDS:  # others may write, too
                self._database.commit()
                committed = time.monotonic()
        else:
            for number, *_ in known.values():
                self._remove(number)
            if not self.is_complete:
                self._database.execute(f"PRAGMA application_id = {_COMPLETE}")
        self._database.commit()

    def _renew(
        self, path: str, status: os.stat_result, old: tuple[int, int, int, bytes] | None
    ) -> None:
        content = _content(self._folder / path)
        if content is None:
            return
        digest = hashlib.sha256(content).digest()
        times = (status.st_mtime_ns, status.st_size, digest)
        if old is not None and old[3] == digest:
            self._database.execute(
                "UPDATE files SET modified = ?, size = ?, hash = ? WHERE id = ?", (*times, old[0])
            )
            return
        if old is not None:
            self._remove(old[0])
        title, body = _text(path, content)
        row = self._database.execute(
            "INSERT INTO files (path, modified, size, hash) VALUES (?, ?, ?, ?) "
            "ON CONFLICT (path) DO NOTHING RETURNING id",
            (path, *times),
        ).fetchone()
        if row is not None:  # another process may have indexed the file meanwhile
            first = row[0] << _SECTION_BITS
            self._database.executemany(
                "INSERT INTO sections (rowid, title, heading, body) VALUES (?, ?, ?, ?)",
                (
                    (first + place, title, section.heading, section.text)
                    for place, section in enumerate(sections(body, 1 << _SECTION_BITS))
                ),
            )

    def _remove(self, number: int) -> None:
        first = number << _SECTION_BITS
        self._database.execute(
            "DELETE FROM sections WHERE rowid BETWEEN ? AND ?",
            (first, first + (1 << _SECTION_BITS) - 1),
        )
        self._database.execute("DELETE FROM files WHERE id = ?", (number,))


def _documents(folder: Path) -> Iterator[tuple[str, os.stat_result]]:
    """The documents below the folder. Hidden ones and symbolic links are left out."""
    count = 0
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            if name.startswith(".") or os.path.splitext(name)[1].lower() not in TYPES:
                continue
            path = os.path.join(place, name)
            with suppress(OSError):
                status = os.lstat(path)
                is_document = stat.S_ISREG(status.st_mode) and status.st_size <= MOST_BYTES
                if is_document and count < MOST_FILES:
                    count += 1
                    yield os.path.relpath(path, folder).replace(os.sep, "/"), status


def _content(path: Path) -> bytes | None:
    """The bytes of a file, None if it is gone, is a link or is too large."""
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), "rb") as file:
            content = file.read(MOST_BYTES + 1)
    except OSError:
        return None
    return content if len(content) <= MOST_BYTES else None


def _text(path: str, content: bytes) -> tuple[str, str]:
    """The title and the text of a document; the name alone if it cannot be read."""
    kind = TYPES[Path(path).suffix.lower()]
    name = Path(path).name
    if kind == PDF:
        try:
            found = pdf.extract_blocking(content)
        except pdf.UnreadablePdf as error:
            logger.info("a document is not indexed: %s", error)
            return name, ""
        page = make_page(name, found.title or name, "\n".join(found.pages))
    else:
        page = text_page(FetchedPage(name, kind, None, content))
    body = page.text.split("\n", 2)[-1]  # without the URL
    return page.title, without_links(body)
