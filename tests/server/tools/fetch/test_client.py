"""Fetching pages: limits, redirects, types, robots.txt, proxies, and what is not sent."""

import asyncio
import gzip
import socket
import threading
import zlib
from collections.abc import AsyncIterator

import pytest

from server.schemas.limits import MAX_CONTENT_TYPE
from server.tools.fetch import robots
from server.tools.fetch.client import FetchClient, Limits
from server.tools.fetch.decoding import read_body
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
from server.tools.fetch.pieces import BYTES_PER_PIECE
from server.tools.fetch.robots import Robots
from server.tools.fetch.urls import FetchPolicy
from tests.server.tools.fetch.conftest import Network
from tests.server.tools.fetch.network import PRIVATE, PUBLIC, Site, answer

MIB = 1 << 20


async def test_a_page_is_fetched_with_its_type_and_charset(network: Network) -> None:
    network.pages["/a"] = answer("<p>hello", content_type='Text/HTML; charset="Shift_JIS"')
    page = await network.client().fetch(network.url("/a?b=c#d"))
    assert (page.url, page.media_type, page.charset, page.body) == (
        network.url("/a?b=c"),
        "text/html",
        "shift_jis",
        b"<p>hello",
    )


async def test_no_charset_is_looked_for_in_a_long_content_type(network: Network) -> None:
    """The time to find it grows with the square of the size."""
    kind = "text/html; charset=utf-8; a="
    network.pages["/"] = answer("x", content_type=kind + "x" * (MAX_CONTENT_TYPE - len(kind)))
    network.pages["/long"] = answer("x", content_type=kind + "x" * MAX_CONTENT_TYPE)
    pages = [await network.client().fetch(network.url(path)) for path in ("/", "/long")]
    assert [(each.media_type, each.charset) for each in pages] == [
        ("text/html", "utf-8"),
        ("text/html", None),
    ]


async def test_redirects_are_followed(network: Network) -> None:
    network.pages["/"] = answer(status=301, Location="/b")
    network.pages["/b"] = answer(status=307, Location=network.url("/c"))
    network.pages["/c"] = answer("found")
    page = await network.client().fetch(network.url())
    assert (page.url, page.body) == (network.url("/c"), b"found")


async def test_each_redirect_has_to_be_permitted(network: Network) -> None:
    network.pages["/"] = answer(status=302, Location="/b")
    network.pages["/b"] = answer(status=302, Location="/c")
    network.pages["/c"] = answer("found")
    with pytest.raises(BlockedTarget):
        await network.client().fetch(network.url(), lambda url: not url.endswith("/b"))
    assert len(network.public.hits) == 1


async def test_a_redirect_loop_ends(network: Network) -> None:
    network.pages["/"] = answer(status=302, Location="/")
    with pytest.raises(BadStatus):
        await network.client().fetch(network.url())
    assert len(network.public.hits) == 6


@pytest.mark.parametrize("status", [204, 400, 403, 404, 429, 500, 503])
async def test_another_status_is_an_error(network: Network, status: int) -> None:
    network.pages["/"] = answer("x", status)
    with pytest.raises(BadStatus, match=str(status)):
        await network.client().fetch(network.url())


async def test_a_redirect_without_a_target_is_an_error(network: Network) -> None:
    network.pages["/"] = answer("x", 302)
    with pytest.raises(BadStatus):
        await network.client().fetch(network.url())


async def test_a_target_without_a_redirect_is_not_followed(network: Network) -> None:
    network.pages["/"] = answer("page", Location="/other")
    network.pages["/missing"] = answer("x", 404, Location="/other")
    client = network.client()
    assert (await client.fetch(network.url())).body == b"page"
    with pytest.raises(BadStatus, match="404"):
        await client.fetch(network.url("/missing"))


@pytest.mark.parametrize("kind", ["image/png", "application/zip", "video/mp4", "text/css", "x"])
async def test_other_content_types_are_refused(network: Network, kind: str) -> None:
    network.pages["/"] = answer("x", content_type=kind)
    with pytest.raises(UnsupportedBody):
        await network.client().fetch(network.url())


