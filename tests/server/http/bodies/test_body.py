"""How bodies are read: whole, decoded, and within their bounds."""

import asyncio
import gzip
import random
import threading
import traceback
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx
import pytest
import zstandard
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from server.errors import APIError
from server.http.answers.answer import error_response, json_response
from server.http.bodies import decompression
from server.http.bodies.body import SLICE, Bodies, read_body, take_body
from server.http.bodies.budget import Budget
from server.http.bodies.memory_trimmer import MemoryTrimmer
from server.threads import LARGE

LIMIT = 1000
MEMORY = 4 * 1024 * 1024
TEXT = b'{"input": "hello"}'


def gzipped(body: bytes) -> bytes:
    """With no time in it: every test process has to make the same cases."""
    return gzip.compress(body, mtime=0)


def zstd(text: bytes) -> bytes:
    return zstandard.ZstdCompressor().compress(text)


def streamed_zstd(text: bytes) -> bytes:
    """As clients write it that do not know the size before."""
    compressor = zstandard.ZstdCompressor().compressobj()
    return compressor.compress(text) + compressor.flush()


async def refuse(_: Request, error: Exception) -> Response:
    assert isinstance(error, APIError)
    return error_response(error)


class Server:
    """An application that gives bodies back, and how much was charged for them meanwhile."""

    def __init__(self, limit: int = LIMIT, memory: int = MEMORY) -> None:
        self.budget = Budget(memory)
        self.charged: list[int] = []
        app = Starlette(
            routes=[
                Route("/echo", self._echo, methods=["POST"]),
                Route("/ignore", self._ignore, methods=["POST"]),
                Route("/twice", self._twice, methods=["POST"]),
            ],
            middleware=[Middleware(Bodies, limit=limit, budget=self.budget)],
            exception_handlers={APIError: refuse},
        )
        self._client = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test")

    async def post(
        self, content: bytes | AsyncIterator[bytes], encoding: str = "", path: str = "/echo"
    ) -> httpx.Response:
        headers = {"content-encoding": encoding}
        return await self._client.post(path, content=content, headers=headers)

    async def _echo(self, request: Request) -> Response:
        body = await take_body(request)
        self.charged.append(self.budget.used)
        return Response(body)

    async def _ignore(self, _: Request) -> Response:
        self.charged.append(self.budget.used)
        return Response("fine")

    async def _twice(self, request: Request) -> Response:
        """As one that does not take no for an answer."""
        with pytest.raises(APIError):
            await request.receive()
        self.charged.append(self.budget.used)
        return json_response(await request.receive())


async def pieces(*pieces: bytes) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece


@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        ("gzip", gzipped(TEXT)),
        ("x-gzip", gzipped(TEXT)),
        ("GZIP", gzipped(TEXT[:5]) + gzipped(TEXT[5:])),
        ("zstd", zstd(TEXT)),
        ("zstd", streamed_zstd(TEXT)),
        ("zstd", zstd(TEXT[:5]) + zstd(TEXT[5:])),
        ("identity", TEXT),
        ("", TEXT),
    ],
)
async def test_a_body_is_decoded(encoding: str, body: bytes) -> None:
    assert (await Server().post(body, encoding)).content == TEXT


@pytest.mark.parametrize(("encoding", "body"), [("zstd", zstd(TEXT)), ("", TEXT)])
async def test_a_body_in_pieces_is_put_together(encoding: str, body: bytes) -> None:
    sent = pieces(*(bytes([byte]) for byte in body))
    assert (await Server().post(sent, encoding)).content == TEXT


@pytest.mark.parametrize("encode", [bytes, zstd])
async def test_a_large_body_in_pieces_is_joined(encode: Callable[[bytes], bytes]) -> None:
    text = random.Random(1).randbytes(2 * LARGE)
    body = encode(text)
    sent = pieces(body[:LARGE], body[LARGE:])
    server = Server(limit=4 * LARGE, memory=16 * LARGE)
    assert (await server.post(sent, "zstd" if encode is zstd else "")).content == text
    assert server.budget.used == 0


