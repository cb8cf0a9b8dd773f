"""The interface of search providers.

Providers of third parties are registered under the entry-point group `gpt_oss_server.search`; the
entry point's object is a `ProviderFactory`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from server.tools.fetch.pages import FetchedPage
from server.tools.fetch.urls import hostname, is_within

GROUP = "gpt_oss_server.search"


class SearchError(Exception):
    """A provider failed. The message names neither keys nor queries; the model reads it.

    retryable: whether a second attempt may succeed soon. retry_after: seconds that the provider
    asked for, None if it did not. of_query: whether it refused this query, so that it may answer
    others.
    """

    def __init__(
        self,
        message: str,
        *,
        retryable: bool = False,
        retry_after: float | None = None,
        of_query: bool = False,
    ) -> None:
        super().__init__(message)
        self.retryable = retryable
        self.retry_after = retry_after
        self.of_query = of_query


@dataclass(frozen=True, slots=True)
class Location:
    """An approximate place. country: two letters."""

    country: str | None = None
    region: str | None = None
    city: str | None = None
    timezone: str | None = None


@dataclass(frozen=True, slots=True)
class SearchQuery:
    """A search.

    count: of results, 1 to 25. allowed_domains, blocked_domains: with their subdomains; an empty
    `allowed_domains` allows all.
    """

    text: str
    count: int = 10
    allowed_domains: tuple[str, ...] = ()
    blocked_domains: tuple[str, ...] = ()
    location: Location = field(default_factory=Location)

    def permits(self, url: str) -> bool:
        """Whether the domains allow the URL."""
        return permits(self.allowed_domains, self.blocked_domains, url)


def permits(allowed: Sequence[str], blocked: Sequence[str], url: str) -> bool:
    """Whether the domains allow the URL: an empty `allowed` allows all that are not blocked."""
    host = hostname(url)
    if host is None:
        return not (allowed or blocked)
    if any(is_within(host, domain) for domain in blocked):
        return False
    return not allowed or any(is_within(host, domain) for domain in allowed)


@dataclass(frozen=True, slots=True)
class SearchResult:
    """A page that was found. summary: plain text on one line."""

    url: str
    title: str
    summary: str


class SearchProvider(Protocol):
    """A place to search."""

    @property
    def name(self) -> str:
        """Such as `brave`, for logs and messages."""
        ...

    @property
    def is_local(self) -> bool:
        """Whether it searches without the web. Requests without web access use these alone."""
        ...

    @property
    def problem(self) -> str | None:
        """Why it cannot be used, None if it can. Known after `start`."""
        ...

    async def start(self) -> None:
        """Prepare the provider; it does not raise."""
        ...

    async def stop(self) -> None:
        """Free what it uses. Safe to call twice."""
        ...

    async def search(self, query: SearchQuery) -> Sequence[SearchResult]:
        """The results, best first. Raises SearchError."""
        ...

    async def read(self, url: str) -> FetchedPage | None:
        """The document of a URL that the provider itself serves; None for all other URLs."""
        ...


@dataclass(frozen=True, slots=True)
class ProviderOptions:
    """What a provider is made of.

    argument: the text after `NAME:`, "" if there is none. environment: where keys are. proxy: the
    URL of the proxy for the web, None for none. cache: a folder for indexes, None for memory.
    """

    argument: str = ""
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    proxy: str | None = None
    cache: str | None = None


class ProviderFactory(Protocol):
    """Makes a provider."""

    def __call__(self, options: ProviderOptions) -> SearchProvider:
        """A provider that is not started. Raises ValueError for an invalid argument."""
        ...
