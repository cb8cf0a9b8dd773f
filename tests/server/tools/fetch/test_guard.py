"""No private address is reached, however it is spelled, resolved or redirected to."""

import asyncio
import socket
import threading
from pathlib import Path
from typing import Any

import httpcore
import httpx
import httpx2
import pytest

from server.tools.fetch.errors import BlockedTarget, FetchError, FetchTimeout, Unreachable
from server.tools.fetch.guard import Guard, GuardedBackend, SystemResolver, guard_transport
from server.tools.fetch.urls import FetchPolicy, parse_domains
from tests.certificates import certificates
from tests.server.tools.fetch.conftest import Network
from tests.server.tools.fetch.network import PRIVATE, PUBLIC, answer

ADDRESSES = [
    "0.0.0.0",
    "0.1.2.3",
    "10.0.0.1",
    "100.64.0.1",
    "100.100.100.200",  # the metadata of Alibaba Cloud
    "127.0.0.1",
    "127.255.255.254",
    "168.63.129.16",  # Azure
    "169.254.169.254",  # the metadata of most clouds
    "169.254.170.2",  # the credentials of Amazon ECS
    "172.16.0.1",
    "172.31.255.255",
    "192.0.0.8",
    "192.0.0.192",  # the metadata of Oracle Cloud
    "192.0.2.1",
    "192.31.196.1",
    "192.52.193.1",
    "192.88.99.1",
    "192.168.1.1",
    "192.175.48.1",
    "198.18.0.1",
    "198.51.100.1",
    "203.0.113.1",
    "224.0.0.1",
    "239.255.255.250",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::7f00:1",
    "::ffff:127.0.0.1",
    "::ffff:10.0.0.1",
    "::ffff:0:127.0.0.1",
    "64:ff9b::127.0.0.1",
    "64:ff9b::a9fe:a9fe",
    "64:ff9b:1::7f00:1",
    "100::1",
    "100:0:0:1::1",
    "2001::1",
    "2001:0:7f00:1::",
    "2001:0:53aa:64c::80ff:fffe",  # Teredo, of 127.0.0.1
    "2001:10::1",
    "2001:20::1",
    "2001:db8::1",
    "2002:7f00:1::1",
    "2002:a9fe:a9fe::",
    "2002:c0a8:101::1",
    "2606:4700::5efe:127.0.0.1",  # ISATAP
    "3fff::1",
    "5f00::1",
    "fc00::1",
    "fd00:ec2::254",  # the metadata of Amazon, by IPv6
    "fe80::1",
    "febf::1",
    "fec0::1",
    "ff02::1",
    "ff0e::1",
]
SPELLINGS = [
    "http://2130706433:{port}/",
    "http://0x7f000001:{port}/",
    "http://0x7f.1:{port}/",
    "http://0177.0.0.1:{port}/",
    "http://017700000001:{port}/",
    "http://127.1:{port}/",
    "http://127.0.1:{port}/",
    "http://0:{port}/",
    "http://127.0.0.1.:{port}/",
    "http://127.0.0.1..:{port}/",
    "http://127。0。0。1:{port}/",
    "http://１２７.0.0.1:{port}/",
    "http://①②⑦.⓪.⓪.①:{port}/",
    "http://127.0.0.1%00.example.com:{port}/",
    "http://127.0.0.1%2eexample.com:{port}/",
    "http://[::1%25lo]:{port}/",
    "http://[fe80::1%lo]:{port}/",
    "http://[::ffff:7f00:1]:{port}/",
    "http://[0:0:0:0:0:0:0:1]:{port}/",
    "http://localhost:{port}/",
    "http://LOCALHOST.:{port}/",
    "http://ｌｏｃａｌｈｏｓｔ:{port}/",
    "http://a.localhost:{port}/",
    "http://router.local:{port}/",
    "http://metadata.google.internal:{port}/",
    "http://user@127.0.0.1:{port}/",
    "http://example.com@127.0.0.1:{port}/",
    "http://example.com:pw@127.0.0.1:{port}/",
    "http://127.0.0.1:{port}\\@example.com/",
    "http://example.com#@127.0.0.1:{port}/",
    "http:///127.0.0.1:{port}/",
    "http:127.0.0.1:{port}/",
    "//127.0.0.1:{port}/",
    " http://127.0.0.1:{port}/",
    "HTTP://127.0.0.1:{port}/",
    "http://127.0.0.1\t:{port}/",
    "http://999.1.1.1:{port}/",
    "http://1.2.3.4.5:{port}/",
    "file:///etc/passwd",
    "ftp://127.0.0.1:{port}/",
    "gopher://127.0.0.1:{port}/",
    "data:text/html,secret",
    "http+unix://%2Fvar%2Frun%2Fdocker.sock/info",
    "http://%2Fvar%2Frun%2Fdocker.sock/",
    "http://",
    "",
    "http://" + "a" * 9000,
]


