"""Fetches pages from the web for a model, within limits.

Every target is checked, redirects included. No cookie, no credential and no proxy of the
environment is used. A fetch, with its redirects and robots.txt, ends within `Limits.seconds`.
"""

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cache, partial
from typing import TypeVar

import httpx
from cachetools import TTLCache

from server.schemas.limits import MAX_CONTENT_TYPE
from server.threads import Size, run
from server.tools.fetch import robots
from server.tools.fetch.decoding import ACCEPTED, read_body
from server.tools.fetch.errors import (
    BadStatus,
    BlockedTarget,
    BodyTooLarge,
    Disallowed,
    FetchError,
    FetchTimeout,
    Unreachable,
    UnsupportedBody,
)
from server.tools.fetch.guard import Guard, Resolver, SystemResolver, guard_transport
from server.tools.fetch.pages import CONTENT_TYPES, FetchedPage
from server.tools.fetch.robots import Robots
from server.tools.fetch.urls import FetchPolicy

logger = logging.getLogger(__name__)

T = TypeVar("T")
Permits = Callable[[str], bool]
"""Whether a URL may be fetched."""

ROBOT = "gpt-oss-server"
"""The name that robots.txt may use."""
USER_AGENT = f"Mozilla/5.0 (compatible; {ROBOT}/1.0)"
_HEADERS = {
    "User-Agent": USER_AGENT,
    "Accept": "text/html,application/xhtml+xml,text/*;q=0.9,application/json;q=0.9,"
    "application/xml;q=0.9,application/pdf;q=0.8",
    "Accept-Encoding": ACCEPTED,
    "Connection": "keep-alive",
}
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_ROBOTS_SECONDS = 3600.0
_ROBOTS_BYTES = 16 << 20
"""The memory for the rules of all sites. Most have less than a hundred rules, which take 20 KiB."""
_ROBOTS_OVERHEAD = 512
"""The bytes that each site takes there, beside its rules: its name, and the cache's entry."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of one fetch.

    seconds: in all. bytes: of a page, compressed or decoded. redirects: that are followed.
    connections: of all fetches together.
    """

    seconds: float = 15.0
    bytes: int = 5 << 20
    redirects: int = 5
    connections: int = 64


@cache
def public_authorities() -> ssl.SSLContext:
    """The TLS context that trusts certifi's authorities, whom it takes 20 ms to read.

    All clients of the process share it.
    """
    return httpx.create_ssl_context(trust_env=False)


