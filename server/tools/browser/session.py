"""The browser of one answer: runs search, open and find on a stack of pages.

Results and errors are texts in the form of gpt-oss's reference implementation, whose output the
model was trained on.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import quote

from harmony.tools import BROWSER
from server import threads
from server.schemas.hosted_tools import SOURCES
from server.tools.base import (
    Citation,
    ToolCall,
    ToolContext,
    ToolDeclaration,
    ToolEvent,
    ToolProgress,
    ToolResult,
)
from server.tools.browser.calls import (
    NAME,
    BadCall,
    Find,
    Open,
    Search,
    callable_tools,
    function_of,
    parse,
)
from server.tools.browser.config import SearchConfig
from server.tools.browser.lines import MATCH_LINES, display, find, view_end, wrap
from server.tools.browser.loading import LoadError, PageLoader
from server.tools.browser.page import Links, Page, make_page, one_line
from server.tools.browser.search.base import SearchError, SearchQuery, SearchResult, permits
from server.tools.browser.search.chain import SearchChain
from server.tools.browser.stack import Entry, NoSuchPage, PageStack

_CALLS = callable_tools()
_SMALL = 1 << 16
_MOST_VIEWS = 4
"""A call that asks for many lines gets at most so many views at once."""
_NO_ACTIONS: dict[str, dict[str, Any]] = {
    "open": {"type": "open_page", "url": None},
    "find": {"type": "find_in_page", "pattern": "", "url": ""},
}


class UsageError(Exception):
    """A call that makes no sense on these pages. The message is for the model."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a call did: the text for the model and the final action of its item."""

    text: str
    action: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Step:
    """A call that is understood: its action so far, and its work."""

    action: Mapping[str, Any]
    work: Callable[[], Awaitable[Outcome]]


