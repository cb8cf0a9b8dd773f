"""Answers that come before the request's body, over real sockets: who closes, and when."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from server.http.connections import unread_bodies
from server.http.connections.unread_bodies import LINGER_BYTES, SMALL_BODY, UnreadBody


async def early(_: Request) -> Response:
    return Response("early", status_code=401)


async def stream(_: Request) -> Response:
    return StreamingResponse(iter([b"a", b"b"]), headers={"connection": "keep-alive"})


async def read(request: Request) -> Response:
    return Response(str(len(await request.body())))


@asynccontextmanager
async def address() -> AsyncIterator[tuple[str, int]]:
    app = Starlette(
        routes=[
            Route("/early", early, methods=["POST"]),
            Route("/stream", stream, methods=["POST"]),
            Route("/read", read, methods=["POST"]),
        ],
        middleware=[Middleware(UnreadBody)],
    )
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        config = uvicorn.Config(app, log_config=None, lifespan="off")
        server = uvicorn.Server(config)
        serving = asyncio.ensure_future(server.serve(sockets=[listener]))
        try:
            yield listener.getsockname()
        finally:
            server.should_exit = True
            await serving


def head(path: str, *headers: str) -> bytes:
    return "\r\n".join([f"POST {path} HTTP/1.1", "Host: test", *headers, "", ""]).encode()


async def answer(reader: asyncio.StreamReader) -> tuple[str, bytes]:
    """The head in lower case, and the body of a declared length."""
    text = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
    length = int(text.partition("content-length: ")[2].split("\r\n")[0])
    return text, await reader.readexactly(length)


async def send_on(writer: asyncio.StreamWriter, size: int) -> None:
    """Chunks of a body, `size` bytes of them."""
    for _ in range(size // 0x10000):
        writer.write(b"10000\r\n" + b"x" * 0x10000 + b"\r\n")
        await writer.drain()


async def test_a_small_body_that_nobody_read_does_not_close() -> None:
    async with address() as (host, port):
        reader, writer = await asyncio.open_connection(host, port)
        for _ in range(2):
            writer.write(head("/early", f"Content-Length: {SMALL_BODY}") + b"x" * SMALL_BODY)
            text, body = await answer(reader)
            assert text.startswith("http/1.1 401")
            assert "connection: close" not in text
            assert body == b"early"
        writer.close()


async def test_a_long_body_that_was_read_does_not_close() -> None:
    async with address() as (host, port):
        reader, writer = await asyncio.open_connection(host, port)
        for _ in range(2):
            size = 2 * SMALL_BODY
            writer.write(head("/read", f"Content-Length: {size}") + b"x" * size)
            text, body = await answer(reader)
            assert "connection: close" not in text
            assert body == str(size).encode()
        writer.close()


async def test_the_answer_is_there_before_the_body_and_then_the_connection_ends() -> None:
    async with address() as (host, port):
        reader, writer = await asyncio.open_connection(host, port)
        writer.write(head("/early", "Content-Length: 200000"))
        text, body = await answer(reader)
        assert "connection: close" in text
        assert body == b"early"
        writer.write(b"x" * 200_000)
        assert await reader.read() == b""
        writer.close()


async def test_a_client_that_sends_its_body_before_it_reads_gets_the_answer() -> None:
    async with address() as (host, port):
        reader, writer = await asyncio.open_connection(host, port)
        writer.write(head("/early", "Transfer-Encoding: chunked"))
        await send_on(writer, LINGER_BYTES // 2)
        writer.write(b"0\r\n\r\n")
        assert (await answer(reader))[1] == b"early"
        assert await reader.read() == b""
        writer.close()


async def test_a_client_that_sends_on_is_cut_off() -> None:
    async with address() as (host, port):
        reader, writer = await asyncio.open_connection(host, port)
        writer.write(head("/early", "Transfer-Encoding: chunked"))
        assert (await answer(reader))[1] == b"early"
        with pytest.raises(ConnectionError):
            await send_on(writer, 100 * LINGER_BYTES)
        writer.transport.abort()


async def test_a_client_that_sends_nothing_more_is_cut_off(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(unread_bodies, "LINGER_SECONDS", 0.01)
    async with address() as (host, port):
        reader, writer = await asyncio.open_connection(host, port)
        writer.write(head("/early", "Content-Length: 200000"))
        await answer(reader)
        assert await reader.read() == b""
        writer.close()


async def test_who_expects_a_continue_is_answered_without_having_sent_its_body() -> None:
    async with address() as (host, port):
        reader, writer = await asyncio.open_connection(host, port)
        writer.write(head("/early", "Content-Length: 2", "Expect: 100-continue"))
        text, _ = await answer(reader)
        assert text.startswith("http/1.1 401")
        assert "connection: close" in text
        writer.close()


async def test_who_expects_a_continue_gets_it_where_its_body_is_read() -> None:
    async with address() as (host, port):
        reader, writer = await asyncio.open_connection(host, port)
        writer.write(head("/read", "Content-Length: 2", "Expect: 100-continue"))
        assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        writer.write(b"{}")
        text, body = await answer(reader)
        assert "connection: close" not in text
        assert body == b"2"
        writer.close()


async def test_a_stream_ends_its_connection_too() -> None:
    async with address() as (host, port):
        reader, writer = await asyncio.open_connection(host, port)
        writer.write(head("/stream", "Transfer-Encoding: chunked"))
        text = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        assert text.count("connection:") == 1
        assert "connection: close" in text
        writer.write(b"0\r\n\r\n")
        assert await reader.read() == b"1\r\na\r\n1\r\nb\r\n0\r\n\r\n"
        writer.close()


async def test_what_is_no_http_request_passes_through() -> None:
    seen: list[str] = []

    async def app(scope: Scope, _: Receive, __: Send) -> None:
        seen.append(scope["type"])

    async def unused(*_: Message) -> Any:
        raise AssertionError

    await UnreadBody(app)({"type": "websocket"}, unused, unused)
    assert seen == ["websocket"]
