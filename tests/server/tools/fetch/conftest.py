"""A site on a private address, one on an allowed address, a DNS server, and clients of them."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from ipaddress import ip_network
from typing import Any

import pytest

from server.tools.fetch.addresses import AddressPolicy
from server.tools.fetch.client import FetchClient
from server.tools.fetch.urls import FetchPolicy
from tests.server.tools.fetch.network import PRIVATE, PUBLIC, DnsServer, Site, UdpResolver, answer


class Network:
    """What the tests of fetching share. pages: the answers of the public site, by path."""

    def __init__(self) -> None:
        self.names: dict[str, Sequence[Sequence[str]]] = {}
        self.pages: dict[str, Any] = {}
        self.private = Site(lambda path, headers: answer("<p>secret</p>"))
        self.public = Site(self._page)
        self.dns = DnsServer(self.names)
        self._clients: list[FetchClient] = []

    def _page(self, path: str, headers: dict[str, str]) -> Any:
        page = self.pages.get(path.partition("?")[0], answer("missing", 404))
        return page(headers) if callable(page) else page

    async def start(self) -> None:
        try:
            self.port = await self.private.listen([PRIVATE, "::1"])
        except OSError:
            self.port = await self.private.listen([PRIVATE])
        await self.public.listen([PUBLIC], self.port)
        transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(
            lambda: self.dns, local_addr=(PRIVATE, 0)
        )
        self._transport = transport
        self.resolver = UdpResolver(transport.get_extra_info("sockname"))

    async def stop(self) -> None:
        for client in self._clients:
            await client.close()
        self._transport.close()
        await self.private.close()
        await self.public.close()

    def name(self, name: str, *answers: Sequence[str]) -> str:
        """Register a name with its successive answers."""
        self.dns.names[name] = list(answers)
        return name

    def client(self, *allowed: str, **options: Any) -> FetchClient:
        """A client that may reach the networks; without any, the site that stands for public."""
        networks = tuple(map(ip_network, allowed or (f"{PUBLIC}/32",)))
        policy = FetchPolicy(
            AddressPolicy(networks),
            options.pop("domains", ()),
            options.pop("ports", frozenset({80, 443, self.port})),
        )
        defaults: dict[str, Any] = {"resolver": self.resolver, "obeys_robots": False}
        client = FetchClient(policy, **defaults | options)
        self._clients.append(client)
        return client

    def url(self, path: str = "/", host: str = PUBLIC) -> str:
        """A URL on the port of the sites."""
        return f"http://{host}:{self.port}{path}"


@pytest.fixture
async def network() -> AsyncIterator[Network]:
    network = Network()
    await network.start()
    yield network
    await network.stop()