@pytest.mark.parametrize("address", ADDRESSES)
async def test_an_address_that_is_not_public_is_not_reached(network: Network, address: str) -> None:
    host = f"[{address}]" if ":" in address else address
    client = network.client("203.0.113.200/32")
    with pytest.raises(BlockedTarget):
        await client.fetch(network.url(host=host))
    assert network.private.connections == 0


@pytest.mark.parametrize("address", ADDRESSES)
async def test_a_name_with_such_an_address_is_not_reached(network: Network, address: str) -> None:
    """The name has an allowed address, too: all of them have to be allowed."""
    host = network.name("evil.example", [PUBLIC, address])
    with pytest.raises(BlockedTarget):
        await network.client().fetch(network.url(host=host))
    assert network.private.connections == network.public.connections == 0


@pytest.mark.parametrize("url", SPELLINGS)
async def test_no_spelling_reaches_a_private_address(network: Network, url: str) -> None:
    for name in ("example.com", "localhost", "a.localhost", "127.0.0.1", "127.0.0.1.example.com"):
        network.name(name, [PRIVATE])
    with pytest.raises(FetchError):
        await network.client().fetch(url.replace("{port}", str(network.port)))
    assert network.private.connections == 0


@pytest.mark.parametrize("url", [*SPELLINGS, *(f"http://{a}/" for a in ADDRESSES if "." in a)])
async def test_no_redirect_reaches_a_private_address(network: Network, url: str) -> None:
    location = url.replace("{port}", str(network.port)).strip()
    encoded = location.encode("utf-8").decode("latin-1").replace("\t", "")
    network.pages["/"] = answer(status=302, Location=encoded)
    for name in ("example.com", "localhost", "a.localhost"):
        network.name(name, [PRIVATE])
    with pytest.raises(FetchError):
        await network.client().fetch(network.url())
    assert network.private.connections == 0


async def test_the_private_site_answers_where_it_is_allowed(network: Network) -> None:
    """The other tests would pass without a site that answers."""
    page = await network.client("127.0.0.0/8").fetch(network.url(host=PRIVATE))
    assert page.body == b"<p>secret</p>"


async def test_a_name_is_resolved_once_for_a_connection(network: Network) -> None:
    host = network.name("rebind.example", [PUBLIC], [PRIVATE])
    network.pages["/"] = answer("public")
    page = await network.client().fetch(network.url(host=host))
    assert page.body == b"public"
    assert network.dns.queries == [("rebind.example", 1), ("rebind.example", 28)]


async def test_a_name_that_changes_to_a_private_address_is_blocked(network: Network) -> None:
    host = network.name("rebind.example", [PUBLIC], [PRIVATE])
    network.pages["/"] = answer("public", Connection="close")
    client = network.client()
    await client.fetch(network.url(host=host))
    with pytest.raises(BlockedTarget):
        await client.fetch(network.url(host=host))
    assert network.private.connections == 0