async def test_a_large_body_is_joined_on_a_thread_that_frees_the_pieces(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    trimmed_by: list[int] = []

    def trim() -> None:
        trimmed_by.append(threading.get_ident())

    monkeypatch.setattr("server.http.bodies.body.MemoryTrimmer", lambda: MemoryTrimmer(trim))
    server = Server(limit=2 * LARGE)
    await server.post(pieces(b"x" * LARGE, b"x" * LARGE))
    assert len(trimmed_by) == 1
    assert trimmed_by[0] != threading.get_ident()


async def test_large_bodies_are_joined_one_at_a_time() -> None:
    server = Server(limit=2 * LARGE, memory=6 * LARGE)
    half = b"x" * LARGE
    answers = await asyncio.gather(*(server.post(pieces(half, half)) for _ in range(2)))
    assert [answer.status_code for answer in answers] == [200, 200]
    assert server.budget.used == 0


@pytest.mark.parametrize("size", [0, LIMIT])
async def test_a_body_up_to_the_limit_is_read(size: int) -> None:
    assert (await Server().post(b"x" * size)).content == b"x" * size


@pytest.mark.parametrize(
    ("header", "status"),
    [
        pytest.param((b"content-length", b"%d" % (LIMIT + 1)), 413, id="over the limit"),
        pytest.param((b"content-length", b"10"), 503, id="over the memory that is left"),
        pytest.param((b"content-encoding", b"br"), 415, id="an unknown encoding"),
    ],
)
async def test_a_body_is_refused_unread_where_its_headers_say_enough(
    header: tuple[bytes, bytes], status: int
) -> None:
    async def unread() -> Message:
        raise AssertionError

    async def read(_: Scope, receive: Receive, __: Send) -> None:
        await receive()

    with pytest.raises(APIError) as caught:
        await Bodies(read, LIMIT, Budget(9))({"type": "http", "headers": [header]}, unread, unused)
    assert caught.value.status == status


async def test_a_body_of_unknown_size_is_read_up_to_the_limit() -> None:
    server = Server()
    fits = await server.post(pieces(b"x" * LIMIT))
    over = await server.post(pieces(b"x" * LIMIT, b"x", b"x" * LIMIT))
    assert (fits.status_code, over.status_code) == (200, 413)
    assert over.json()["error"]["code"] == "request_too_large"


async def test_a_body_that_nobody_reads_may_have_any_size_and_is_not_charged() -> None:
    server = Server()
    assert (await server.post(b"x" * (LIMIT + 1), path="/ignore")).status_code == 200
    assert server.charged == [0]


async def test_a_declared_size_that_is_no_number_is_counted() -> None:
    async def read(_: Scope, receive: Receive, __: Send) -> None:
        await receive()

    async def receive() -> Message:
        return {"type": "http.request", "body": b"x" * (LIMIT + 1)}

    headers = [(b"content-length", b"many")]
    with pytest.raises(APIError):
        await Bodies(read, LIMIT, Budget(MEMORY))(
            {"type": "http", "headers": headers}, receive, unused
        )


@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
@pytest.mark.parametrize("size", [LIMIT + 1, 300 * LIMIT])
async def test_the_limit_is_that_of_the_decoded_body_too(encoding: str, size: int) -> None:
    compress = {"gzip": gzipped, "zstd": streamed_zstd}[encoding]
    assert (await Server().post(compress(b"a" * LIMIT), encoding)).status_code == 200
    bomb = compress(b"a" * size)
    assert len(bomb) < LIMIT
    assert (await Server().post(bomb, encoding)).status_code == 413


@pytest.mark.parametrize(("compress", "encoding"), [(gzipped, "gzip"), (streamed_zstd, "zstd")])
async def test_a_body_that_decodes_to_too_many_times_its_size_is_refused(
    compress: Callable[[bytes], bytes], encoding: str
) -> None:
    server = Server(limit=64 * 1024 * 1024, memory=256 * 1024 * 1024)
    free = compress(b"a" * decompression.FREE_BYTES)
    assert (await server.post(free, encoding)).status_code == 200
    answer = await server.post(compress(b"a" * (decompression.FREE_BYTES + 1)), encoding)
    assert (answer.status_code, answer.json()["error"]["code"]) == (
        413,
        "compression_ratio_too_high",
    )


async def test_a_bomb_is_refused_before_it_is_in_memory() -> None:
    server = Server(limit=64 * 1024 * 1024, memory=256 * 1024 * 1024)
    most = 0
    answer = asyncio.ensure_future(server.post(streamed_zstd(b"a" * 60_000_000), "zstd"))
    while not answer.done():
        most = max(most, server.budget.used)
        await asyncio.sleep(0)
    assert answer.result().status_code == 413
    assert 0 < most <= decompression.FREE_BYTES + 2 * SLICE
    assert server.budget.used == 0


@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        ("gzip", b"no gzip"),
        ("gzip", gzipped(TEXT)[:-9]),
        ("gzip", gzipped(TEXT)[:-8] + b"\0" * 8),
        ("zstd", b"no zstd"),
    ],
)
async def test_a_broken_body_is_a_400(encoding: str, body: bytes) -> None:
    server = Server()
    answer = await server.post(body, encoding)
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == "invalid_encoding"
    assert server.budget.used == 0


