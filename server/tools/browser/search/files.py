"""The search provider `files:FOLDER`: one's own documents, without any network.

The documents have URLs of the scheme `file-search`: the name of the folder as host, and the path.
`SearchChain` numbers folders of the same name.
"""

import asyncio
import hashlib
import logging
import re
import sqlite3
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote, unquote, urlsplit

from server.tools.browser.page import FILE_SCHEME
from server.tools.browser.search import packaged
from server.tools.browser.search.base import (
    ProviderOptions,
    SearchError,
    SearchQuery,
    SearchResult,
)
from server.tools.browser.search.index import TYPES, FolderIndex
from server.tools.fetch.pages import FetchedPage
from server.tools.fetch.urls import hostname

logger = logging.getLogger(__name__)

T = TypeVar("T")

_FRESH_SECONDS = 10.0
"""A search that comes later after the last look at the folder starts another one."""
_FIRST_SECONDS = 5.0
"""How long a search waits for a new index. One of an earlier start is searched at once."""


class FilesProvider:
    """Searches a folder of Markdown, HTML, text and PDF files, with those in its subfolders.

    options.argument: the folder; without one, this project's own documentation.
    document_host: the host in the URLs of its documents; to be changed before `start` only.
    """

    name = "files"
    is_local = True

    def __init__(self, options: ProviderOptions) -> None:
        folder = _expanded(options.argument) if options.argument else packaged.docs_folder()
        self._folder = folder.resolve() if folder is not None else None
        name = packaged.LABEL if not options.argument else Path(options.argument).resolve().name
        self.document_host = re.sub(r"[^\w.\-]+", "-", name.lower()).strip("-") or "files"
        self._cache = options.cache
        self._problem: str | None = None
        # A search does not wait for the index to be written: each has a thread and a connection.
        self._writing = ThreadPoolExecutor(1, thread_name_prefix="search-index")
        self._reading = ThreadPoolExecutor(1, thread_name_prefix="search-files")
        self._stopped = threading.Event()
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        self._writer: FolderIndex | None = None
        self._reader: FolderIndex | None = None
        self._refreshing: asyncio.Task[None] | None = None
        self._refreshed = 0.0
        self._is_complete = False

    @property
    def problem(self) -> str | None:
        """Why the folder cannot be searched, None if it can."""
        return self._problem

    async def start(self) -> None:
        """Open the index and begin to bring it up to date."""
        if self._folder is None or not self._folder.is_dir():
            shown = self._folder or "the documentation"
            self._problem = f"files: {shown} is no folder"
            return
        try:
            await self._run(self._writing, self._open)
        except (OSError, sqlite3.Error) as error:
            self._problem = f"files: the index cannot be opened: {error}"
            return
        self._refresh()

    async def stop(self) -> None:
        """End the indexing and close the index."""
        self._stopped.set()
        if self._refreshing is not None:
            await asyncio.wait([self._refreshing])
        for index, threads in ((self._writer, self._writing), (self._reader, self._reading)):
            if index is not None:
                await self._run(threads, index.close)
            threads.shutdown(wait=False)
        self._writer = self._reader = None
        if self._temporary is not None:
            self._temporary.cleanup()
            self._temporary = None

    async def search(self, query: SearchQuery) -> Sequence[SearchResult]:
        """The documents with words of the query, best first."""
        index = await self._ready()
        try:
            hits = await self._run(self._reading, lambda: index.search(query.text, query.count))
        except sqlite3.Error as error:
            raise SearchError("files: the index cannot be read") from error
        return [SearchResult(self._url(hit.path), hit.title, hit.summary) for hit in hits]

    async def read(self, url: str) -> FetchedPage | None:
        """The document of a URL of this folder."""
        if hostname(url) is None:
            return None
        parts = urlsplit(url)
        is_own = (parts.scheme, parts.netloc) == (FILE_SCHEME, self.document_host)
        if not is_own or self._reader is None:
            return None
        path = unquote(parts.path).removeprefix("/")
        index = await self._ready()
        content = await self._run(self._reading, lambda: index.read(path))
        if content is None:
            return None
        return FetchedPage(self._url(path), TYPES[Path(path).suffix.lower()], None, content)

    def _url(self, path: str) -> str:
        return f"{FILE_SCHEME}://{self.document_host}/{quote(path)}"

    def _open(self) -> None:
        assert self._folder is not None
        try:
            self._open_in(self._folder, Path(self._cache or ""))
        except (OSError, sqlite3.Error):
            if self._cache is not None:
                logger.info("the search index cannot be kept in %s", self._cache)
            self._temporary = tempfile.TemporaryDirectory(prefix="gpt-oss-search-")
            self._open_in(self._folder, Path(self._temporary.name))

    def _open_in(self, folder: Path, cache: Path) -> None:
        if not cache.name:
            raise OSError("there is no folder for the index")
        cache.mkdir(parents=True, exist_ok=True, mode=0o700)
        name = hashlib.sha256(str(folder).encode("utf-8", "surrogateescape")).hexdigest()[:16]
        file = cache / f"search-{name}.sqlite3"
        self._writer = FolderIndex(folder, file)
        self._reader = FolderIndex(folder, file)
        self._is_complete = self._reader.is_complete

    async def _ready(self) -> FolderIndex:
        if self._reader is None:
            raise SearchError(self._problem or "files: not started")
        if not self._is_complete and self._refreshing is not None:
            await asyncio.wait([self._refreshing], timeout=_FIRST_SECONDS)
        elif time.monotonic() - self._refreshed > _FRESH_SECONDS:
            self._refresh()
        return self._reader

    def _refresh(self) -> None:
        if self._refreshing is None or self._refreshing.done():
            self._refreshing = asyncio.create_task(self._look())

    async def _look(self) -> None:
        writer = self._writer
        if writer is None:
            return
        try:
            await self._run(self._writing, lambda: writer.refresh(self._stopped.is_set))
        except (OSError, sqlite3.Error) as error:
            logger.warning("the search index cannot be brought up to date: %s", error)
        except Exception as error:  # the type alone, as a message may have text of a document
            kind = type(error).__name__
            logger.warning("the search index cannot be brought up to date: %s", kind)
        self._refreshed = time.monotonic()
        self._is_complete = True

    @staticmethod
    async def _run(threads: ThreadPoolExecutor, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(threads, work)


def _expanded(folder: str) -> Path:
    """The folder, where `~` begins the path of a home. Raises ValueError for an unknown user's."""
    try:
        return Path(folder).expanduser()
    except RuntimeError as error:
        raise ValueError(f"the folder {folder!r} is in the home of an unknown user") from error
