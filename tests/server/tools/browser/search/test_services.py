"""Search services: the requests that they document, their answers and their errors."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from server.tools.browser.search.base import Location, ProviderOptions, SearchError, SearchQuery
from server.tools.browser.search.registry import check, create
from server.tools.browser.search.services import (
    BraveProvider,
    ExaProvider,
    HttpProvider,
    SearxngProvider,
    TavilyProvider,
    YouProvider,
)
from server.tools.fetch.decoding import ACCEPTED
from tests.server.tools.fetch.network import PRIVATE

KEY = "secret-key-1"
KEYS = {
    name: KEY
    for kind in (BraveProvider, TavilyProvider, ExaProvider, YouProvider)
    for name in kind.variables[:1]
}
QUERY = SearchQuery(
    "tide tables",
    3,
    ("a.example", "b.example"),
    ("c.example",),
    Location(country="DE", city="Kiel"),
)
EXPECTED = [("https://a.example/1", "One & two", "First result"), ("https://a.example/2", "2", "")]

ANSWERS: dict[type[HttpProvider], Any] = {
    SearxngProvider: {
        "query": "tide tables",
        "results": [
            {"url": "https://a.example/1", "title": "One & two", "content": "First \ud800result"},
            {"url": "https://a.example/2", "title": "2", "content": None},
            {"url": "https://[x", "title": "invalid", "content": ""},
            {"url": "https:///x", "title": "invalid", "content": "\ud800"},
            {"url": "magnet:?xt=1", "title": "none", "content": ""},
            {"url": "https://i❤.ws/", "title": "no name of IDNA 2008", "content": ""},
        ],
    },
    BraveProvider: {
        "type": "search",
        "web": {
            "results": [
                {
                    "url": "https://a.example/1",
                    "title": "One &amp; two",
                    "description": "<strong>First</strong> result",
                },
                {"url": "https://a.example/2", "title": "2"},
            ]
        },
    },
    TavilyProvider: {
        "results": [
            {"url": "https://a.example/1", "title": "One & two", "content": "First result"},
            {"url": "https://a.example/2", "title": "2", "content": ""},
        ]
    },
    ExaProvider: {
        "requestId": "1",
        "results": [
            {"url": "https://a.example/1", "title": "One & two", "highlights": ["First result"]},
            {"url": "https://a.example/2", "title": "2"},
        ],
    },
    YouProvider: {
        "results": {
            "web": [
                {
                    "url": "https://a.example/1",
                    "title": "One & two",
                    "snippets": ["First result"],
                }
            ],
            "news": [{"url": "https://a.example/2", "title": "2", "description": ""}],
        }
    },
}


class Service:
    """A service on this machine: one answer to every request."""

    def __init__(self) -> None:
        self.status = 200
        self.body = b"{}"
        self.headers: dict[str, str] = {}
        self.waits = False
        self.request: tuple[str, str, dict[str, str], bytes] = ("", "", {}, b"")

    async def start(self) -> str:
        self._server = await asyncio.start_server(self._serve, PRIVATE, 0)
        return f"http://{PRIVATE}:{self._server.sockets[0].getsockname()[1]}"

    def stop(self) -> None:
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            line, *fields = head.strip().split("\r\n")
            headers = {k.lower(): v for k, v in (field.split(": ", 1) for field in fields)}
            body = await reader.readexactly(int(headers.get("content-length", 0)))
            method, target, _ = line.split(" ")
            self.request = (method, target, headers, body)
            if self.waits:
                await reader.read()
                return
            extra = "".join(f"{name}: {value}\r\n" for name, value in self.headers.items())
            writer.write(
                f"HTTP/1.1 {self.status} X\r\nContent-Length: {len(self.body)}\r\n"
                f"Connection: close\r\n{extra}\r\n".encode()
                + self.body
            )
            await writer.drain()
        finally:
            writer.close()


@asynccontextmanager
async def running() -> AsyncIterator[tuple[Service, str]]:
    service = Service()
    yield service, await service.start()
    service.stop()


@pytest.fixture
async def service() -> AsyncIterator[tuple[Service, str]]:
    async with running() as service:
        yield service


async def started(kind: type[HttpProvider], url: str) -> HttpProvider:
    provider = kind(ProviderOptions(url, KEYS))
    await provider.start()
    return provider


async def test_no_more_results_are_read_than_a_search_needs(service: tuple[Service, str]) -> None:
    """An answer of 4 MiB can have tens of thousands, which are read on the event loop."""
    server, url = service
    result = {"url": "https://a.example/", "title": "1", "content": "<b>1</b>"}
    server.body = json.dumps({"results": [result] * 1000}).encode()
    provider = await started(SearxngProvider, url)
    found = await provider.search(QUERY)
    assert len(found) == 200
    await provider.stop()


@pytest.mark.parametrize("kind", ANSWERS)
async def test_the_documented_answer_is_read(
    service: tuple[Service, str], kind: type[HttpProvider]
) -> None:
    server, url = service
    server.body = json.dumps(ANSWERS[kind]).encode()
    provider = await started(kind, url)
    found = await provider.search(QUERY)
    assert [(each.url, each.title, each.summary) for each in found] == EXPECTED
    assert await provider.read("https://a.example/1") is None
    assert provider.problem is None
    await provider.stop()


async def request_of(
    service: tuple[Service, str], kind: type[HttpProvider], searched: SearchQuery = QUERY
) -> tuple[str, str, dict[str, list[str]], dict[str, str], Any]:
    """Method, path, query, headers and JSON of the request."""
    server, url = service
    server.body = json.dumps(ANSWERS[kind]).encode()
    provider = await started(kind, url)
    await provider.search(searched)
    await provider.stop()
    method, target, headers, body = server.request
    parts = urlsplit(target)
    return method, parts.path, parse_qs(parts.query), headers, json.loads(body) if body else None


async def test_the_request_to_searxng(service: tuple[Service, str]) -> None:
    method, path, query, _, _ = await request_of(service, SearxngProvider)
    assert (method, path) == ("GET", "/search")
    sites = "(site:a.example OR site:b.example) -site:c.example"
    assert query == {"q": [f"tide tables {sites}"], "format": ["json"]}


async def test_the_request_to_brave(service: tuple[Service, str]) -> None:
    method, path, query, headers, _ = await request_of(service, BraveProvider)
    assert (method, path) == ("GET", "/web/search")
    assert query["q"][0].startswith("tide tables (site:a.example")
    assert (query["count"], query["country"]) == (["3"], ["DE"])
    assert (headers["x-subscription-token"], headers["cache-control"]) == (KEY, "no-cache")


async def test_the_request_to_tavily(service: tuple[Service, str]) -> None:
    method, path, _, headers, body = await request_of(service, TavilyProvider)
    assert (method, path, headers["authorization"]) == ("POST", "/search", f"Bearer {KEY}")
    assert body == {
        "query": "tide tables",
        "max_results": 3,
        "include_domains": ["a.example", "b.example"],
        "exclude_domains": ["c.example"],
    }


@pytest.mark.parametrize(("count", "asked"), [(20, 20), (21, 20), (25, 20)])
async def test_brave_and_tavily_are_asked_for_no_more_than_they_permit(
    service: tuple[Service, str], count: int, asked: int
) -> None:
    searched = replace(QUERY, count=count)
    _, _, query, _, _ = await request_of(service, BraveProvider, searched)
    _, _, _, _, body = await request_of(service, TavilyProvider, searched)
    assert (query["count"], body["max_results"]) == ([str(asked)], asked)


async def test_brave_and_tavily_are_asked_with_no_more_characters_than_they_permit(
    service: tuple[Service, str],
) -> None:
    searched = SearchQuery("harbours " * 48)
    _, _, query, _, _ = await request_of(service, BraveProvider, searched)
    _, _, _, _, body = await request_of(service, TavilyProvider, searched)
    assert query["q"] == [body["query"]] == [searched.text[:400]]


@pytest.mark.parametrize("text", ["harbours " * 48, "a b " * 100, "x" * 500])
@pytest.mark.parametrize("length", [9, 30, 190, 250])
async def test_brave_is_asked_for_whole_domains_beside_a_long_query(
    service: tuple[Service, str], text: str, length: int
) -> None:
    domains = tuple(f"{letter}.example".rjust(length, "x") for letter in "abcdefghijkl")
    searched = SearchQuery(text, 3, domains[:6], domains[6:])
    _, _, query, _, _ = await request_of(service, BraveProvider, searched)
    asked = query["q"][0]
    assert 380 <= len(asked) <= 400 or len(asked.split()) == 50
    assert len(asked.split()) <= 50
    words, _, sites = asked.partition("site:")
    assert text.startswith(words.rstrip(" (-"))
    named = re.findall(r"site:([^ )]+)", f"site:{sites}" if sites else "")
    assert set(named) <= set(domains)
    assert asked.count("(") == asked.count(")")


@pytest.mark.parametrize(
    ("length", "allowed", "blocked"),
    [(9, 6, 5), (20, 6, 1), (21, 6, 0), (30, 5, 0), (190, 1, 0), (250, 0, 0)],
)
async def test_brave_is_asked_for_blocked_domains_only_beside_all_allowed_ones(
    service: tuple[Service, str], length: int, allowed: int, blocked: int
) -> None:
    domains = tuple(f"{letter}.example".rjust(length, "x") for letter in "abcdefghijkl")
    searched = SearchQuery("harbours " * 48, 3, domains[:6], domains[6:])
    _, _, query, _, _ = await request_of(service, BraveProvider, searched)
    named = tuple(re.findall(r"site:([^ )]+)", query["q"][0]))
    assert named == domains[:allowed] + domains[6 : 6 + blocked]


async def test_brave_is_asked_for_all_ten_domains_beside_a_short_query(
    service: tuple[Service, str],
) -> None:
    domains = tuple(f"d{number}.example.com" for number in range(10))
    searched = SearchQuery("tide tables", 3, domains)
    _, _, query, _, _ = await request_of(service, BraveProvider, searched)
    sites = " OR ".join(f"site:{domain}" for domain in domains)
    assert query["q"] == [f"tide tables ({sites})"]


async def test_exa_and_you_are_asked_for_all_results(service: tuple[Service, str]) -> None:
    searched = replace(QUERY, count=25)
    _, _, _, _, exa = await request_of(service, ExaProvider, searched)
    _, _, _, _, you = await request_of(service, YouProvider, searched)
    assert (exa["numResults"], you["count"]) == (25, 25)


async def test_the_request_to_exa(service: tuple[Service, str]) -> None:
    method, path, _, headers, body = await request_of(service, ExaProvider)
    assert (method, path, headers["x-api-key"]) == ("POST", "/search", KEY)
    assert body == {
        "query": "tide tables",
        "numResults": 3,
        "includeDomains": ["a.example", "b.example"],
        "excludeDomains": ["c.example"],
        "userLocation": "DE",
        "contents": {"highlights": True},
    }


async def test_the_request_to_you(service: tuple[Service, str]) -> None:
    method, path, _, headers, body = await request_of(service, YouProvider)
    assert (method, path, headers["x-api-key"]) == ("POST", "/v1/search", KEY)
    assert body == {
        "query": "tide tables",
        "count": 3,
        "country": "DE",
        "include_domains": ["a.example", "b.example"],
        "exclude_domains": ["c.example"],
    }


@pytest.mark.parametrize("kind", ANSWERS)
async def test_services_are_asked_for_json_and_told_no_place_that_is_not_known(
    service: tuple[Service, str], kind: type[HttpProvider]
) -> None:
    server, _ = service
    _, _, _, headers, _ = await request_of(service, kind, SearchQuery("tide tables"))
    assert (headers["accept"], headers["accept-encoding"]) == ("application/json", ACCEPTED)
    _, target, _, body = server.request
    assert "country" not in target
    assert not re.search(b"country|location", body, re.IGNORECASE)


@pytest.mark.parametrize("kind", ANSWERS)
async def test_all_services_but_searxng_are_asked_through_the_proxy(
    service: tuple[Service, str], kind: type[HttpProvider]
) -> None:
    server, url = service
    async with running() as (proxy, proxy_url):
        server.body = proxy.body = json.dumps(ANSWERS[kind]).encode()
        [provider] = create(
            [f"{kind.name}:{url}"], ProviderOptions(environment=KEYS, proxy=proxy_url)
        )
        await provider.start()
        assert len(await provider.search(QUERY)) == 2
        await provider.stop()
    asked, other = (server, proxy) if kind is SearxngProvider else (proxy, server)
    # A proxy is asked for a whole URL.
    path = "/" if asked is server else f"{url}/"
    assert asked.request[1].startswith(path)
    assert other.request[1] == ""


@pytest.mark.parametrize("kind", ANSWERS)
@pytest.mark.parametrize(
    ("status", "text", "retryable"),
    [
        (400, "status 400", False),
        (401, "key is not valid", False),
        (402, "plan is used up", False),
        (403, "refuses this key", False),
        (422, "does not accept", False),
        (429, "rate limit", True),
        (432, "plan is used up", False),
        (433, "limit on spending", False),
        (500, "status 500", True),
        (503, "status 503", True),
    ],
)
async def test_documented_errors_are_named_without_the_key(
    service: tuple[Service, str],
    kind: type[HttpProvider],
    status: int,
    text: str,
    retryable: bool,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("DEBUG")
    server, url = service
    server.status = status
    server.body = json.dumps({"error": f"bad key {KEY} for tide tables"}).encode()
    provider = await started(kind, url)
    with pytest.raises(SearchError, match=text) as caught:
        await provider.search(QUERY)
    assert caught.value.retryable is retryable
    assert KEY not in str(caught.value)
    assert "tide" not in str(caught.value)
    assert KEY not in repr(ProviderOptions("", KEYS))
    assert KEY not in caplog.text
    await provider.stop()


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"Retry-After": "7"}, 7.0),
        ({"X-RateLimit-Reset": "1, 1419704"}, 1.0),
        ({"Retry-After": "Wed, 21 Oct 2026 07:28:00 GMT"}, None),
        ({"Retry-After": "nan"}, None),
        ({"Retry-After": "-1"}, None),
        ({}, None),
    ],
)
async def test_the_wait_that_a_service_asks_for_is_read(
    service: tuple[Service, str], headers: dict[str, str], seconds: float | None
) -> None:
    server, url = service
    server.status, server.headers = 429, headers
    provider = await started(BraveProvider, url)
    with pytest.raises(SearchError) as caught:
        await provider.search(QUERY)
    assert caught.value.retry_after == seconds
    await provider.stop()


@pytest.mark.parametrize(
    "body",
    [
        b"<html>",
        b"[" * 100_000,
        b"[]",
        b'{"results": [3]}',
        b'{"results": 3}',
        b'{"results": [{"title": "x"}]}',
    ],
)
async def test_an_answer_of_another_form_is_an_error(
    service: tuple[Service, str], body: bytes
) -> None:
    server, url = service
    server.body = body
    provider = await started(TavilyProvider, url)
    with pytest.raises(SearchError, match="another form"):
        await provider.search(QUERY)
    await provider.stop()


@pytest.mark.parametrize(
    ("status", "of_query"), [(400, True), (422, True), (401, False), (432, False), (503, False)]
)
async def test_an_error_of_the_query_says_nothing_of_others(
    service: tuple[Service, str], status: int, of_query: bool
) -> None:
    server, url = service
    server.status = status
    provider = await started(TavilyProvider, url)
    with pytest.raises(SearchError) as caught:
        await provider.search(QUERY)
    assert caught.value.of_query is of_query
    await provider.stop()


async def test_an_answer_that_is_too_large_is_an_error(service: tuple[Service, str]) -> None:
    server, url = service
    server.body = b"x" * (5 << 20)
    provider = await started(SearxngProvider, url)
    with pytest.raises(SearchError):
        await provider.search(QUERY)
    await provider.stop()


async def test_a_slow_service_is_an_error(
    service: tuple[Service, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    server, url = service
    server.waits = True
    monkeypatch.setattr("server.tools.browser.search.services.SECONDS", 0.1)
    provider = await started(SearxngProvider, url)
    with pytest.raises(SearchError, match="in time"):
        await provider.search(QUERY)
    await provider.stop()


async def test_a_service_that_is_not_there_is_an_error() -> None:
    provider = await started(SearxngProvider, f"http://{PRIVATE}:1")
    with pytest.raises(SearchError, match="cannot be reached"):
        await provider.search(QUERY)
    await provider.stop()


async def test_a_missing_key_is_a_problem() -> None:
    provider = BraveProvider(ProviderOptions())
    assert provider.problem == "brave needs a key in BRAVE_SEARCH_API_KEY"
    with pytest.raises(SearchError, match="BRAVE_SEARCH_API_KEY"):
        await provider.search(QUERY)
    await provider.stop()


@pytest.mark.parametrize("url", ["", "localhost:8080", "http://", "http://[", "http://:80"])
def test_searxng_needs_a_url(url: str) -> None:
    with pytest.raises(ValueError, match="needs a URL"):
        SearxngProvider(ProviderOptions(url))


def test_providers_are_made_by_name() -> None:
    specs = ["searxng:http://a.example", "brave", "you:https://proxy.example"]
    made = create(specs, ProviderOptions(environment=KEYS))
    assert [provider.name for provider in made] == ["searxng", "brave", "you"]
    assert check("exa") == "exa"
    with pytest.raises(ValueError, match="no search provider; there are files, searxng, brave"):
        check("gogle")


@pytest.mark.parametrize("spec", ["searxng", "searxng:a.example", "brave:foo", "files:~nobody-x/y"])
def test_an_invalid_argument_is_refused_where_the_option_is_read(spec: str) -> None:
    with pytest.raises(ValueError, match=r"needs a URL|unknown user"):
        check(spec)
