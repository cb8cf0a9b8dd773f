"""Searches several providers in order, with retries. One that fails repeatedly is left out."""

import asyncio
import logging
import random
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, runtime_checkable

from server.tools.browser.search.base import (
    SearchError,
    SearchProvider,
    SearchQuery,
    SearchResult,
)
from server.tools.fetch.pages import FetchedPage

logger = logging.getLogger(__name__)

_ATTEMPTS = 2
_MOST_WAIT = 2.0
"""Seconds that a provider may ask for before a second attempt."""
_FAILURES = 3
_PAUSE = 30.0
"""A provider that failed so often in a row is left out for so many seconds."""


@runtime_checkable
class _DocumentProvider(Protocol):
    """A provider of documents that have URLs of their own. document_host: the host in these."""

    document_host: str


class SearchChain:
    """The providers of one server, not started. Each host of documents belongs to one of them.

    clock: the seconds of a monotonic clock.
    """

    def __init__(
        self, providers: Sequence[SearchProvider], clock: Callable[[], float] = time.monotonic
    ) -> None:
        _number_hosts(provider for provider in providers if isinstance(provider, _DocumentProvider))
        self._links = [_Link(provider, clock) for provider in providers]

    @property
    def problem(self) -> str | None:
        """Why no provider can be used; None if one can."""
        problems = [link.provider.problem for link in self._links]
        if None in problems:
            return None
        return "; ".join(filter(None, problems)) or "no search provider is configured"

    async def start(self) -> None:
        """Start all providers, and log those that cannot be used."""
        for link in self._links:
            await link.provider.start()
            if link.provider.problem is not None:
                logger.warning("search: %s", link.provider.problem)

    async def stop(self) -> None:
        """Stop all providers."""
        for link in self._links:
            await link.provider.stop()

    async def search(self, query: SearchQuery, *, web: bool) -> list[SearchResult]:
        """The results of the first provider that has some. web: whether the web may be searched.

        Raises SearchError if every provider failed.
        """
        errors: list[SearchError] = []
        answered = False
        for link in self._links:
            if link.provider.problem is not None or not (web or link.provider.is_local):
                continue
            try:
                found = await link.search(query)
            except SearchError as error:
                errors.append(error)
                continue
            answered = True
            results = _distinct(query, found)
            if results:
                return results
        if answered:
            return []
        if not errors:
            reason = "no search provider can be used" if web else "web access is off"
            raise SearchError(reason)
        raise SearchError("; ".join(dict.fromkeys(map(str, errors))))

    async def read(self, url: str) -> FetchedPage | None:
        """The document of a URL that one of the providers serves, None if none does."""
        for link in self._links:
            found = await link.provider.read(url)
            if found is not None:
                return found
        return None


def _number_hosts(providers: Iterable[_DocumentProvider]) -> None:
    """Number the hosts that several providers share: `docs`, `docs-2`. The first one keeps it.

    Otherwise a URL of the second one's document would open the first one's of that path.
    """
    taken: set[str] = set()
    for provider in providers:
        host, number = provider.document_host, 2
        while provider.document_host in taken:
            provider.document_host = f"{host}-{number}"
            number += 1
        taken.add(provider.document_host)


def _distinct(query: SearchQuery, found: Sequence[SearchResult]) -> list[SearchResult]:
    """The results that the query's domains permit, each URL once."""
    unique: dict[str, SearchResult] = {}
    for result in found:
        if query.permits(result.url):
            unique.setdefault(result.url, result)
    return list(unique.values())[: query.count]


class _Link:
    """A provider and its recent failures."""

    def __init__(self, provider: SearchProvider, clock: Callable[[], float]) -> None:
        self.provider = provider
        self._clock = clock
        self._failures = 0
        self._closed_until = 0.0

    async def search(self, query: SearchQuery) -> Sequence[SearchResult]:
        if self._clock() < self._closed_until:
            raise SearchError(f"{self.provider.name} is paused after several failures")
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                found = await self.provider.search(query)
            except SearchError as error:
                wait = (
                    error.retry_after if error.retry_after is not None else random.uniform(0.1, 0.4)
                )
                if attempt < _ATTEMPTS and error.retryable and wait <= _MOST_WAIT:
                    await asyncio.sleep(wait)
                    continue
                self._count(error)
                raise
            self._failures = 0
            return found
        raise AssertionError("an attempt returns or raises")

    def _count(self, error: SearchError) -> None:
        logger.warning("search: %s", error)
        if error.of_query:  # else one client's queries could turn the search off for all
            return
        self._failures += 1
        if error.retry_after is not None and error.retry_after > _MOST_WAIT:
            self._closed_until = self._clock() + min(error.retry_after, 10 * _PAUSE)
        elif self._failures >= _FAILURES:
            self._closed_until = self._clock() + _PAUSE
            self._failures = 0