async def test_a_redirect_to_a_rebinding_name_is_blocked(network: Network) -> None:
    host = network.name("rebind.example", [PUBLIC], [PRIVATE])
    network.pages["/"] = answer(status=302, Location=network.url("/b", host), Connection="close")
    network.pages["/b"] = answer(status=302, Location=network.url("/c", host), Connection="close")
    with pytest.raises(BlockedTarget):
        await network.client().fetch(network.url())
    assert network.private.connections == 0


async def test_an_unknown_name_is_unreachable(network: Network) -> None:
    with pytest.raises(Unreachable):
        await network.client().fetch(network.url(host="nothing.example"))


async def test_only_the_ports_of_the_web_are_reached(network: Network) -> None:
    with pytest.raises(BlockedTarget):
        await network.client(ports=frozenset({80, 443})).fetch(network.url())
    assert network.public.connections == 0


async def test_an_allowed_domain_may_have_private_addresses_and_a_port(network: Network) -> None:
    host = network.name("wiki.corp.example", [PRIVATE])
    domains = parse_domains([f"corp.example:{network.port}"])
    client = network.client(domains=domains, ports=frozenset({80, 443}))
    assert (await client.fetch(network.url(host=host))).body == b"<p>secret</p>"


@pytest.mark.parametrize("host", ["corp.example.evil.example", "xcorp.example", "example"])
async def test_an_allowed_domain_allows_no_other_name(network: Network, host: str) -> None:
    network.name(host, [PRIVATE])
    client = network.client(domains=parse_domains(["corp.example"]))
    with pytest.raises(BlockedTarget):
        await client.fetch(network.url(host=host))
    assert network.private.connections == 0


async def test_another_address_is_tried_when_one_refuses(network: Network) -> None:
    host = network.name("two.example", ["127.0.0.3", PUBLIC])
    network.pages["/"] = answer("public")
    page = await network.client("127.0.0.2/31").fetch(network.url(host=host))
    assert page.body == b"public"


class Unconnected:
    """Connects to nothing. tried: the addresses, with the seconds for each."""

    def __init__(self, error: Exception) -> None:
        self.tried: list[tuple[str, float | None]] = []
        self._error = error

    async def connect_tcp(
        self, host: str, port: int, seconds: float | None, *options: object
    ) -> None:
        self.tried.append((host, seconds))
        raise self._error


@pytest.mark.parametrize(
    ("error", "found", "seconds", "tried"),
    [
        (httpcore.ConnectTimeout(), 2, 8.0, [("1.1.1.1", 4.0), ("1.1.1.2", 4.0)]),
        (httpcore.ConnectError(), 2, None, [("1.1.1.1", None), ("1.1.1.2", None)]),
        (httpcore.ConnectError(), 64, 8.0, [(f"1.1.1.{n}", 2.0) for n in range(1, 5)]),
        (httpx2.ConnectError("x"), 2, 8.0, [("1.1.1.1", 4.0), ("1.1.1.2", 4.0)]),
        (httpcore.ReadError(), 2, 8.0, [("1.1.1.1", 4.0)]),
    ],
)
async def test_a_few_addresses_share_the_time_to_connect(
    error: Exception, found: int, seconds: float | None, tried: list[tuple[str, float | None]]
) -> None:
    async def resolve(host: str) -> list[str]:
        return [f"1.1.1.{number}" for number in range(1, found + 1)]

    inner = Unconnected(error)
    backend = GuardedBackend(Guard(FetchPolicy(), resolve), inner)
    with pytest.raises(type(error)):
        await backend.connect_tcp("a.example", 443, seconds)
    assert inner.tried == tried


async def test_the_host_header_has_the_name(network: Network) -> None:
    host = network.name("site.example", [PUBLIC])
    network.pages["/"] = answer("public")
    await network.client().fetch(network.url(host=host))
    assert network.public.hits[0][1]["host"] == f"site.example:{network.port}"


@pytest.mark.parametrize("found", [[], ["no address"], [PUBLIC] * 65])
async def test_answers_of_a_name_server_that_cannot_be_used(found: list[str]) -> None:
    async def resolve(host: str) -> list[str]:
        return found

    with pytest.raises(Unreachable):
        await Guard(FetchPolicy(), resolve).addresses("a.example", 443)


