"""The hosted tool `browser`: `web_search` in requests."""

import asyncio
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from platformdirs import user_data_path

from harmony.tokenizer import encode
from server.schemas.hosted_tools import SEARCH_TYPES
from server.tools.base import ToolContext
from server.tools.browser.cache import PageCache
from server.tools.browser.calls import NAME
from server.tools.browser.config import read_config
from server.tools.browser.loading import PageLoader
from server.tools.browser.search import registry
from server.tools.browser.search.base import ProviderOptions
from server.tools.browser.search.chain import SearchChain
from server.tools.browser.session import BrowserSession
from server.tools.fetch.addresses import AddressPolicy, parse_networks
from server.tools.fetch.client import FetchClient, Limits
from server.tools.fetch.urls import FetchPolicy, parse_domains
from server.tools.registry import ToolSetup

WEB_OPTIONS = "web_options"
"""The name of the setup's part with the server's options about the web, by name."""

DEFAULT_SEARCH = ("files",)
"""This project's own documentation."""


@dataclass(frozen=True, slots=True)
class BrowserOptions:
    """The options of the server that concern the browser.

    search: providers, in order. allow_private: networks in CIDR form. allow_domain: `NAME` or
    `NAME:PORT`. proxy: the URL of a proxy for the web. robots: whether robots.txt is obeyed.
    cache: a folder for the indexes of documents, None for a temporary one. limits: of each page.
    """

    search: Sequence[str] = ()
    allow_private: Sequence[str] = ()
    allow_domain: Sequence[str] = ()
    proxy: str | None = None
    robots: bool = True
    cache: str | None = None
    limits: Limits = field(default_factory=Limits)

    def policy(self) -> FetchPolicy:
        """What may be fetched. Raises ValueError."""
        return FetchPolicy(
            AddressPolicy(parse_networks(self.allow_private)), parse_domains(self.allow_domain)
        )


class BrowserTool:
    """The browser. Implements `HostedTool`.

    environment: where the keys of search services are. Raises ValueError for invalid options.
    """

    name = NAME
    types = SEARCH_TYPES

    def __init__(
        self, options: BrowserOptions, environment: Mapping[str, str] = os.environ
    ) -> None:
        self._options = options
        self._policy = options.policy()
        shared = ProviderOptions(environment=environment, proxy=options.proxy, cache=options.cache)
        self._chain = SearchChain(registry.create(options.search or DEFAULT_SEARCH, shared))
        self._cache = PageCache()
        self._fetcher: FetchClient | None = None
        self._loader: PageLoader | None = None

    @property
    def problem(self) -> str | None:
        """Why the browser cannot be used: it is not started, or no provider can search."""
        return "it is not started" if self._loader is None else self._chain.problem

    async def start(self) -> None:
        """Open the clients, and begin to index documents."""
        await asyncio.to_thread(encode, "warm")  # the first call loads the encoding
        self._fetcher = FetchClient(
            self._policy,
            proxy=self._options.proxy,
            obeys_robots=self._options.robots,
            limits=self._options.limits,
        )
        self._loader = PageLoader(self._fetcher, self._chain, self._cache)
        await self._chain.start()

    async def stop(self) -> None:
        """Close the clients. Safe to call twice."""
        await self._chain.stop()
        if self._loader is not None:
            await self._loader.close()
        if self._fetcher is not None:
            await self._fetcher.close()

    async def open(self, config: Mapping[str, Any], context: ToolContext) -> BrowserSession:
        """A session for one answer. Raises InvalidRequest."""
        assert self._loader is not None, "not started"
        settings = read_config(config, context.param)
        return BrowserSession(settings, context, self._chain, self._loader)


def open_browser(setup: ToolSetup) -> BrowserTool:
    """The browser with the server's options. Raises ValueError for invalid ones.

    The indexes of documents are in the user's data folder: a restart indexes what changed.
    """
    options = setup.parts[WEB_OPTIONS]
    return BrowserTool(
        BrowserOptions(
            search=options["search"],
            allow_private=options["fetch_allow_private"],
            allow_domain=options["fetch_allow_domain"],
            proxy=options["egress_proxy"],
            robots=options["robots"],
            cache=str(user_data_path("gpt-oss-server", appauthor=False) / "search"),
        )
    )
