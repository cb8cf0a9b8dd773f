"""The browser of an answer: search, open, find, scroll, their texts, items and state."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from ipaddress import ip_network
from typing import Any

import pytest

from harmony.messages import Channel
from server.errors import InvalidRequest
from server.schemas.hosted_tools import SOURCES
from server.tools.base import Citation, ToolCall, ToolContext, ToolProgress, ToolResult
from server.tools.browser.cache import PageCache
from server.tools.browser.config import read_config
from server.tools.browser.loading import PageLoader
from server.tools.browser.page import Page
from server.tools.browser.search.base import SearchError, SearchQuery, SearchResult
from server.tools.browser.search.chain import SearchChain
from server.tools.browser.session import BrowserSession
from server.tools.browser.stack import MOST_OPEN, MOST_STORED, Entry, PageStack
from server.tools.fetch.addresses import AddressPolicy
from server.tools.fetch.client import FetchClient
from server.tools.fetch.pages import FetchedPage
from server.tools.fetch.urls import FetchPolicy
from tests.server.tools.fetch.network import PUBLIC, Site, answer


class Provider:
    """Finds what the test says."""

    name = "fake"
    problem = None

    def __init__(self) -> None:
        self.is_local = False
        self.queries: list[SearchQuery] = []
        self.results: list[SearchResult] = []
        self.error: SearchError | None = None

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    async def search(self, query: SearchQuery) -> Sequence[SearchResult]:
        self.queries.append(query)
        if self.error is not None:
            raise self.error
        return self.results

    async def read(self, url: str) -> FetchedPage | None:
        if url != "file-search://docs/a.md":
            return None
        return FetchedPage(url, "text/markdown", None, b"# Local\n\ntext")


async def public(host: str) -> list[str]:
    """The resolver: every name is on the site."""
    return [PUBLIC]


class World:
    """A site, a provider, and sessions of them."""

    def __init__(self) -> None:
        self.pages: dict[str, bytes] = {}
        self.site = Site(lambda path, headers: self.pages.get(path, answer("gone", 404)))
        self.provider = Provider()
        self.chain = SearchChain([self.provider])
        self.cache = PageCache()

    async def start(self) -> None:
        self.port = await self.site.listen([PUBLIC])
        policy = FetchPolicy(
            AddressPolicy((ip_network(f"{PUBLIC}/32"),)), ports=frozenset({80, self.port})
        )
        self.fetcher = FetchClient(policy, resolver=public, obeys_robots=False)
        self.loader = PageLoader(self.fetcher, self.chain, self.cache)

    async def stop(self) -> None:
        await self.loader.close()
        await self.fetcher.close()
        await self.site.close()

    def url(self, path: str) -> str:
        return f"http://{PUBLIC}:{self.port}{path}"

    def session(
        self,
        state: Mapping[str, Any] | None = None,
        *,
        owner: str = "a",
        include: frozenset[str] = frozenset(),
        timeout: float = 20.0,
        **config: Any,
    ) -> BrowserSession:
        context = ToolContext(owner, "resp_1", "tools.0", timeout, state, include)
        settings = read_config({"type": "web_search"} | config, "tools.0")
        return BrowserSession(settings, context, self.chain, self.loader)


@pytest.fixture
async def world() -> AsyncIterator[World]:
    world = World()
    await world.start()
    world.pages["/"] = answer(
        '<title>Home</title><p>Welcome</p><a href="/b">Next</a> <a href="/none">None</a>'
    )
    world.pages["/b"] = answer("<title>Page B</title>" + "<p>A line of B</p>" * 200 + "Needle")
    world.provider.results = [
        SearchResult(world.url("/"), "Home", "the first"),
        SearchResult(world.url("/b"), "Page B", "the second"),
    ]
    yield world
    await world.stop()


async def run(
    session: BrowserSession, function: str, content: str | None = None, **arguments: Any
) -> ToolResult:
    """The result; the progress before it has the same kind of action."""
    body = json.dumps(arguments) if content is None else content
    call = ToolCall("ws_1", f"browser.{function}", Channel.ANALYSIS, body)
    *progress, result = [event async for event in session.run(call)]
    assert isinstance(result, ToolResult)
    for event in progress:
        assert isinstance(event, ToolProgress)
        assert event.fields["action"]["type"] == result.fields["action"]["type"]
    return result


async def test_a_search_shows_results_as_links(world: World) -> None:
    result = await run(world.session(), "search", query="harbour tides")
    assert result.text == (
        "[0] harbour tides\n**viewing lines [0 - 5] of 5**\n\n"
        "L0: \nL1: URL: \nL2: # Search Results\nL3: \n"
        f"L4:   * 【0†Home†{PUBLIC}:{world.port}】 the first\n"
        f"L5:   * 【1†Page B†{PUBLIC}:{world.port}】 the second"
    )
    assert not result.failed
    assert result.fields == {
        "action": {"type": "search", "query": "harbour tides", "queries": ["harbour tides"]}
    }


async def test_sources_are_included_on_request(world: World) -> None:
    session = world.session(include=frozenset({SOURCES}))
    action = (await run(session, "search", query="x")).fields["action"]
    assert action["sources"] == [
        {"type": "url", "url": world.url("/")},
        {"type": "url", "url": world.url("/b")},
    ]


async def test_a_link_is_opened(world: World) -> None:
    session = world.session()
    await run(session, "search", query="x")
    result = await run(session, "open", id=0)
    assert result.text.startswith(
        f"[1] Home ({world.url('/')})\n**viewing lines [0 - 4] of 4**\n\nL0: \n"
    )
    assert result.text.endswith("L4: 【0†Next】 【1†None】")
    assert result.fields == {"action": {"type": "open_page", "url": world.url("/")}}


async def test_the_item_has_the_url_of_a_link_before_its_page_is_fetched(world: World) -> None:
    session = world.session()
    await run(session, "search", query="x")
    running = session.run(ToolCall("ws_1", "browser.open", Channel.ANALYSIS, '{"id": 1}'))
    progress = await anext(running)
    assert progress == ToolProgress({"action": {"type": "open_page", "url": world.url("/b")}})
    assert world.site.paths == []
    await running.aclose()


async def test_every_search_is_a_page_of_its_own(world: World) -> None:
    """The reference implementation overwrites the first one."""
    session = world.session()
    await run(session, "search", query="first")
    world.provider.results = [SearchResult("https://other.example/", "Other", "")]
    await run(session, "search", query="second")
    result = await run(session, "open", id=0, cursor=0)
    assert result.text.startswith("[2] Home")


async def test_scrolling_pushes_a_display(world: World) -> None:
    session = world.session()
    first = await run(session, "open", id=world.url("/b"))
    assert first.text.startswith("[0] Page B")
    second = await run(session, "open", loc=300, num_lines=5)
    assert second.text.startswith(
        f"[1] Page B ({world.url('/b')})\n**viewing lines [300 - 304] of "
    )
    assert second.fields == {"action": {"type": "open_page", "url": world.url("/b")}}
    assert world.site.paths == ["/b"]
    assert session.cite(1) == Citation(world.url("/b"), "Page B")


async def test_a_view_is_bounded_whatever_is_asked_for(world: World) -> None:
    world.pages["/long"] = answer("<p>some words on a line</p>" * 20_000)
    result = await run(world.session(), "open", id=world.url("/long"), num_lines=1_000_000)
    assert 10_000 < len(result.text) < 40_000


async def test_find_shows_matches_and_opens_them(world: World) -> None:
    session = world.session()
    await run(session, "open", id=world.url("/b"))
    found = await run(session, "find", pattern="needle")
    url = world.url("/b")
    assert found.text == (
        f"[1] Find results for text: `needle` in `Page B` ({url}/find?pattern=needle)\n"
        "**viewing lines [0 - 1] of 1**\n\nL0: # 【0†match at L402】\nL1: Needle"
    )
    assert found.fields == {"action": {"type": "find_in_page", "pattern": "needle", "url": url}}
    opened = await run(session, "open", id=0)
    assert opened.text.startswith(f"[2] Page B ({url})\n**viewing lines [398 - 402] of 402**")
    assert opened.fields == {"action": {"type": "open_page", "url": url}}
    assert session.cite(1) == session.cite(2) == Citation(url, "Page B")


async def test_a_scroll_of_find_results_shows_them_again(world: World) -> None:
    session = world.session()
    await run(session, "open", id=world.url("/b"))
    await run(session, "find", pattern="line of b")
    again = await run(session, "open", loc=4)
    assert again.text.startswith("[2] Find results for text: `line of b` in `Page B`")
    assert "L0: \n" in (await run(session, "open", id=1, loc=0)).text


async def test_a_match_near_the_beginning_is_opened_from_the_first_line(world: World) -> None:
    session = world.session()
    await run(session, "open", id=world.url("/"))
    assert "L0: # 【0†match at L2】" in (await run(session, "find", pattern="welcome")).text
    assert "**viewing lines [0 - " in (await run(session, "open", id=0)).text


async def test_half_surrogate_pairs_do_no_harm(world: World) -> None:
    result = await run(world.session(), "search", query="a\ud800b")
    assert world.provider.queries[0].text == "a?b"
    assert result.text.startswith("[0] a?b")


async def test_no_match_is_said(world: World) -> None:
    session = world.session()
    await run(session, "open", id=world.url("/"))
    result = await run(session, "find", pattern="absent")
    assert result.text.endswith("L0: No `find` results for pattern: `absent`")
    assert not result.failed


@pytest.mark.parametrize(
    ("function", "arguments", "text"),
    [
        ("open", {"id": 2}, "Invalid link id `2`."),
        ("open", {"id": "7"}, "Invalid link id `7`."),
        ("open", {"cursor": 2}, "Cursor `2` is out of range. Available cursor indices: [0 - 1]."),
        ("open", {"cursor": -5}, "Cursor `-5` is out of range. Available cursor indices: [0 - 1]."),
        ("find", {"pattern": "x", "cursor": 2}, "Cursor `2` is out of range."),
        ("open", {"loc": 5}, "Invalid location parameter: `5`. Cannot exceed page maximum of 4."),
        ("open", {"id": 1}, "/none`: HTTP status 404"),
        ("open", {"id": "http://127.0.0.1/"}, "`http://127.0.0.1/`: the address is not public"),
        ("open", {"id": "http://[x"}, "the URL is not valid"),
        ("open", {"id": "file-search://[x"}, "there is no such document"),
        ("open", {"id": "http://\ud800/"}, "Error fetching URL"),
        ("open", {"id": "file:///etc/passwd"}, "only http and https URLs can be opened"),
        ("open", {"id": "file-search://docs/none.md"}, "there is no such document"),
    ],
)
async def test_errors_are_texts_for_the_model(
    world: World, function: str, arguments: dict[str, Any], text: str
) -> None:
    session = world.session()
    await run(session, "search", query="x")
    await run(session, "open", id=0)
    result = await run(session, function, **arguments)
    assert text in result.text
    assert result.failed
    assert session.cite(2) is None


@pytest.mark.parametrize(
    ("function", "content", "text"),
    [
        ("search", "{", "not valid JSON"),
        ("search", "[]", "JSON object"),
        ("search", "{}", "`query` should be a text"),
        ("search", '{"query": "  "}', "`query` should be a text"),
        ("search", json.dumps({"query": "x" * 3000}), "longer than 2000"),
        ("search", '{"query": "x", "topn": "many"}', "`topn` should be an integer"),
        ("open", '{"id": 1.5}', "`id` should be an integer"),
        ("open", '{"cursor": true}', "`cursor` should be an integer"),
        ("open", '{"cursor": [1]}', "`cursor` should be an integer"),
        ("open", '{"loc": 1e30}', "`loc` should be an integer"),
        ("find", '{"pattern": 3}', "`pattern` should be a text"),
        ("exec", "{}", "Unknown function: exec"),
    ],
)
async def test_bad_arguments_are_errors_in_json(
    world: World, function: str, content: str, text: str
) -> None:
    result = await run(world.session(), function, content)
    assert text in json.loads(result.text)["error"]
    assert result.failed
    assert "type" in result.fields["action"]


async def test_calls_without_a_page_say_so(world: World) -> None:
    for function, content in (("open", ""), ("open", '{"id": 3}'), ("find", '{"pattern": "x"}')):
        result = await run(world.session(), function, content)
        assert result.text == "No pages to access!"


async def test_find_on_find_results_is_an_error(world: World) -> None:
    session = world.session()
    await run(session, "open", id=world.url("/"))
    await run(session, "find", pattern="welcome")
    assert (await run(session, "find", pattern="x")).failed


async def test_loose_arguments_are_read(world: World) -> None:
    session = world.session()
    await run(session, "search", query="x", topn="3", source="web")
    assert world.provider.queries[0].count == 3
    result = await run(session, "open", id="【1†Page B†x】", cursor=0.0, loc="2", num_lines=1)
    assert "**viewing lines [2 - 2]" in result.text
    assert (await run(session, "open", id=None, cursor=None)).text.startswith("[2]")


async def test_a_search_that_fails_is_a_text(world: World) -> None:
    world.provider.error = SearchError("fake failed: its rate limit is reached")
    result = await run(world.session(), "search", query="x")
    assert result.text == "Error during search for `x`: fake failed: its rate limit is reached"
    assert result.failed


async def test_no_results_are_said(world: World) -> None:
    world.provider.results = []
    result = await run(world.session(), "search", query="x")
    assert result.text.endswith("L4: No results.")


async def test_a_call_ends_in_time(world: World) -> None:
    async def wait(query: SearchQuery) -> Sequence[SearchResult]:
        await asyncio.Event().wait()
        return []

    world.provider.search = wait  # type: ignore[method-assign]
    result = await run(world.session(timeout=0.05), "search", query="x")
    assert result.text == "The call took longer than 0.05 seconds."


async def test_a_closed_call_ends_its_work(world: World) -> None:
    started, ended = asyncio.Event(), asyncio.Event()

    async def wait(query: SearchQuery) -> Sequence[SearchResult]:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return []

    world.provider.search = wait  # type: ignore[method-assign]
    events = world.session().run(
        ToolCall("ws_1", "browser.search", Channel.ANALYSIS, '{"query": "x"}')
    )
    await anext(events)
    task = asyncio.ensure_future(anext(events))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await events.aclose()
    assert ended.is_set()


# Configuration


async def test_the_context_size_sets_results_and_view(world: World) -> None:
    for size, count, most in (("low", 5, 5), ("medium", 10, 20), ("high", 20, 20)):
        session = world.session(search_context_size=size)
        await run(session, "search", query="x")
        await run(session, "search", query="x", topn=50)
        assert [query.count for query in world.provider.queries[-2:]] == [count, most]
    low = await run(world.session(search_context_size="low"), "open", id=world.url("/b"))
    high = await run(world.session(search_context_size="high"), "open", id=world.url("/b"))
    assert len(high.text) > 3 * len(low.text)


async def test_filters_apply_to_results_and_to_opened_pages(world: World) -> None:
    world.provider.results.append(SearchResult("https://sub.good.example/", "Good", ""))
    world.provider.results.append(SearchResult("https://notgood.example/", "Bad", ""))
    session = world.session(filters={"allowed_domains": ["good.example"]})
    result = await run(session, "search", query="x")
    assert "sub.good.example" in result.text
    assert "notgood.example" not in result.text
    assert PUBLIC not in result.text
    refused = await run(session, "open", id=world.url("/"))
    assert refused.text.endswith("the domain is not allowed")
    blocking = world.session(filters={"blocked_domains": [PUBLIC]})
    assert (await run(blocking, "open", id=world.url("/"))).failed


@pytest.mark.parametrize("host", ["blocked。example", "www.bücher.example", "straße.example"])
async def test_filters_apply_to_any_spelling_of_a_domain(world: World, host: str) -> None:
    url = f"http://{host}:{world.port}/"
    assert not (await run(world.session(), "open", id=url)).failed
    domains = ["blocked.example", "bücher.example", "straße.example"]
    blocking = world.session(filters={"blocked_domains": domains})
    assert (await run(blocking, "open", id=url)).text.endswith("the domain is not allowed")
    allowing = world.session(filters={"allowed_domains": domains})
    assert not (await run(allowing, "open", id=url)).failed


async def test_filters_apply_to_the_target_of_a_redirect(world: World) -> None:
    world.pages["/r"] = answer(status=302, Location=f"http://blocked.example:{world.port}/")
    assert not (await run(world.session(), "open", id=world.url("/r"))).failed
    session = world.session(filters={"blocked_domains": ["blocked.example"]})
    for _ in range(2):
        assert (await run(session, "open", id=world.url("/r"))).failed


async def test_without_web_access_only_known_pages_are_opened(world: World) -> None:
    closed = world.session(external_web_access=False)
    assert (await run(closed, "search", query="x")).text.endswith("web access is off")
    assert (await run(closed, "open", id=world.url("/"))).failed
    await run(world.session(), "open", id=world.url("/"))
    assert (await run(closed, "open", id=world.url("/"))).text.startswith("[0] Home")
    local = await run(closed, "open", id="file-search://docs/a.md#part")
    assert local.text.startswith("[1] Local (file-search://docs/a.md)")
    world.provider.is_local = True
    assert not (await run(closed, "search", query="x")).failed


async def test_pages_of_other_owners_are_not_seen(world: World) -> None:
    await run(world.session(owner="a"), "open", id=world.url("/"))
    other = world.session(owner="b", external_web_access=False)
    assert (await run(other, "open", id=world.url("/"))).failed
    await run(world.session(owner="a"), "open", id=world.url("/"))
    assert world.site.paths == ["/"]


async def test_the_source_of_a_page_is_shown(world: World) -> None:
    session = world.session()
    await run(session, "open", id=world.url("/"))
    result = await run(session, "open", view_source=True)
    assert "L2: <title>Home</title>" in result.text


async def test_a_url_without_a_scheme_is_opened_by_https(world: World) -> None:
    result = await run(world.session(), "open", id="127.0.0.1/x")
    assert result.fields == {"action": {"type": "open_page", "url": "https://127.0.0.1/x"}}


def test_the_declaration_is_that_of_the_training(world: World) -> None:
    declaration = world.session().declaration
    assert declaration.name == "browser"
    assert declaration.item == "web_search_call"
    assert declaration.cites
    assert [call.recipient for call in declaration.calls] == [
        "browser.search",
        "browser.open",
        "browser.find",
    ]
    assert declaration.namespace is not None
    assert declaration.namespace.name == "browser"


def test_the_tool_is_echoed_with_its_defaults(world: World) -> None:
    assert world.session().declaration.echo == {
        "type": "web_search",
        "search_context_size": "medium",
        "user_location": None,
        "filters": None,
    }
    echo = world.session(
        type="web_search_preview",
        search_context_size="low",
        user_location={"type": "approximate", "country": "de", "city": "Köln"},
    ).declaration.echo
    assert echo == {
        "type": "web_search_preview",
        "search_context_size": "low",
        "user_location": {
            "type": "approximate",
            "country": "DE",
            "region": None,
            "city": "Köln",
            "timezone": None,
        },
    }
    full = world.session(
        filters={
            "allowed_domains": ["*.Good.example", "bücher.example"],
            "blocked_domains": ["x.example"],
        },
        external_web_access=True,
    ).declaration.echo
    assert full["filters"] == {
        "allowed_domains": ["good.example", "xn--bcher-kva.example"],
        "blocked_domains": ["x.example"],
    }
    assert full["external_web_access"] is True


def test_the_number_of_results_is_limited_as_openrouter_does() -> None:
    config = {"type": "web_search", "search_context_size": "low"}
    sizes = [
        read_config(config | {"max_results": most}, "plugins.0").size for most in (None, 3, 1000)
    ]
    assert [(size.count, size.most, size.tokens) for size in sizes] == [
        (5, 5, 512),
        (3, 3, 512),
        (25, 25, 512),
    ]


def test_the_location_of_chat_is_nested() -> None:
    place = {"type": "approximate", "approximate": {"country": "FR"}}
    assert read_config({"type": "web_search", "user_location": place}, "w").location.country == "FR"


@pytest.mark.parametrize(
    ("config", "param"),
    [
        ({"search_context_size": "huge"}, "search_context_size"),
        ({"search_context_size": ["low"]}, "search_context_size"),
        ({"external_web_access": "no"}, "external_web_access"),
        ({"filters": []}, "filters"),
        ({"filters": {"allowed_domains": "x"}}, "filters.allowed_domains"),
        ({"filters": {"allowed_domains": ["x"] * 101}}, "filters.allowed_domains"),
        ({"filters": {"allowed_domains": ["https://x.example"]}}, "filters.allowed_domains.0"),
        ({"filters": {"blocked_domains": ["a.example", ""]}}, "filters.blocked_domains.1"),
        ({"filters": {"blocked_domains": [3]}}, "filters.blocked_domains.0"),
        ({"filters": {"blocked_domains": ["é" * 200]}}, "filters.blocked_domains.0"),
        ({"user_location": "Paris"}, "user_location"),
        ({"max_results": 0}, "max_results"),
        ({"user_location": {"country": "France"}}, "user_location.country"),
        ({"user_location": {"city": 5}}, "user_location.city"),
    ],
)
def test_an_invalid_field_is_named(config: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        read_config({"type": "web_search"} | config, "tools.2")
    assert caught.value.param == f"tools.2.{param}"


# State and citations


async def test_old_cursors_work_in_the_next_turn(world: World) -> None:
    first = world.session()
    assert first.state is None
    await run(first, "search", query="x")
    await run(first, "open", id=0)
    await run(first, "open", id=world.url("/b"))
    await run(first, "find", pattern="needle")
    second = world.session(json.loads(json.dumps(first.state)))
    assert [second.cite(cursor) for cursor in range(-1, 5)] == [
        None,
        None,
        Citation(world.url("/"), "Home"),
        Citation(world.url("/b"), "Page B"),
        Citation(world.url("/b"), "Page B"),
        None,
    ]
    assert (await run(second, "open", id=1, cursor=0)).text.startswith("[4] Page B")
    assert (await run(second, "open", id=0, cursor=3)).text.startswith("[5] Page B")


async def test_a_search_page_is_cited_by_the_result_at_the_line(world: World) -> None:
    session = world.session()
    await run(session, "search", query="x")
    assert session.cite(0) is None
    assert session.cite(0, 2) is None
    assert session.cite(0, 4) == Citation(world.url("/"), "Home")
    assert session.cite(0, 5) == Citation(world.url("/b"), "Page B")


async def test_find_results_on_a_search_page_are_cited_by_the_result_at_the_line(
    world: World,
) -> None:
    session = world.session()
    await run(session, "search", query="x")
    found = await run(session, "find", pattern="the first")
    assert "L1:   * Home the first\nL2:   * Page B the second" in found.text
    assert session.cite(1) is None
    assert session.cite(1, 0) == session.cite(1, 1) == Citation(world.url("/"), "Home")
    assert session.cite(1, 2) == Citation(world.url("/b"), "Page B")
    await run(session, "find", pattern="search results", cursor=0)
    assert session.cite(2, 1) is None
    assert session.cite(2, 3) == Citation(world.url("/"), "Home")


async def test_each_line_that_find_results_quote_is_cited_by_its_result(world: World) -> None:
    world.provider.results = [
        SearchResult(f"https://{number}.example/", f"Result {number}", "words")
        for number in range(8)
    ]
    session = world.session()
    await run(session, "search", query="x")
    found = await run(session, "find", pattern="words")
    titles = re.findall(r"^L(\d+):   \* (Result \d) words$", found.text, re.MULTILINE)
    assert len(titles) == 8
    for line, title in titles:
        citation = session.cite(1, int(line))
        assert citation is not None
        assert citation.title == title


async def test_find_results_without_a_match_are_cited_by_the_page(world: World) -> None:
    session = world.session()
    await run(session, "open", id=world.url("/b"))
    await run(session, "find", pattern="nowhere")
    assert session.cite(1, 0) == Citation(world.url("/b"), "Page B")


async def with_old_pages(world: World, session: BrowserSession) -> BrowserSession:
    """The session of the next turn, which has not got the texts of the pages so far."""
    world.pages["/long"] = answer("<p>words</p>" * 100_000)
    assert not (await run(session, "open", id=world.url("/long"))).failed
    return world.session(json.loads(json.dumps(session.state)))


async def test_a_link_of_an_older_page_is_opened(world: World) -> None:
    first = world.session()
    await run(first, "open", id=world.url("/"))
    session = await with_old_pages(world, first)
    result = await run(session, "open", id=0, cursor=0)
    assert result.text.startswith("[2] Page B")
    assert result.fields == {"action": {"type": "open_page", "url": world.url("/b")}}
    wrong = await run(session, "open", id=7, cursor=0)
    assert (wrong.text, wrong.failed) == ("Invalid link id `7`.", True)


async def test_the_source_of_an_older_page_is_shown_again_as_such(world: World) -> None:
    world.pages["/tags"] = answer("<p>one</p>")
    first = world.session()
    await run(first, "open", id=world.url("/tags"), view_source=True)
    await run(first, "open", id=world.url("/tags"))
    session = await with_old_pages(world, first)
    shown = [(await run(session, "open", cursor=cursor)).text for cursor in (0, 1)]
    assert ["<p>one</p>" in text for text in shown] == [True, False]


async def test_an_older_page_is_scrolled_and_its_source_is_shown(world: World) -> None:
    session = world.session()
    for path in ("/", "/b"):
        await run(session, "open", id=world.url(path))
    for as_source, shown in ((False, "Welcome"), (True, "<p>Welcome</p>")):
        result = await run(session, "open", cursor=0, view_source=as_source)
        assert shown in result.text
        assert result.fields == {"action": {"type": "open_page", "url": world.url("/")}}


@pytest.mark.parametrize(
    ("filters", "allowed"),
    [
        ({"allowed_domains": [PUBLIC]}, True),
        ({"allowed_domains": ["a.example"]}, False),
        ({"blocked_domains": [PUBLIC]}, False),
    ],
)
async def test_older_pages_are_shown_where_the_request_allows_their_domain(
    world: World, filters: dict[str, Any], allowed: bool
) -> None:
    first = world.session()
    await run(first, "open", id=world.url("/b"))
    await run(first, "find", pattern="needle")
    session = world.session(json.loads(json.dumps(first.state)), filters=filters)
    shown = [
        await run(session, "open", cursor=0),
        await run(session, "find", pattern="line", cursor=0),
        await run(session, "open", id=0, cursor=1),
        await run(session, "open", cursor=1),
    ]
    assert [each.failed for each in shown] == [not allowed] * 4
    assert all(("is not allowed" in each.text) is not allowed for each in shown)


@pytest.mark.parametrize(
    ("filters", "allowed"),
    [
        ({"allowed_domains": [PUBLIC, "b.example"]}, True),
        ({"allowed_domains": [PUBLIC]}, False),
        ({"blocked_domains": ["b.example"]}, False),
    ],
)
async def test_older_results_are_shown_where_the_request_allows_all_their_domains(
    world: World, filters: dict[str, Any], allowed: bool
) -> None:
    world.provider.results.append(SearchResult("https://b.example/", "Other", "the third"))
    first = world.session()
    await run(first, "search", query="x")
    await run(first, "find", pattern="third")
    session = world.session(json.loads(json.dumps(first.state)), filters=filters)
    shown = [
        await run(session, "open", cursor=0),
        await run(session, "find", pattern="other", cursor=0),
        await run(session, "open", cursor=1),
    ]
    assert [each.failed for each in shown] == [not allowed] * 3
    assert all(("is not allowed" in each.text) is not allowed for each in shown)


async def test_find_results_of_search_results_are_not_shown_after_these_were_dropped(
    world: World,
) -> None:
    first = world.session()
    await run(first, "search", query="x")
    await run(first, "find", pattern="first")
    state = json.loads(json.dumps(first.state))
    state["pages"][0] |= {"text": "", "links": []}
    session = world.session(state, filters={"blocked_domains": [PUBLIC]})
    assert "Search again" in (await run(session, "open", cursor=1)).text


async def test_a_page_without_results_is_shown_again_whatever_domains_are_allowed(
    world: World,
) -> None:
    world.provider.results = []
    session = world.session(filters={"allowed_domains": ["a.example"]})
    await run(session, "search", query="x")
    assert "No results." in (await run(session, "open", cursor=0)).text


async def test_a_link_of_older_search_results_is_not_opened(world: World) -> None:
    first = world.session()
    await run(first, "search", query="x")
    session = await with_old_pages(world, first)
    assert "Search again" in (await run(session, "open", id=0, cursor=0)).text


async def test_a_match_of_older_find_results_is_opened(world: World) -> None:
    first = world.session()
    await run(first, "open", id=world.url("/b"))
    await run(first, "find", pattern="needle")
    session = await with_old_pages(world, first)
    result = await run(session, "open", id=0, cursor=1)
    assert result.text.startswith(f"[3] Page B ({world.url('/b')})\n**viewing lines [398 - 402]")
    assert (await run(session, "open", id=1, cursor=1)).text == "Invalid link id `1`."


async def test_as_many_characters_are_stored_as_the_limit_says(world: World) -> None:
    session = world.session()
    for name in "xyz":
        world.pages[f"/{name}"] = answer(f"<p>{'w' * (MOST_STORED // 2 - 1000)}</p>")
        await run(session, "open", id=world.url(f"/{name}"))
    state = session.state
    assert state is not None
    assert [bool(page["text"]) for page in state["pages"]] == [False, True, True]


async def test_a_page_that_was_shown_several_times_is_stored_once(world: World) -> None:
    session = world.session()
    for name in "xy":
        world.pages[f"/{name}"] = answer(f"<p>{'w' * (MOST_STORED // 2 - 1000)}</p>")
    await run(session, "open", id=world.url("/x"))
    for _ in range(3):
        await run(session, "open", loc=10)
    await run(session, "open", id=world.url("/y"))
    state = session.state
    assert state is not None
    assert [bool(page["text"]) for page in state["pages"]] == [True, True]


def test_the_links_of_pages_count_for_what_is_stored() -> None:
    stack, links = PageStack(), ("x" * (MOST_STORED // 2 + 1),)
    for name in ("old", "new"):
        stack.push(Entry(Page(f"https://{name}.example/", name, "text", links), "page"))
    state = stack.to_json()
    assert state is not None
    assert [page["text"] for page in state["pages"]] == ["", "text"]


def test_as_many_characters_are_in_memory_as_the_limit_says() -> None:
    stack, half = PageStack(), "x" * (MOST_OPEN // 2)
    dropped = []
    for text in (half, half, "x"):
        last = stack.push(Entry(Page("https://a.example/", "a", text), "page"))
        dropped.append([stack.get(cursor)[1].is_dropped for cursor in range(last + 1)])
    assert dropped == [[False], [False, False], [True, False, False]]
    assert stack.cite(0) == Citation("https://a.example/", "a")


async def test_what_is_stored_is_bounded(world: World) -> None:
    session = world.session()
    await run(session, "search", query="x")
    for number in range(4):
        world.pages[f"/{number}"] = answer(f"<title>{number}</title>" + "<p>words</p>" * 20_000)
        await run(session, "open", id=world.url(f"/{number}"))
    state = session.state
    assert len(json.dumps(state)) < 2 * MOST_STORED
    later = world.session(state)
    assert later.cite(1) == Citation(world.url("/0"), "0")
    assert (await run(later, "open", cursor=1)).text.startswith("[5] 0 (")
    assert "Search again" in (await run(later, "open", cursor=0)).text
    assert later.cite(0, 4) is None


async def test_a_state_of_an_earlier_server_is_read(world: World) -> None:
    first = world.session()
    await run(first, "open", id=world.url("/b"))
    state = json.loads(json.dumps(first.state))
    for entry in state["stack"]:
        del entry["is_markup"]
    second = world.session(state)
    assert (await run(second, "open", cursor=0)).text.startswith("[1] Page B")


async def test_a_state_of_another_version_is_left(world: World) -> None:
    assert world.session({"version": 99}).state is None


async def test_sessions_do_not_mix(world: World) -> None:
    sessions = [world.session() for _ in range(100)]

    async def work(number: int) -> str:
        session = sessions[number]
        await run(session, "search", query=f"query {number}")
        await run(session, "open", id=number % 2)
        return (await run(session, "open", cursor=0)).text

    texts = await asyncio.gather(*map(work, range(100)))
    assert all(text.startswith(f"[2] query {number}\n") for number, text in enumerate(texts))


def test_a_page_that_is_larger_than_the_cache_is_not_cached() -> None:
    cache = PageCache(most_bytes=100)
    cache.put("a", "u", Page("u", "t", "x" * 1000))
    assert cache.get("a", "u") is None


def test_cached_pages_expire() -> None:
    now = [0.0]
    cache = PageCache(clock=lambda: now[0])
    cache.put("a", "u", Page("u", "t", "x"))
    now[0] = 899.0
    assert cache.get("a", "u") is not None
    now[0] = 901.0
    assert cache.get("a", "u") is None
