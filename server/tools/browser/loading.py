"""Loads a page: from the cache of its owner, from a search provider, or from the web."""

import asyncio

from server.tools.browser.cache import PageCache
from server.tools.browser.page import FILE_SCHEME, Page, one_line
from server.tools.browser.page_process import PageProcesses
from server.tools.browser.search.chain import SearchChain
from server.tools.fetch.client import FetchClient, Permits
from server.tools.fetch.errors import FetchError
from server.tools.fetch.pages import FetchedPage

_CONVERSIONS = 4
"""Pages that are converted at once: each may take a process."""


class LoadError(Exception):
    """The page cannot be loaded. The message is for the model."""


class PageLoader:
    """Loads pages for all sessions. fetcher: None where the web is never reached."""

    def __init__(self, fetcher: FetchClient | None, chain: SearchChain, cache: PageCache) -> None:
        self._fetcher = fetcher
        self._chain = chain
        self._cache = cache
        self._conversions = asyncio.Semaphore(_CONVERSIONS)
        self._processes = PageProcesses()

    async def close(self) -> None:
        """End the processes that convert pages. Safe to call twice."""
        await self._processes.close()

    async def load(
        self, url: str, owner: str, permits: Permits, *, web: bool, source: bool
    ) -> Page:
        """The page of a URL.

        permits: whether the request's domains allow a URL; applies to each redirect, too.
        web: whether a page that is not at hand may be fetched. source: show the page's source.
        Raises LoadError.
        """
        url, shown = url.partition("#")[0], one_line(url)
        if not permits(url):
            raise LoadError(f"Error fetching URL `{shown}`: the domain is not allowed")
        page = self._cache.get(owner, url, source=source)
        if page is not None and permits(page.url):
            return page
        try:
            fetched = await self._fetch(url, permits, web=web)
            async with self._conversions:
                page = await self._processes.convert(fetched, source=source)
        except FetchError as error:
            raise LoadError(f"Error fetching URL `{shown}`: {error}") from error
        if not url.startswith(f"{FILE_SCHEME}:"):
            self._cache.put(owner, url, page, source=source)
        return page

    async def _fetch(self, url: str, permits: Permits, *, web: bool) -> FetchedPage:
        if url.startswith(f"{FILE_SCHEME}:"):
            found = await self._chain.read(url)
            if found is None:
                raise FetchError("there is no such document")
            return found
        if not web or self._fetcher is None:
            raise FetchError("web access is off, and the page was not fetched before")
        return await self._fetcher.fetch(url, permits)
