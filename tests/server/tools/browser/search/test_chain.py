"""Several providers: fail-over, retries, and pauses after failures."""

from collections.abc import Sequence

import pytest

from server.tools.browser.search.base import SearchError, SearchQuery, SearchResult
from server.tools.browser.search.chain import SearchChain
from server.tools.fetch.pages import FetchedPage

QUERY = SearchQuery("x", 2)
PAGE = FetchedPage("file-search://a/b", "text/plain", None, b"")


class Provider:
    """Answers with the next of its outcomes; the last one is repeated."""

    def __init__(self, name: str, *outcomes: SearchError | list[str], local: bool = False) -> None:
        self.name = name
        self.is_local = local
        self.problem: str | None = None
        self.calls = 0
        self._outcomes = list(outcomes)

    async def start(self) -> None:
        if not self._outcomes:
            self.problem = f"{self.name} has nothing"

    async def stop(self) -> None: ...

    async def search(self, query: SearchQuery) -> Sequence[SearchResult]:
        self.calls += 1
        outcome = self._outcomes.pop(0) if len(self._outcomes) > 1 else self._outcomes[0]
        if isinstance(outcome, SearchError):
            raise outcome
        return [SearchResult(url, "t", "s") for url in outcome]

    async def read(self, url: str) -> FetchedPage | None:
        return PAGE if self.is_local else None


BROKEN = SearchError("broken")
SHORT = SearchError("short", retryable=True, retry_after=0.0)
LONG = SearchError("long", retryable=True, retry_after=60.0)


async def urls(chain: SearchChain, query: SearchQuery = QUERY, *, web: bool = True) -> list[str]:
    return [result.url for result in await chain.search(query, web=web)]


async def test_the_next_provider_is_asked_when_one_fails_or_finds_nothing() -> None:
    first, second, third = Provider("a", BROKEN), Provider("b", []), Provider("c", ["https://c/"])
    assert await urls(SearchChain([first, second, third])) == ["https://c/"]
    assert (first.calls, second.calls) == (1, 1)


async def test_the_second_is_not_asked_when_the_first_answers() -> None:
    second = Provider("b", BROKEN)
    assert await urls(SearchChain([Provider("a", ["https://a/"]), second])) == ["https://a/"]
    assert second.calls == 0


async def test_nothing_found_is_no_error() -> None:
    assert await urls(SearchChain([Provider("a", []), Provider("b", BROKEN)])) == []


async def test_all_errors_are_named() -> None:
    with pytest.raises(SearchError, match="broken; long"):
        await urls(SearchChain([Provider("a", BROKEN), Provider("b", LONG), Provider("c", BROKEN)]))


async def test_a_short_failure_is_tried_again() -> None:
    provider = Provider("a", SHORT, ["https://a/"])
    assert await urls(SearchChain([provider])) == ["https://a/"]
    assert provider.calls == 2


async def test_a_failure_without_a_wait_is_tried_again() -> None:
    provider = Provider("a", SearchError("x", retryable=True), ["https://a/"])
    assert await urls(SearchChain([provider])) == ["https://a/"]


async def test_a_provider_that_fails_again_and_again_is_paused() -> None:
    now = [100.0]
    provider = Provider("a", BROKEN)
    chain = SearchChain([provider], clock=lambda: now[0])
    for _ in range(5):
        with pytest.raises(SearchError):
            await urls(chain)
    assert provider.calls == 3
    now[0] += 31
    with pytest.raises(SearchError, match="broken"):
        await urls(chain)
    assert provider.calls == 4


async def test_only_failures_in_a_row_pause_a_provider() -> None:
    provider = Provider("a", BROKEN, BROKEN, ["https://a/"], BROKEN, BROKEN, ["https://a/"])
    chain = SearchChain([provider, Provider("b", [])])
    assert [await urls(chain) for _ in range(6)] == [[], [], ["https://a/"]] * 2


async def test_a_provider_is_paused_for_five_minutes_at_most() -> None:
    now = [0.0]
    provider = Provider("a", SearchError("limit", retry_after=86_400.0), ["https://a/"])
    chain = SearchChain([provider, Provider("b", [])], clock=lambda: now[0])
    found = []
    for now[0] in (0.0, 299.0, 300.0):
        found.append(await urls(chain))
    assert found == [[], [], ["https://a/"]]


async def test_a_provider_that_refuses_queries_is_not_paused() -> None:
    refusal = SearchError("too long", of_query=True)
    provider = Provider("a", *[refusal] * 5, ["https://a/"])
    chain = SearchChain([provider])
    for _ in range(5):
        with pytest.raises(SearchError, match="too long"):
            await urls(chain)
    assert await urls(chain) == ["https://a/"]


async def test_a_provider_that_asks_for_a_long_wait_is_paused() -> None:
    now = [0.0]
    provider = Provider("a", LONG, ["https://a/"])
    chain = SearchChain([provider], clock=lambda: now[0])
    for _ in range(2):
        with pytest.raises(SearchError):
            await urls(chain)
    assert provider.calls == 1
    now[0] = 61.0
    assert await urls(chain) == ["https://a/"]


async def test_results_are_distinct_permitted_and_counted() -> None:
    found = [
        "https://a.example/1",
        "https://b.example/",
        "https://a.example/1",
        "https://x.a.example/2",
        "https://a.example/3",
    ]
    query = SearchQuery("x", 2, ("a.example",), ("b.example",))
    assert await urls(SearchChain([Provider("a", found)]), query) == [
        "https://a.example/1",
        "https://x.a.example/2",
    ]


async def test_without_the_web_only_local_providers_are_asked() -> None:
    web, local = Provider("a", ["https://a/"]), Provider("b", ["file-search://b/"], local=True)
    assert await urls(SearchChain([web, local]), web=False) == ["file-search://b/"]
    assert web.calls == 0
    with pytest.raises(SearchError, match="web access is off"):
        await urls(SearchChain([web]), web=False)


async def test_a_provider_with_a_problem_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    empty = Provider("a")
    chain = SearchChain([empty, Provider("b", ["https://b/"])])
    await chain.start()
    assert chain.problem is None
    assert await urls(chain) == ["https://b/"]
    assert empty.calls == 0
    assert "a has nothing" in caplog.text
    await chain.stop()


async def test_the_problems_of_all_are_named() -> None:
    chain = SearchChain([Provider("a"), Provider("b")])
    await chain.start()
    assert chain.problem == "a has nothing; b has nothing"
    assert SearchChain([]).problem == "no search provider is configured"
    with pytest.raises(SearchError, match="no search provider can be used"):
        await urls(chain)


async def test_documents_are_read_where_they_are() -> None:
    chain = SearchChain([Provider("a", []), Provider("b", [], local=True)])
    assert await chain.read("file-search://a/b") is PAGE
    assert await SearchChain([]).read("x") is None
