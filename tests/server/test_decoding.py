"""Compressed request bodies."""

import gzip
from collections.abc import AsyncIterator

import httpx
import pytest
import zstandard
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from server.decoding import Decoding, read_body
from server.errors import APIError
from server.middleware import BodyLimit
from server.respond import json_response

LIMIT = 1000
TEXT = b'{"input": "hello"}'


def gzipped(body: bytes) -> bytes:
    """With no time in it: every test process has to make the same cases."""
    return gzip.compress(body, mtime=0)


async def echo(request: Request) -> Response:
    return Response(await request.body())


async def refuse(_: Request, error: Exception) -> Response:
    assert isinstance(error, APIError)
    return (
        json_response(error.body(), error.status)
        if not error.headers
        else Response(headers=error.headers, status_code=error.status)
    )


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    app = Starlette(
        routes=[Route("/echo", echo, methods=["POST"])],
        middleware=[Middleware(BodyLimit, limit=LIMIT), Middleware(Decoding, limit=LIMIT)],
        exception_handlers={APIError: refuse},
    )
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
        yield client


async def post(client: httpx.AsyncClient, body: bytes, encoding: str) -> httpx.Response:
    return await client.post("/echo", content=body, headers={"content-encoding": encoding})


def zstd(text: bytes) -> bytes:
    return zstandard.ZstdCompressor().compress(text)


def streamed_zstd(text: bytes) -> bytes:
    """As clients write it that do not know the size before."""
    compressor = zstandard.ZstdCompressor().compressobj()
    return compressor.compress(text) + compressor.flush()


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
async def test_a_body_is_decoded(client: httpx.AsyncClient, encoding: str, body: bytes) -> None:
    assert (await post(client, body, encoding)).content == TEXT


async def test_a_body_in_pieces_is_decoded(client: httpx.AsyncClient) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for byte in zstd(TEXT):
            yield bytes([byte])

    headers = {"content-encoding": "zstd"}
    answer = await client.post("/echo", content=pieces(), headers=headers)
    assert answer.content == TEXT


@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
@pytest.mark.parametrize("size", [LIMIT + 1, 300 * LIMIT])
async def test_the_limit_is_that_of_the_decoded_body(
    client: httpx.AsyncClient, encoding: str, size: int
) -> None:
    compress = {"gzip": gzipped, "zstd": streamed_zstd}[encoding]
    assert (await post(client, compress(b"a" * LIMIT), encoding)).status_code == 200
    bomb = compress(b"a" * size)
    assert len(bomb) < LIMIT
    assert (await post(client, bomb, encoding)).status_code == 413


@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        ("gzip", b"no gzip"),
        ("gzip", gzipped(TEXT)[:-9]),
        ("gzip", gzipped(TEXT)[:-8] + b"\0" * 8),
        ("zstd", b"no zstd"),
    ],
)
async def test_a_broken_body_is_a_400(
    client: httpx.AsyncClient, encoding: str, body: bytes
) -> None:
    answer = await post(client, body, encoding)
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == "invalid_encoding"


@pytest.mark.parametrize("encoding", ["br", "gzip, zstd"])
async def test_an_unknown_encoding_is_a_415_that_names_the_known(
    client: httpx.AsyncClient, encoding: str
) -> None:
    answer = await post(client, TEXT, encoding)
    assert answer.status_code == 415
    assert answer.headers["accept-encoding"] == "gzip, zstd"


async def test_a_client_that_leaves_half_way_is_gone() -> None:
    arriving: list[Message] = [
        {"type": "http.request", "body": b"half", "more_body": True},
        {"type": "http.disconnect"},
    ]

    async def receive() -> Message:
        return arriving.pop(0)

    async def send(_: Message) -> None:
        raise AssertionError

    seen: list[Message] = []

    async def app(_: Scope, receive: Receive, __: Send) -> None:
        seen.append(await receive())

    headers = [(b"content-encoding", b"gzip")]
    await Decoding(app, LIMIT)({"type": "http", "headers": headers}, receive, send)
    assert seen == [{"type": "http.disconnect"}]


async def test_what_is_no_http_request_passes_through() -> None:
    seen: list[str] = []

    async def app(scope: Scope, _: Receive, __: Send) -> None:
        seen.append(scope["type"])

    async def unused(*_: Message) -> Message:
        raise AssertionError

    await Decoding(app, LIMIT)({"type": "websocket"}, unused, unused)
    assert seen == ["websocket"]


async def test_a_whole_body_is_read() -> None:
    arriving: list[Message] = [
        {"type": "http.request", "body": b"a", "more_body": True},
        {"type": "http.request", "body": b"b"},
    ]

    async def receive() -> Message:
        return arriving.pop(0)

    assert await read_body(receive) == b"ab"