class FetchClient:
    """Fetches pages. One for each process; it has no state of any owner.

    policy: what may be fetched. resolver: the addresses of host names; None for those of the
    operating system. proxy: the URL of a proxy that makes all connections and resolves all names;
    the addresses that names have are then its concern. obeys_robots: whether robots.txt is read and
    followed. tls: how certificates are verified; None for the public authorities.
    """

    def __init__(
        self,
        policy: FetchPolicy,
        *,
        resolver: Resolver | None = None,
        proxy: str | None = None,
        obeys_robots: bool = True,
        limits: Limits = Limits(),
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._policy = policy
        self._limits = limits
        self._obeys_robots = obeys_robots
        self._own_resolver: SystemResolver | None = None
        if resolver is None:
            resolver = self._own_resolver = SystemResolver()
        pool = httpx.Limits(max_connections=limits.connections, max_keepalive_connections=16)
        # Without a client, which would read redirects by itself, and fail for those to no valid URL
        # as for a broken connection.
        self._transport = httpx.AsyncHTTPTransport(
            limits=pool, trust_env=False, proxy=proxy, verify=tls or public_authorities()
        )
        if proxy is None:
            guard_transport(self._transport, Guard(policy, resolver))
        self._extensions = {"timeout": httpx.Timeout(limits.seconds).as_dict()}
        self._robots: TTLCache[str, Robots] = TTLCache(
            _ROBOTS_BYTES, _ROBOTS_SECONDS, getsizeof=lambda rules: rules.size + _ROBOTS_OVERHEAD
        )

    async def close(self) -> None:
        """Close all connections. Safe to call twice."""
        await self._transport.aclose()
        if self._own_resolver is not None:
            self._own_resolver.close()

    async def fetch(self, url: str, permits: Permits = lambda _: True) -> FetchedPage:
        """The page at the URL. Raises FetchError.

        permits: whether a redirect may lead to a URL.
        """
        try:
            async with asyncio.timeout(self._limits.seconds):
                return await self._follow(url, permits)
        except (TimeoutError, httpx.TimeoutException) as error:
            raise FetchTimeout("the page took too long to load") from error
        except (httpx.InvalidURL, ValueError) as error:
            # httpx lets errors of `idna` and of `urllib` through.
            raise BlockedTarget("the URL is not valid") from error
        except httpx.HTTPError as error:
            # Its own words name hosts and addresses.
            logger.debug("a page could not be fetched: %s", type(error).__name__)
            raise Unreachable("the server could not be reached") from error

    async def _follow(self, text: str, permits: Permits) -> FetchedPage:
        url = self._policy.check(text)
        for _ in range(self._limits.redirects + 1):
            await self._check_robots(url)
            async with self._get(url) as response:
                location = _location(response)
                if location is None:
                    return await self._read(response, url)
            url = self._redirected(url, location)
            if not permits(str(url)):
                raise BlockedTarget("the domain that it redirects to is not allowed")
        raise BadStatus("the page redirects too often")

    def _redirected(self, url: httpx.URL, location: str) -> httpx.URL:
        """The URL that a redirect leads to. Raises BlockedTarget."""
        try:
            target = url.join(location)
        except (httpx.InvalidURL, ValueError) as error:
            raise BlockedTarget("the URL is not valid") from error
        return self._policy.check(str(target))

    @asynccontextmanager
    async def _get(self, url: httpx.URL) -> AsyncIterator[httpx.Response]:
        request = httpx.Request("GET", url, headers=_HEADERS, extensions=self._extensions)
        response = await self._transport.handle_async_request(request)
        try:
            yield response
        finally:
            await response.aclose()

    async def _read(self, response: httpx.Response, url: httpx.URL) -> FetchedPage:
        if response.status_code != 200:
            raise BadStatus(f"HTTP status {response.status_code}")
        media_type, charset = _content_type(response)
        if media_type not in CONTENT_TYPES:
            raise UnsupportedBody("pages of this content type are not supported")
        body = await self._body(response, self._limits.bytes)
        return FetchedPage(str(url), media_type, charset, body)

    async def _body(self, response: httpx.Response, limit: int) -> bytes:
        encoding = response.headers.get("content-encoding", "")
        return await read_body(response.aiter_raw(), encoding, limit)

    async def _check_robots(self, url: httpx.URL) -> None:
        if not self._obeys_robots:
            return
        site = f"{url.scheme}://{url.netloc.decode('ascii')}"
        rules = self._robots.get(site)
        if rules is None:
            rules = await self._read_robots(url.copy_with(raw_path=b"/robots.txt"))
            if rules is not robots.DENY_ALL:  # a failure may be short
                self._robots[site] = rules
        path = url.raw_path.decode("ascii")
        if not await _computed(partial(rules.allows, path), small=rules.is_small(path)):
            raise Disallowed("the site's robots.txt does not allow this page")

    async def _read_robots(self, url: httpx.URL) -> Robots:
        """RFC 9309: no such file allows all; a server that fails allows nothing.

        Nor does a file that is too large: what is not read may forbid the page.
        """
        for _ in range(self._limits.redirects + 1):
            async with self._get(url) as response:
                location = _location(response)
                if location is None:
                    return await self._robots_of(response)
            try:
                url = self._redirected(url, location)
            except BlockedTarget:
                return robots.ALLOW_ALL
        return robots.ALLOW_ALL

    async def _robots_of(self, response: httpx.Response) -> Robots:
        if response.status_code != 200:
            return robots.DENY_ALL if response.status_code >= 500 else robots.ALLOW_ALL
        try:
            body = await self._body(response, robots.MOST_BYTES)
        except BodyTooLarge:
            return robots.CLOSED
        except FetchError:
            return robots.ALLOW_ALL
        return await _computed(partial(_parsed, body), small=len(body) <= robots.SMALL_FILE)


async def _computed(work: Callable[[], T], *, small: bool) -> T:
    """The result of work that a site may have made slow; the event loop does not wait for it."""
    return await run(work, Size.SMALL if small else Size.LARGE)


def _location(response: httpx.Response) -> str | None:
    """Where a response redirects to; None if it does not."""
    return response.headers.get("location") if response.status_code in _REDIRECTS else None


def _parsed(body: bytes) -> Robots:
    return robots.parse(body.decode("utf-8", "replace"), ROBOT)


def _content_type(response: httpx.Response) -> tuple[str, str | None]:
    """The media type, and the charset unless the header is too long to look for it.

    What has no type is taken for HTML, as browsers do.
    """
    value = response.headers.get("content-type", "text/html")
    media_type = value.partition(";")[0].strip().lower()
    return media_type, response.charset_encoding if len(value) <= MAX_CONTENT_TYPE else None