async def test_a_large_page_is_cut_off_while_it_is_read(network: Network) -> None:
    network.pages["/"] = answer(b"x" * 30 * MIB)
    with pytest.raises(BodyTooLarge):
        await network.client().fetch(network.url())


async def test_a_page_without_an_end_is_cut_off(network: Network) -> None:
    done = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n")
        try:
            while True:
                writer.write(b"x" * 65536)
                await writer.drain()
        except ConnectionError:
            done.set()
        finally:
            writer.close()

    server = await asyncio.start_server(serve, PUBLIC, 0)
    port = server.sockets[0].getsockname()[1]
    client = network.client(ports=frozenset({port}))
    with pytest.raises(BodyTooLarge):
        await client.fetch(f"http://{PUBLIC}:{port}/")
    async with asyncio.timeout(30):
        await done.wait()
    server.close()


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
async def test_compressed_pages_are_decoded(network: Network, encoding: str) -> None:
    compress = gzip.compress if encoding == "gzip" else zlib.compress
    text = b"".join(b"line %d\n" % n for n in range(30_000))
    network.pages["/"] = answer(compress(text), Content_Encoding=encoding)
    assert (await network.client().fetch(network.url())).body == text


@pytest.mark.parametrize("size", [1, 7, 1000])
@pytest.mark.parametrize("padding", [b"", b"\0", b"\0" * 50, b"\x1f", b"\r\n"])
async def test_all_members_of_a_gzip_body_are_decoded(size: int, padding: bytes) -> None:
    texts = (b"one " * 50_000, b"", b"two")
    members = b"".join(map(gzip.compress, texts)) + padding

    async def chunks() -> AsyncIterator[bytes]:
        for start in range(0, len(members), size):
            yield members[start : start + size]

    assert await read_body(chunks(), "gzip", MIB) == b"".join(texts)


@pytest.mark.parametrize("encoding", ["", "gzip"])
async def test_a_body_may_be_as_large_as_its_limit(encoding: str) -> None:
    async def chunks(size: int) -> AsyncIterator[bytes]:
        yield gzip.compress(b"x" * size) if encoding else b"x" * size

    assert len(await read_body(chunks(MIB), encoding, MIB)) == MIB
    with pytest.raises(BodyTooLarge):
        await read_body(chunks(MIB + 1), encoding, MIB)


async def test_a_body_in_too_many_pieces_is_refused() -> None:
    """Each takes time, however small it is."""

    async def chunks(number: int) -> AsyncIterator[bytes]:
        for _ in range(number):
            yield b"x"

    most = MIB // BYTES_PER_PIECE
    assert len(await read_body(chunks(most), "", MIB)) == most
    with pytest.raises(BodyTooLarge):
        await read_body(chunks(most + 1), "", MIB)


async def test_members_of_a_gzip_body_are_cut_off_together() -> None:
    async def chunks() -> AsyncIterator[bytes]:
        yield gzip.compress(b"x" * 700_000) * 2

    with pytest.raises(BodyTooLarge):
        await read_body(chunks(), "gzip", MIB)


