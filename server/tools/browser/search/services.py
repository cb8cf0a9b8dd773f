"""Search services with an HTTP API: SearXNG, Brave, Tavily, Exa and You.com.

Each is a description of one request and one answer; `HttpProvider` does the rest. Sources:
https://docs.searxng.org/dev/search_api.html, https://api-dashboard.search.brave.com/app/documentation,
https://docs.tavily.com, https://exa.ai/docs/reference/search, https://you.com/docs/guides/search.
"""

import json
import logging
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, islice
from typing import Any, ClassVar

import httpx

from adapters.cancel_safe import CancelSafeTransport
from server.tools.browser.html import plain
from server.tools.browser.page import one_line, without_controls
from server.tools.browser.search.base import (
    ProviderOptions,
    SearchError,
    SearchQuery,
    SearchResult,
)
from server.tools.fetch.client import public_authorities
from server.tools.fetch.decoding import ACCEPTED, read_body
from server.tools.fetch.errors import FetchError
from server.tools.fetch.pages import FetchedPage
from server.tools.fetch.urls import hostname

logger = logging.getLogger(__name__)

SECONDS = 8.0
MOST_ANSWER_BYTES = 4 << 20
MOST_SUMMARY = 600
_MOST_HTML = 4 * MOST_SUMMARY
"""Characters of a title or a summary that are read: a service may send any HTML."""
_MOST_RESULTS = 200
"""Results of an answer that are read. Each takes up to 0.1 ms, and no more than 25 are shown."""
_MOST_ASKED = 20
"""Results that one request of Brave or Tavily may ask for."""
_MOST_SITES = 10
"""Domains that are written into a query; the rest is filtered in the results."""
_MOST_QUERY = 400
"""Characters of a query of Brave or Tavily."""
_MOST_WORDS = 50
"""Words of a query of Brave."""
_RETRYABLE = frozenset({408, 429, 500, 502, 503, 504})
_OF_QUERY = frozenset({400, 413, 414, 422})
_MEANINGS = {
    401: "its key is not valid",
    402: "its plan is used up",
    403: "it refuses this key or format",
    422: "it does not accept the request or its key",
    429: "its rate limit is reached",
    432: "its plan is used up",
    433: "its limit on spending is reached",
}