@pytest.mark.parametrize("encoding", ["br", "gzip, zstd"])
async def test_an_unknown_encoding_is_a_415_that_names_the_known(encoding: str) -> None:
    answer = await Server().post(TEXT, encoding)
    assert answer.status_code == 415
    assert answer.json()["error"]["code"] == "unsupported_encoding"
    assert answer.headers["accept-encoding"] == "gzip, zstd"


async def test_nothing_is_received_after_an_error() -> None:
    answer = await Server().post(b"x" * (LIMIT + 1), path="/twice")
    assert answer.json() == {"type": "http.disconnect"}


@pytest.mark.parametrize(
    ("encoding", "body"),
    [("", b"x" * 2 * LIMIT), ("gzip", gzipped(b"x" * 2 * LIMIT)), ("gzip", b"no gzip" * 100)],
)
async def test_an_error_does_not_hold_what_was_read(encoding: str, body: bytes) -> None:
    """It lives as long as its answer is sent, and longer where it is part of a cycle."""
    seen: list[BaseException] = []

    async def app(_: Scope, receive: Receive, __: Send) -> None:
        try:
            await receive()
        except APIError as error:
            seen.append(error)

    async def receive() -> Message:
        return {"type": "http.request", "body": body}

    headers = [(b"content-encoding", encoding.encode())]
    scope: Scope = {"type": "http", "headers": headers}
    await Bodies(app, LIMIT, Budget(MEMORY))(scope, receive, unused)
    (error,) = seen
    assert error.__context__ is None
    assert error.__cause__ is None
    frames = [frame.f_code.co_name for frame, _ in traceback.walk_tb(error.__traceback__)]
    assert frames == ["app", "receive"]


@pytest.mark.parametrize(
    ("encoding", "body"),
    [("", b"a" * LIMIT), ("gzip", gzipped(b"a" * LIMIT)), ("zstd", zstd(b"a" * LIMIT))],
)
async def test_a_body_is_charged_decoded_until_the_request_is_answered(
    encoding: str, body: bytes
) -> None:
    server = Server()
    assert (await server.post(body, encoding)).status_code == 200
    assert server.charged == [LIMIT]
    assert server.budget.used == 0