async def test_padding_without_an_end_is_cut_off() -> None:
    async def chunks() -> AsyncIterator[bytes]:
        yield gzip.compress(b"x")
        while True:
            yield bytes(MIB // 2)

    with pytest.raises(BodyTooLarge):
        await read_body(chunks(), "gzip", MIB)


async def test_deflate_without_a_header_is_decoded(network: Network) -> None:
    raw = zlib.compressobj(wbits=-15)
    network.pages["/"] = answer(raw.compress(b"hello") + raw.flush(), Content_Encoding="deflate")
    assert (await network.client().fetch(network.url())).body == b"hello"


async def test_an_empty_compressed_page_is_empty(network: Network) -> None:
    network.pages["/"] = answer(b"", Content_Encoding="gzip")
    assert (await network.client().fetch(network.url())).body == b""


@pytest.mark.parametrize("size", [3 * MIB, 30 * MIB])
async def test_a_decompression_bomb_is_cut_off(network: Network, size: int) -> None:
    """3 MiB are within the size, and over the ratio."""
    network.pages["/"] = answer(gzip.compress(b"\0" * size), Content_Encoding="gzip")
    with pytest.raises(BodyTooLarge):
        await network.client().fetch(network.url())


async def test_a_bomb_is_decoded_in_small_pieces() -> None:
    async def chunks() -> AsyncIterator[bytes]:
        yield gzip.compress(b"\0" * 200 * MIB)

    with pytest.raises(BodyTooLarge):
        await read_body(chunks(), "gzip", 5 * MIB)


@pytest.mark.parametrize(
    ("body", "encoding"),
    [
        (b"not compressed", "gzip"),
        (zlib.compress(b"hello")[2:-4], "gzip"),
        (gzip.compress(b"hello" * 100, mtime=0)[:-12], "gzip"),
        (gzip.compress(b"hello", mtime=0) * 2 + b"\x1f\x8b", "gzip"),
        (zlib.compress(b"hello" * 100)[:10] + b"\xff" * 20, "deflate"),
        (b"x", "br"),
        (b"x", "zstd"),
        (gzip.compress(gzip.compress(b"x", mtime=0), mtime=0), "gzip, gzip"),
    ],
)
async def test_damaged_and_unknown_encodings_are_refused(
    network: Network, body: bytes, encoding: str
) -> None:
    network.pages["/"] = answer(body, Content_Encoding=encoding)
    with pytest.raises(UnsupportedBody):
        await network.client().fetch(network.url())


async def test_a_slow_page_ends_in_time(network: Network) -> None:
    never = asyncio.Event()

    async def wait(headers: dict[str, str]) -> bytes:
        await never.wait()
        return b""

    network.pages["/"] = wait
    client = network.client(limits=Limits(seconds=0.1))
    with pytest.raises(FetchTimeout):
        await client.fetch(network.url())
    never.set()


async def test_a_name_server_that_is_silent_ends_in_time(network: Network) -> None:
    async def resolve(host: str) -> list[str]:
        await asyncio.Event().wait()
        return []

    client = network.client(resolver=resolve, limits=Limits(seconds=0.1))
    with pytest.raises(FetchTimeout):
        await client.fetch("http://slow.example/")


async def test_a_closed_client_leaves_no_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (PRIVATE, 0))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *asked, **options: found)
    before = set(threading.enumerate())
    client = FetchClient(FetchPolicy(), obeys_robots=False)
    with pytest.raises(BlockedTarget):
        await client.fetch("http://a.example/")
    threads = set(threading.enumerate()) - before
    assert threads
    await client.close()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)


async def test_a_connection_that_breaks_is_unreachable(network: Network) -> None:
    network.pages["/"] = lambda headers: None
    with pytest.raises(Unreachable) as caught:
        await network.client().fetch(network.url())
    assert PUBLIC not in str(caught.value)


async def test_no_cookie_and_no_credential_is_sent(
    network: Network, monkeypatch: pytest.MonkeyPatch, tmp_path: object
) -> None:
    netrc = f"{tmp_path}/netrc"
    with open(netrc, "w", encoding="utf-8") as file:  # noqa: ASYNC230
        file.write(f"machine {PUBLIC} login a password b")
    monkeypatch.setenv("NETRC", netrc)
    network.pages["/"] = answer(status=302, Location="/b", Set_Cookie="id=secret; Path=/")
    network.pages["/b"] = answer("found", Set_Cookie="id=secret; Path=/")
    client = network.client()
    await client.fetch(network.url())
    await client.fetch(network.url("/b"))
    sent = {name for _, headers in network.public.hits for name in headers}
    assert sent == {"host", "accept", "accept-encoding", "connection", "user-agent"}


async def test_no_proxy_of_the_environment_is_used(
    network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, network.url(host=PRIVATE))
    network.pages["/"] = answer("direct")
    assert (await network.client().fetch(network.url())).body == b"direct"
    assert network.private.connections == 0