class HttpProvider(ABC):
    """A service that answers one HTTP request with JSON.

    variables: environment variables that may have the key, in order; none where no key is needed.
    """

    name: ClassVar[str]
    url: ClassVar[str]
    variables: ClassVar[tuple[str, ...]] = ()
    is_local = False

    def __init__(self, options: ProviderOptions) -> None:
        self._url = (options.argument or self.url).rstrip("/")
        if not self._url.startswith(("http://", "https://")) or not hostname(self._url):
            raise ValueError(f"{self.name} needs a URL, as in {self.name}:http://localhost:8080")
        self._key = next(
            (key for name in self.variables if (key := options.environment.get(name))), ""
        )
        self._proxy = options.proxy if self.variables else None
        self._client: httpx.AsyncClient | None = None

    @property
    def problem(self) -> str | None:
        """Why it cannot be used: a missing key."""
        if self.variables and not self._key:
            return f"{self.name} needs a key in {self.variables[0]}"
        return None

    async def start(self) -> None:
        """Open the client."""
        self._client = httpx.AsyncClient(
            transport=CancelSafeTransport(
                httpx.AsyncHTTPTransport(
                    verify=public_authorities(), trust_env=False, proxy=self._proxy
                )
            ),
            trust_env=False,
            timeout=SECONDS,
            headers={"Accept": "application/json", "Accept-Encoding": ACCEPTED},
        )

    async def stop(self) -> None:
        """Close the client."""
        if self._client is not None:
            await self._client.aclose()

    async def search(self, query: SearchQuery) -> Sequence[SearchResult]:
        """The results, best first. Raises SearchError."""
        if self.problem is not None:
            raise SearchError(self.problem)
        data = await self._ask(self.request(query))
        try:
            results = [_result(*item) for item in islice(self.results(data), _MOST_RESULTS)]
        except (AttributeError, KeyError, TypeError) as error:
            raise SearchError(f"{self.name} sent an answer of another form") from error
        # What cannot be opened is no result, such as a host that is no name of the web.
        return [
            each
            for each in results
            if each.url.startswith(("http://", "https://")) and hostname(each.url)
        ]

    async def read(self, url: str) -> FetchedPage | None:
        """None: the pages are on the web."""
        return None

    @abstractmethod
    def request(self, query: SearchQuery) -> httpx.Request:
        """The HTTP request of a search."""

    @abstractmethod
    def results(self, data: Any) -> Iterable[tuple[Any, Any, Any]]:
        """URL, title and summary of each result in the answer."""

    async def _ask(self, request: httpx.Request) -> Any:
        assert self._client is not None, "not started"
        try:
            for name, value in self._client.headers.items():
                request.headers.setdefault(name, value)
            response = await self._client.send(request, stream=True)
            try:
                encoding = response.headers.get("content-encoding", "")
                body = await read_body(response.aiter_raw(), encoding, MOST_ANSWER_BYTES)
            finally:
                await response.aclose()
        except httpx.TimeoutException as error:
            raise SearchError(f"{self.name} did not answer in time", retryable=True) from error
        except (httpx.HTTPError, FetchError) as error:
            # The error's own words may name hosts.
            logger.info("%s cannot be reached: %s", self.name, type(error).__name__)
            raise SearchError(f"{self.name} cannot be reached", retryable=True) from error
        if response.status_code != 200:
            raise self._failure(response)
        try:
            return json.loads(body)
        except (ValueError, RecursionError) as error:
            raise SearchError(f"{self.name} sent an answer of another form") from error

    def _failure(self, response: httpx.Response) -> SearchError:
        """The body is not read: services repeat keys and queries in it."""
        status = response.status_code
        meaning = _MEANINGS.get(status, f"it answered with status {status}")
        return SearchError(
            f"{self.name} failed: {meaning}",
            retryable=status in _RETRYABLE,
            retry_after=_seconds(response.headers),
            of_query=status in _OF_QUERY,
        )

    def _post(self, path: str, body: Mapping[str, Any], **headers: str) -> httpx.Request:
        sent = {name: value for name, value in body.items() if value not in (None, [], ())}
        return httpx.Request("POST", self._url + path, json=sent, headers=headers)


def _result(url: Any, title: Any, summary: Any) -> SearchResult:
    url = "".join(without_controls(url).split()) if isinstance(url, str) else ""
    return SearchResult(
        url,
        plain(str(title or "")[:_MOST_HTML]),
        one_line(plain(str(summary or "")[:_MOST_HTML]), MOST_SUMMARY),
    )


def _seconds(headers: httpx.Headers) -> float | None:
    """The wait that the service asks for, where it is given in seconds."""
    value = headers.get("retry-after") or headers.get("x-ratelimit-reset", "").split(",")[0]
    try:
        seconds = float(value)
    except ValueError:
        return None
    return seconds if math.isfinite(seconds) and seconds >= 0 else None


def _sites(query: SearchQuery, allowed: int = _MOST_SITES, blocked: int = _MOST_SITES) -> str:
    """So many domains of each kind as search operators, for services without a field for them.

    A space comes first; the result is empty where there are none.
    """
    any_allowed = " OR ".join(f"site:{domain}" for domain in query.allowed_domains[:allowed])
    if " OR " in any_allowed:
        any_allowed = f"({any_allowed})"
    none_blocked = (f"-site:{domain}" for domain in query.blocked_domains[:blocked])
    return "".join(f" {part}" for part in (any_allowed, *none_blocked) if part)


class SearxngProvider(HttpProvider):
    """SearXNG. Its settings have to list `json` under `search.formats`."""

    name = "searxng"
    url = ""

    def request(self, query: SearchQuery) -> httpx.Request:
        params = {"q": query.text + _sites(query), "format": "json"}
        return httpx.Request("GET", f"{self._url}/search", params=params)

    def results(self, data: Any) -> Iterable[tuple[Any, Any, Any]]:
        return [(each["url"], each.get("title"), each.get("content")) for each in data["results"]]