async def test_bodies_that_do_not_fit_together_are_refused_one_by_one() -> None:
    server = Server(memory=LIMIT + LIMIT // 2)
    arrived = asyncio.Event()
    go_on = asyncio.Event()

    async def slow() -> AsyncIterator[bytes]:
        yield b"x" * LIMIT
        arrived.set()
        await go_on.wait()

    first = asyncio.ensure_future(server.post(slow()))
    await arrived.wait()
    refused = [await server.post(b"x" * LIMIT), await server.post(pieces(b"x" * LIMIT))]
    small = await server.post(b"x" * (LIMIT // 2))
    go_on.set()
    assert (await first).status_code == 200
    assert [answer.status_code for answer in refused] == [503, 503]
    assert refused[0].headers["retry-after"] == "1"
    assert refused[0].json()["error"]["code"] == "body_memory_exhausted"
    assert small.status_code == 200
    assert (await server.post(b"x" * LIMIT)).status_code == 200
    assert server.budget.used == 0


async def test_the_pieces_of_a_body_are_charged_beside_the_whole_while_they_are_joined() -> None:
    half = pieces(b"x" * 500, b"x" * 500)
    assert (await Server(memory=1999).post(half)).status_code == 503
    half = pieces(b"x" * 500, b"x" * 500)
    server = Server(memory=2000)
    assert (await server.post(half)).status_code == 200
    assert server.charged == [LIMIT]


async def test_so_are_the_pieces_of_a_decoded_body() -> None:
    body = bytes(SLICE + 1000)
    short, enough = (Server(2 * SLICE, 2 * len(body) - missing) for missing in (1, 0))
    assert (await short.post(zstd(body), "zstd")).status_code == 503
    assert (await enough.post(zstd(body), "zstd")).status_code == 200
    assert enough.charged == [len(body)]


@pytest.mark.parametrize("encoding", [b"gzip", b"identity"])
async def test_a_client_that_leaves_half_way_is_gone(encoding: bytes) -> None:
    arriving: list[Message] = [
        {"type": "http.request", "body": b"half", "more_body": True},
        {"type": "http.disconnect"},
    ]

    async def receive() -> Message:
        return arriving.pop(0)

    async def app(scope: Scope, receive: Receive, _: Send) -> None:
        with pytest.raises(ClientDisconnect):
            await take_body(Request(scope, receive))

    budget = Budget(MEMORY)
    headers = [(b"content-encoding", encoding)]
    await Bodies(app, LIMIT, budget)({"type": "http", "headers": headers}, receive, unused)
    assert budget.used == 0


async def test_after_the_body_the_clients_disconnect_is_received_without_more_memory() -> None:
    arriving: list[Message] = [
        {"type": "http.request", "body": b"whole"},
        {"type": "http.disconnect"},
    ]
    seen: list[Message] = []

    async def receive() -> Message:
        return arriving.pop(0)

    async def app(_: Scope, receive: Receive, __: Send) -> None:
        seen.extend([await receive(), await receive()])

    headers = [(b"content-length", b"5")]
    await Bodies(app, LIMIT, Budget(5))({"type": "http", "headers": headers}, receive, unused)
    assert seen == [
        {"type": "http.request", "body": b"whole", "more_body": False},
        {"type": "http.disconnect"},
    ]


async def test_what_is_no_http_request_passes_through() -> None:
    seen: list[str] = []

    async def app(scope: Scope, _: Receive, __: Send) -> None:
        seen.append(scope["type"])

    await Bodies(app, LIMIT, Budget(MEMORY))({"type": "websocket"}, unused, unused)
    assert seen == ["websocket"]


@pytest.mark.parametrize("method", ["GET", "HEAD"])
async def test_a_body_without_a_meaning_is_not_refused(method: str) -> None:
    """Who streams an answer receives until the client leaves, and would end with the refusal."""
    whole = {"type": "http.request", "body": b"x" * (LIMIT + 1), "more_body": False}
    arriving: list[Message] = [whole, {"type": "http.disconnect"}]
    seen: list[str] = []

    async def receive() -> Message:
        return arriving.pop(0)

    async def app(_: Scope, receive: Receive, __: Send) -> None:
        while (message := await receive())["type"] != "http.disconnect":
            seen.append(message["type"])

    headers = [(b"content-encoding", b"br"), (b"content-length", b"999999")]
    scope: Scope = {"type": "http", "method": method, "headers": headers}
    await Bodies(app, LIMIT, Budget(MEMORY))(scope, receive, unused)
    assert seen == ["http.request"]


async def test_a_whole_body_is_read() -> None:
    arriving: list[Message] = [
        {"type": "http.request", "body": b"a", "more_body": True},
        {"type": "http.request", "body": b"b"},
    ]

    async def receive() -> Message:
        return arriving.pop(0)

    assert await read_body(receive) == b"ab"


async def unused(*_: Message) -> Any:
    raise AssertionError


async def test_a_body_that_is_refused_is_not_charged_any_more() -> None:
    server = Server()
    await server.post(pieces(b"x" * LIMIT, b"x"), path="/twice")
    assert server.charged == [0]