class BrowserSession:
    """The tool session of the browser. Implements `ToolSession`."""

    def __init__(
        self, config: SearchConfig, context: ToolContext, chain: SearchChain, loader: PageLoader
    ) -> None:
        self._config = config
        self._context = context
        self._chain = chain
        self._loader = loader
        self._stack = PageStack(context.state)
        self._permits = partial(permits, config.allowed, config.blocked)
        self._declaration = ToolDeclaration(
            name=NAME,
            type=config.type,
            item="web_search_call",
            calls=_CALLS,
            echo=config.echo,
            namespace=BROWSER,
            cites=True,
        )

    @property
    def declaration(self) -> ToolDeclaration:
        """How the request uses the browser."""
        return self._declaration

    @property
    def state(self) -> Mapping[str, Any] | None:
        """The stack of pages, for the next turn."""
        return self._stack.to_json()

    def cite(self, cursor: int, line: int | None = None) -> Citation | None:
        """The source behind a marker; `line` finds the result of a page of search results."""
        return self._stack.cite(cursor, line)

    async def close(self) -> None:
        """Nothing is open between calls."""

    async def run(self, call: ToolCall) -> AsyncGenerator[ToolEvent, None]:
        """Run a call; every failure is a result with a text for the model."""
        name = function_of(call.recipient)
        action: Mapping[str, Any] = _NO_ACTIONS.get(name, {"type": "search"})
        try:
            step = self._step(call)
            action = step.action
            yield ToolProgress({"action": action})
            outcome = await self._within_time(step.work)
        except BadCall as error:
            text = json.dumps({"error": str(error)}, ensure_ascii=False)
            yield ToolResult(text, failed=True, fields={"action": action})
        except (NoSuchPage, UsageError, LoadError) as error:
            yield ToolResult(str(error), failed=True, fields={"action": action})
        else:
            yield ToolResult(outcome.text, fields={"action": outcome.action})

    async def _within_time(self, work: Callable[[], Awaitable[Outcome]]) -> Outcome:
        try:
            async with asyncio.timeout(self._context.timeout):
                return await work()
        except TimeoutError as error:
            raise UsageError(
                f"The call took longer than {self._context.timeout:g} seconds."
            ) from error

    def _step(self, call: ToolCall) -> Step:
        match parse(call.recipient, call.content):
            case Search() as search:
                action = {"type": "search", "query": search.query, "queries": [search.query]}
                return Step(action, lambda: self._search(search, action))
            case Open() as opening:
                return self._opening(opening)
            case Find() as finding:
                cursor, entry = self._stack.get(finding.cursor)
                if entry.kind == "find":
                    raise UsageError("Cannot run `find` on a page of find results.")
                url = entry.page.url
                action = {"type": "find_in_page", "pattern": finding.pattern, "url": url}
                return Step(action, lambda: self._find(finding, cursor, action))

    # Search

    async def _search(self, search: Search, action: Mapping[str, Any]) -> Outcome:
        config = self._config
        query = SearchQuery(
            text=search.query,
            count=min(search.count or config.size.count, config.size.most),
            allowed_domains=config.allowed,
            blocked_domains=config.blocked,
            location=config.location,
        )
        try:
            results = await self._chain.search(query, web=config.web)
        except SearchError as error:
            raise UsageError(
                f"Error during search for `{one_line(search.query)}`: {error}"
            ) from error
        page, titles = _results_page(search.query, results)
        text = await self._show(Entry(page, "search", titles=titles), 0, -1)
        if SOURCES in self._context.include:
            sources = [{"type": "url", "url": url} for url in page.links]
            action = {**action, "sources": sources}
        return Outcome(text, action)

    # Open

    def _opening(self, opening: Open) -> Step:
        if opening.url is not None:
            return self._loading(opening, _with_scheme(opening.url))
        cursor, entry = self._stack.get(opening.cursor)
        if opening.link < 0:
            url = self._source(entry).page.url
            if opening.source:
                return self._loading(opening, url)
            action = {"type": "open_page", "url": url or None}
            return Step(action, lambda: self._scroll(opening, cursor, action))
        if entry.kind == "find":
            return self._opening_match(opening, entry)
        if entry.is_dropped:
            return Step(_NO_ACTIONS["open"], lambda: self._follow_again(opening, cursor))
        return self._following(opening, entry)

    def _opening_match(self, opening: Open, found: Entry) -> Step:
        if opening.link >= len(found.lines):
            raise UsageError(f"Invalid link id `{opening.link}`.")
        line = opening.line
        if line < 0:
            line = max(0, found.lines[opening.link] - MATCH_LINES)
        target = Open(line=line, lines=opening.lines)
        action = {"type": "open_page", "url": self._source(found).page.url or None}
        return Step(action, lambda: self._scroll(target, found.source, action))

    def _following(self, opening: Open, entry: Entry) -> Step:
        if opening.link >= len(entry.page.links):
            raise UsageError(f"Invalid link id `{opening.link}`.")
        return self._loading(opening, entry.page.links[opening.link])

    async def _follow_again(self, opening: Open, cursor: int) -> Outcome:
        """Follow a link of a page whose links were dropped with its text."""
        return await self._following(opening, await self._entry(cursor)).work()

    def _source(self, entry: Entry) -> Entry:
        """The entry of the page itself, for a page of find results."""
        return self._stack.get(entry.source)[1] if entry.kind == "find" else entry

    def _loading(self, opening: Open, url: str) -> Step:
        action = {"type": "open_page", "url": url or None}

        async def work() -> Outcome:
            page = await self._load(url, source=opening.source)
            entry = Entry(page, "page", is_markup=opening.source)
            text = await self._show(entry, max(opening.line, 0), opening.lines)
            return Outcome(text, action)

        return Step(action, work)

    async def _scroll(self, opening: Open, cursor: int, action: Mapping[str, Any]) -> Outcome:
        entry = await self._entry(cursor)
        return Outcome(await self._show(entry, max(opening.line, 0), opening.lines), action)

    async def _load(self, url: str, *, source: bool = False) -> Page:
        return await self._loader.load(
            url, self._context.owner, self._permits, web=self._config.web, source=source
        )

    async def _entry(self, cursor: int) -> Entry:
        """The entry with its text, which is fetched again if it was dropped.

        It may be of an earlier request, which allowed other domains.
        """
        cursor, entry = self._stack.get(cursor)
        source = self._source(entry)
        # Without the links of search results, their domains are not known either.
        if any(each.is_dropped and each.kind != "page" for each in (entry, source)):
            raise UsageError(f"The page of cursor `{cursor}` is too old. Search again.")
        urls = source.page.links if source.kind == "search" else (source.page.url,)
        if not all(map(self._permits, urls)):
            raise LoadError(f"A domain of the page of cursor `{cursor}` is not allowed.")
        if not entry.is_dropped:
            return entry
        page = await self._load(entry.page.url, source=entry.is_markup)
        self._stack.renew(cursor, page)
        return self._stack.get(cursor)[1]

    # Find

    async def _find(self, finding: Find, cursor: int, action: Mapping[str, Any]) -> Outcome:
        page = (await self._entry(cursor)).page
        matches = await threads.run(
            lambda: find(wrap(page.text), finding.pattern),
            threads.counted(len(page.text), _SMALL),
        )
        pattern = one_line(finding.pattern)
        text = "\n\n".join(
            f"# 【{number}†match at L{match.line}】\n{match.text}"
            for number, match in enumerate(matches)
        )
        found = Page(
            url=f"{page.url}/find?pattern={quote(finding.pattern)}",
            title=f"Find results for text: `{pattern}` in `{page.title}`",
            text=text or f"No `find` results for pattern: `{pattern}`",
            links=tuple(page.url for _ in matches),
        )
        lines = tuple(match.line for match in matches)
        return Outcome(await self._show(Entry(found, "find", (), lines, cursor), 0, -1), action)

    async def _show(self, entry: Entry, start: int, count: int) -> str:
        """Push the entry and show a part of it. Raises UsageError, and then pushes nothing."""
        text = entry.page.text
        lines = await threads.run(lambda: wrap(text), threads.counted(len(text), _SMALL))
        if start >= len(lines):
            raise UsageError(
                f"Invalid location parameter: `{start}`. "
                f"Cannot exceed page maximum of {len(lines) - 1}."
            )
        tokens = self._config.size.tokens
        if count > 0:
            end = min(start + count, view_end(lines, start, _MOST_VIEWS * tokens))
        else:
            end = view_end(lines, start, tokens)
        cursor = self._stack.push(entry)
        return display(cursor, entry.page, lines, start, end)


def _with_scheme(url: str) -> str:
    return url if "://" in url else f"https://{url}"


def _results_page(query: str, results: list[SearchResult]) -> tuple[Page, tuple[str, ...]]:
    """The page of search results, and the title of each of its links."""
    links = Links("")
    titles: list[str] = []
    items = []
    for result in results:
        title = one_line(result.title) or result.url
        marker = links.marker(result.url, title)
        if len(links.urls) > len(titles):
            titles.append(title)
        items.append(f"  * {marker} {one_line(result.summary, len(result.summary) + 1)}".rstrip())
    body = "# Search Results\n\n" + ("\n".join(items) or "No results.")
    page = make_page("", query, body, links.urls)
    return page, tuple(titles)