async def test_a_name_server_that_takes_too_long_is_a_timeout() -> None:
    async def resolve(host: str) -> list[str]:
        raise TimeoutError

    with pytest.raises(FetchTimeout):
        await Guard(FetchPolicy(), resolve).addresses("a.example", 443)


@pytest.mark.parametrize(
    ("host", "port"), [("1.1.1.1", 22), ("1.2.3.4.5", 80), ("fe80::1%lo", 80), ("::1%25lo", 80)]
)
async def test_the_guard_itself_refuses_hosts_and_ports(host: str, port: int) -> None:
    with pytest.raises(BlockedTarget):
        await Guard(FetchPolicy(), SystemResolver()).addresses(host, port)


async def test_public_literals_are_not_resolved() -> None:
    guard = Guard(FetchPolicy(), SystemResolver())
    assert await guard.addresses("0x08.8.2056", 443) == ["8.8.8.8"]
    assert await guard.addresses("2606:4700:4700::1111", 80) == ["2606:4700:4700::1111"]


async def test_tls_checks_the_name_and_not_the_address(network: Network, tmp_path: Path) -> None:
    server, trusting = certificates("site.example", tmp_path)
    listener = await asyncio.start_server(serve_once, PUBLIC, 0, ssl=server)
    port = listener.sockets[0].getsockname()[1]
    for name in ("site.example", "other.example"):
        network.name(name, [PUBLIC])
    client = network.client(ports=frozenset({port}), tls=trusting)
    page = await client.fetch(f"https://site.example:{port}/")
    assert page.body == b"secure"
    with pytest.raises(Unreachable):
        await client.fetch(f"https://other.example:{port}/")
    listener.close()


async def serve_once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.write(answer("secure", Connection="close"))
    await writer.drain()
    writer.close()


async def test_a_guarded_transport_of_httpx2_is_guarded(network: Network) -> None:
    guard = Guard(FetchPolicy(ports=frozenset({network.port})), network.resolver)
    transport = guard_transport(httpx2.AsyncHTTPTransport(), guard)
    async with httpx2.AsyncClient(transport=transport) as client:
        with pytest.raises(BlockedTarget):
            await client.get(network.url(host=PRIVATE))
    assert network.private.connections == 0


async def test_a_transport_without_a_pool_is_refused() -> None:
    guard = Guard(FetchPolicy(), SystemResolver())
    with pytest.raises(TypeError):
        guard_transport(httpx.AsyncHTTPTransport(proxy="http://127.0.0.1:1"), guard)
    with pytest.raises(TypeError):
        guard_transport(httpx.MockTransport(lambda request: httpx.Response(200)), guard)


async def test_sockets_of_the_machine_are_refused() -> None:
    guard = Guard(FetchPolicy(), SystemResolver())
    backend = GuardedBackend(guard, httpcore.AnyIOBackend())
    with pytest.raises(BlockedTarget):
        await backend.connect_unix_socket("/var/run/docker.sock")
    await backend.sleep(0)


async def test_the_system_resolver_finds_the_loopback_addresses() -> None:
    resolver = SystemResolver()
    assert set(await resolver("localhost")) <= {"127.0.0.1", "::1"}
    resolver.close()


async def test_name_servers_that_never_answer_leave_threads_for_other_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answers, getaddrinfo = threading.Event(), socket.getaddrinfo

    def slow(host: str, *rest: Any, **options: Any) -> Any:
        if host != "localhost":
            answers.wait()
        return getaddrinfo("localhost", *rest, **options)

    monkeypatch.setattr(socket, "getaddrinfo", slow)
    resolver = SystemResolver()
    waiting = [asyncio.ensure_future(resolver(f"{n}.example")) for n in range(128)]
    await asyncio.sleep(0)  # Each of them asks.
    try:
        async with asyncio.timeout(60):
            assert await resolver("localhost")
    finally:
        answers.set()
    await asyncio.gather(*waiting)
    resolver.close()