async def test_an_explicit_proxy_makes_the_connections(network: Network) -> None:
    proxy = Site(lambda path, headers: answer(f"proxied {path}"))
    port = await proxy.listen([PRIVATE])
    client = network.client(proxy=f"http://{PRIVATE}:{port}")
    page = await client.fetch("http://unknown.example/a")
    assert page.body == b"proxied http://unknown.example/a"
    for url in ("http://127.0.0.1/", "http://localhost/", "http://[::1]/", "http://0x7f.1/"):
        with pytest.raises(BlockedTarget):
            await network.client("203.0.113.9/32", proxy=f"http://{PRIVATE}:{port}").fetch(
                url.replace("localhost", "127.1")
            )
    assert len(proxy.hits) == 1
    await proxy.close()


async def test_a_proxy_is_not_asked_for_local_names_and_other_ports() -> None:
    proxy = Site(lambda path, headers: answer("proxied"))
    port = await proxy.listen([PRIVATE])
    client = FetchClient(FetchPolicy(), proxy=f"http://{PRIVATE}:{port}", obeys_robots=False)
    for url in ("http://localhost/", "http://db.internal/", "http://unknown.example:8080/"):
        with pytest.raises(BlockedTarget):
            await client.fetch(url)
    assert proxy.hits == []
    await client.close()
    await proxy.close()


async def test_robots_txt_is_obeyed(network: Network) -> None:
    network.pages["/robots.txt"] = answer("User-agent: *\nDisallow: /private\n")
    network.pages["/private"] = network.pages["/open"] = answer("page")
    client = network.client(obeys_robots=True)
    assert (await client.fetch(network.url("/open"))).body == b"page"
    with pytest.raises(Disallowed):
        await client.fetch(network.url("/private?x"))
    assert network.public.paths == ["/robots.txt", "/open"]


async def test_robots_txt_of_the_target_of_a_redirect_is_obeyed(network: Network) -> None:
    network.pages["/robots.txt"] = answer("User-agent: gpt-oss-server\nDisallow: /private\n")
    network.pages["/"] = answer(status=302, Location="/private")
    with pytest.raises(Disallowed):
        await network.client(obeys_robots=True).fetch(network.url())
    assert "/private" not in network.public.paths


@pytest.mark.parametrize(("status", "allowed"), [(404, True), (403, True), (500, False)])
async def test_a_missing_robots_txt_allows_all_and_a_failing_one_nothing(
    network: Network, status: int, allowed: bool
) -> None:
    network.pages["/robots.txt"] = answer("x", status)
    network.pages["/"] = answer("page")
    client = network.client(obeys_robots=True)
    for _ in range(2):
        if allowed:
            assert (await client.fetch(network.url())).body == b"page"
        else:
            with pytest.raises(Disallowed):
                await client.fetch(network.url())


async def test_a_robots_txt_that_failed_is_asked_for_again(network: Network) -> None:
    network.pages["/robots.txt"] = answer("x", 503)
    network.pages["/"] = answer("page")
    client = network.client(obeys_robots=True)
    with pytest.raises(Disallowed):
        await client.fetch(network.url())
    network.pages["/robots.txt"] = answer("")
    for _ in range(2):
        assert (await client.fetch(network.url())).body == b"page"
    assert network.public.paths == ["/robots.txt"] * 2 + ["/"] * 2


@pytest.mark.parametrize(
    "answered",
    [
        answer("User-agent: *\nDisallow: /", Content_Encoding="br"),
        answer(status=302, Location="/robots.txt"),
        answer(status=302, Location="http://127.0.0.1/robots.txt"),
        answer(status=302, Location="http://a:b/"),
        answer(status=302, Location="http://xn--/"),
    ],
)
async def test_a_robots_txt_that_cannot_be_read_allows_all(
    network: Network, answered: bytes
) -> None:
    network.pages["/robots.txt"] = answered
    network.pages["/"] = answer("page")
    client = network.client(obeys_robots=True)
    assert (await client.fetch(network.url())).body == b"page"
    assert network.private.connections == 0


