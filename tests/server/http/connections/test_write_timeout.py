"""Clients that do not read, over real connections."""

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import uvicorn
from starlette.types import Receive, Scope, Send

from server.http.connections import write_timeout
from server.http.connections.config import Config
from server.http.connections.limits import Limits
from server.http.connections.write_timeout import CHECKS, WriteDeadline
from tests.waiting import until

CHUNK = b"x" * 65_536
HANDSHAKE = (
    "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
)


class Endless:
    """An application that sends until its client is gone; `gone` is set then."""

    def __init__(self) -> None:
        self.gone = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        sending = asyncio.ensure_future(self._send(scope["type"], send))
        while not (await receive())["type"].endswith(".disconnect"):
            continue
        self.gone.set()
        sending.cancel()
        await asyncio.wait([sending])

    async def _send(self, kind: str, send: Send) -> None:
        if kind == "http":
            await send({"type": "http.response.start", "status": 200, "headers": []})
        else:
            await send({"type": "websocket.accept"})
        while True:
            if kind == "http":
                await send({"type": "http.response.body", "body": CHUNK, "more_body": True})
            else:
                await send({"type": "websocket.send", "bytes": os.urandom(65_536)})


async def whole(scope: Scope, receive: Receive, send: Send) -> None:
    """An application whose answer is one write."""
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": CHUNK * 256})


@asynccontextmanager
async def serving(app: Any) -> AsyncIterator[tuple[uvicorn.Server, int]]:
    config = Config(app, Limits(), port=0, lifespan="off", log_config=None)
    server = uvicorn.Server(config)
    serving = asyncio.ensure_future(server.serve())
    await until(lambda: server.started)
    yield server, server.servers[0].sockets[0].getsockname()[1]
    server.should_exit = True
    await serving


def ask(port: int, headers: str = "") -> socket.socket:
    """A client with little room for an answer, which it does not read."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.connect(("127.0.0.1", port))
    client.sendall(f"GET / HTTP/1.1\r\nHost: x\r\n{headers}\r\n".encode())
    return client


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write_timeout, "WRITE_SECONDS", 0.2)


@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize("headers", ["", HANDSHAKE])
async def test_who_reads_nothing_is_disconnected(headers: str) -> None:
    app = Endless()
    async with serving(app) as (_, port):
        with ask(port, headers):
            async with asyncio.timeout(30):
                await app.gone.wait()


@pytest.mark.usefixtures("soon")
async def test_what_was_written_whole_is_dropped_too() -> None:
    async with serving(whole) as (server, port):
        with ask(port, "Connection: close\r\n"):
            await until(lambda: bool(server.server_state.connections))
            await until(lambda: not server.server_state.connections)


class Transport:
    """A write buffer, and whether the connection was aborted."""

    def __init__(self) -> None:
        self.unsent = 100_000
        self.aborted = False

    def get_write_buffer_size(self) -> int:
        return self.unsent

    def abort(self) -> None:
        self.aborted = True


class Slow(WriteDeadline):
    """A connection on which time goes by as the test says."""

    def __init__(self) -> None:
        self.transport = Transport()
        self.loop = asyncio.get_running_loop()

    def look(self, times: int) -> None:
        for _ in range(times):
            self._check()

    @property
    def watches(self) -> bool:
        return self._next_check is not None


async def test_who_reads_little_is_not_disconnected() -> None:
    connection = Slow()
    connection.pause_writing()
    for _ in range(3):
        connection.look(CHECKS - 1)
        connection.transport.unsent -= 1
    assert not connection.transport.aborted
    connection.look(CHECKS + 1)
    assert connection.transport.aborted


async def test_what_is_written_meanwhile_is_no_progress() -> None:
    connection = Slow()
    connection.pause_writing()
    for _ in range(CHECKS):
        connection.transport.unsent += 10
        connection.look(1)
    assert connection.transport.aborted


@pytest.mark.parametrize("lost", [True, False])
async def test_who_reads_on_is_watched_no_more(lost: bool) -> None:
    connection = Slow()
    connection.pause_writing()
    assert connection.watches
    if lost:
        connection.connection_lost(None)
    else:
        connection.resume_writing()
    assert not connection.watches
