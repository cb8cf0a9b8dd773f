"""Pages that were fetched a short time ago. Each owner sees only what was fetched for it."""

import time
from collections.abc import Callable

from cachetools import TTLCache

from server.tools.browser.page import Page

SECONDS = 900.0
MOST_BYTES = 64 << 20


class PageCache:
    """Pages by owner and URL, bounded in bytes; the least recently used ones leave first."""

    def __init__(
        self, most_bytes: int = MOST_BYTES, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._pages: TTLCache[tuple[str, str, bool], Page] = TTLCache(
            most_bytes, SECONDS, timer=clock, getsizeof=lambda page: page.size
        )

    def get(self, owner: str, url: str, *, source: bool = False) -> Page | None:
        """The page, None if it is not there. source: the page's source."""
        return self._pages.get((owner, url, source))

    def put(self, owner: str, url: str, page: Page, *, source: bool = False) -> None:
        """Store a page, unless it is larger than the cache."""
        if page.size <= self._pages.maxsize:
            self._pages[owner, url, source] = page