async def test_a_robots_txt_that_is_too_large_allows_nothing(network: Network) -> None:
    text = "User-agent: *\nAllow: /\n" + "#" * robots.MOST_BYTES
    network.pages["/robots.txt"] = answer(text, content_type="text/plain")
    network.pages["/"] = answer("page")
    client = network.client(obeys_robots=True)
    for _ in range(2):
        with pytest.raises(Disallowed):
            await client.fetch(network.url())
    assert network.public.paths == ["/robots.txt"]


@pytest.mark.parametrize(
    ("first", "last"), [("Allow: /a{}/", "Disallow: /"), ("Disallow:", "Disallow: /private/")]
)
async def test_the_last_rule_of_a_long_robots_txt_is_obeyed(
    network: Network, first: str, last: str
) -> None:
    lines = "".join(f"{first.format(number)}\n" for number in range(1000))
    text = f"User-agent: *\n{lines}{last}\n"
    network.pages["/robots.txt"] = answer(text, content_type="text/plain")
    network.pages["/private/page"] = answer("page")
    with pytest.raises(Disallowed):
        await network.client(obeys_robots=True).fetch(network.url("/private/page"))


async def test_a_redirected_robots_txt_is_obeyed(network: Network) -> None:
    network.pages["/robots.txt"] = answer(status=301, Location="/r.txt")
    network.pages["/r.txt"] = answer("User-agent: *\nDisallow: /", content_type="text/plain")
    network.pages["/"] = answer("page")
    with pytest.raises(Disallowed):
        await network.client(obeys_robots=True).fetch(network.url())


@pytest.mark.parametrize(("rules", "on_the_loop"), [(1, True), (900, False)])
async def test_a_large_robots_txt_does_not_block_the_event_loop(
    network: Network, monkeypatch: pytest.MonkeyPatch, rules: int, on_the_loop: bool
) -> None:
    threads = []
    parse, allows = robots.parse, Robots.allows

    def noted_parse(text: str, agent: str) -> Robots:
        threads.append(threading.get_ident())
        return parse(text, agent)

    def noted_allows(found: Robots, path: str) -> bool:
        threads.append(threading.get_ident())
        return allows(found, path)

    monkeypatch.setattr(robots, "parse", noted_parse)
    monkeypatch.setattr(Robots, "allows", noted_allows)
    lines = "".join(f"Disallow: /a*%41a*{number}\n" for number in range(rules))
    network.pages["/robots.txt"] = answer(f"User-agent: *\n{lines}", content_type="text/plain")
    path = "/" + "a" * (8000 if rules > 1 else 10)
    network.pages[path] = answer("page")
    await network.client(obeys_robots=True).fetch(network.url(path))
    assert [thread == threading.get_ident() for thread in threads] == [on_the_loop] * 2


async def test_the_rules_of_all_sites_are_bounded_in_bytes(network: Network) -> None:
    client = network.client(obeys_robots=True)
    lines = "".join(f"Disallow: /{'x' * 55}{number:06}\n" for number in range(2000))
    rules = robots.parse(f"User-agent: *\n{lines}", "x")
    for number in range(2048):
        client._robots[f"https://{number}.example"] = rules
    assert rules.size > 150_000
    assert len(client._robots) * rules.size <= 16 << 20
    for number in range(40_000):
        client._robots[f"https://{number}.example"] = robots.ALLOW_ALL
    assert len(client._robots) <= (16 << 20) // 512


async def test_a_client_can_be_closed_twice() -> None:
    client = FetchClient(FetchPolicy())
    await client.close()
    await client.close()


INVALID = ["http://[", "//[", "http://xn--/", "http://xn--a.example/", "http://a:b/"]


@pytest.mark.parametrize("url", INVALID)
async def test_errors_are_of_one_family(network: Network, url: str) -> None:
    with pytest.raises(FetchError):
        await network.client().fetch(url)


@pytest.mark.parametrize("url", INVALID)
async def test_a_redirect_to_no_valid_url_is_an_error(network: Network, url: str) -> None:
    network.pages["/"] = answer(status=302, Location=url)
    with pytest.raises(FetchError):
        await network.client().fetch(network.url())