class BraveProvider(HttpProvider):
    """Brave Search."""

    name = "brave"
    url = "https://api.search.brave.com/res/v1"
    variables = ("BRAVE_SEARCH_API_KEY", "BRAVE_API_KEY")

    def request(self, query: SearchQuery) -> httpx.Request:
        # The text has up to half of the query. No operator is cut: it would name another domain.
        words = query.text.split()[:_MOST_WORDS]
        room = _MOST_QUERY - min(len(" ".join(words)), _MOST_QUERY // 2)
        # Blocked domains are the first to be left out, as the results are filtered anyway. Allowed
        # ones that are not named are not searched.
        less_blocked = (_sites(query, blocked=most) for most in range(_MOST_SITES, 0, -1))
        less_allowed = (_sites(query, most, 0) for most in range(_MOST_SITES, -1, -1))
        sites = next(each for each in chain(less_blocked, less_allowed) if len(each) <= room)
        text = " ".join(words[: _MOST_WORDS - len(sites.split())])[: _MOST_QUERY - len(sites)]
        params = {"q": text + sites, "count": str(min(query.count, _MOST_ASKED))}
        if query.location.country:
            params["country"] = query.location.country
        headers = {"X-Subscription-Token": self._key, "Cache-Control": "no-cache"}
        return httpx.Request("GET", f"{self._url}/web/search", params=params, headers=headers)

    def results(self, data: Any) -> Iterable[tuple[Any, Any, Any]]:
        found = (data.get("web") or {}).get("results") or []
        return [(each["url"], each.get("title"), each.get("description")) for each in found]


class TavilyProvider(HttpProvider):
    """Tavily."""

    name = "tavily"
    url = "https://api.tavily.com"
    variables = ("TAVILY_API_KEY",)

    def request(self, query: SearchQuery) -> httpx.Request:
        body = {
            "query": query.text[:_MOST_QUERY],
            "max_results": min(query.count, _MOST_ASKED),
            "include_domains": query.allowed_domains[:300],
            "exclude_domains": query.blocked_domains[:150],
        }
        return self._post("/search", body, Authorization=f"Bearer {self._key}")

    def results(self, data: Any) -> Iterable[tuple[Any, Any, Any]]:
        return [(each["url"], each.get("title"), each.get("content")) for each in data["results"]]


class ExaProvider(HttpProvider):
    """Exa."""

    name = "exa"
    url = "https://api.exa.ai"
    variables = ("EXA_API_KEY",)

    def request(self, query: SearchQuery) -> httpx.Request:
        body = {
            "query": query.text,
            "numResults": query.count,
            "includeDomains": query.allowed_domains,
            "excludeDomains": query.blocked_domains,
            "userLocation": query.location.country,
            "contents": {"highlights": True},
        }
        return self._post("/search", body, **{"x-api-key": self._key})

    def results(self, data: Any) -> Iterable[tuple[Any, Any, Any]]:
        return [
            (each["url"], each.get("title"), " … ".join(each.get("highlights") or []))
            for each in data["results"]
        ]


class YouProvider(HttpProvider):
    """You.com."""

    name = "you"
    url = "https://ydc-index.io"
    variables = ("YDC_API_KEY", "YOU_API_KEY")

    def request(self, query: SearchQuery) -> httpx.Request:
        body = {
            "query": query.text,
            "count": query.count,
            "country": query.location.country,
            "include_domains": query.allowed_domains[:500],
            "exclude_domains": query.blocked_domains[:500],
        }
        return self._post("/v1/search", body, **{"X-API-Key": self._key})

    def results(self, data: Any) -> Iterable[tuple[Any, Any, Any]]:
        sections = data.get("results") or {}
        found = [*(sections.get("web") or []), *(sections.get("news") or [])]
        return [
            (
                each["url"],
                each.get("title"),
                each.get("description") or _first(each.get("snippets")),
            )
            for each in found
        ]


def _first(items: Any) -> Any:
    return items[0] if items else None
