"""A server on a real socket, and clients that send it single bytes."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import Any

import uvicorn
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from server.http.connections.config import Config
from server.http.connections.limits import Limits
from server.http.connections.protocol import Pending, Protocol
from server.http.connections.websocket import Socket
from tests.waiting import until

AGES = 3600.0
HEAD = b"POST %s HTTP/1.1\r\nHost: localhost\r\n"
SHORT = Limits(head_seconds=0.05, body_seconds=0.05, closing_seconds=AGES)
SHORT_BODY = Limits(body_seconds=0.05, closing_seconds=AGES)
UPGRADE = (
    b"GET /socket HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
)
KEY = b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"


def head(path: bytes = b"/echo", *lines: bytes) -> bytes:
    return HEAD % path + b"".join(line + b"\r\n" for line in lines) + b"\r\n"


class App:
    """Answers with the length of the body; by the path at once, later, or in parts."""

    def __init__(self) -> None:
        self.scopes: list[Scope] = []
        self.messages: list[bytes] = []
        self.left = 0
        self.go_on = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.scopes.append(scope)
        if scope["type"] == "websocket":
            if scope["path"] == "/refused":
                await Response("no", 401)(scope, receive, send)
            else:
                await self._hold_a_socket(scope["path"], receive, send)
            return
        started = {"type": "http.response.start", "status": 200, "headers": []}
        if scope["path"] == "/stream":
            await send(started)
            await send({"type": "http.response.body", "body": b"started", "more_body": True})
        if scope["path"] in ("/stream", "/later"):
            await self.go_on.wait()
        if scope["path"] == "/watch":
            await receive()
        length = 0 if scope["path"] == "/unread" else await self._length(receive)
        if length is None:
            self.left += 1
            return
        if scope["path"] != "/stream":
            await send(started)
        await send({"type": "http.response.body", "body": b"%d bytes" % length})

    async def _length(self, receive: Receive) -> int | None:
        length, more = 0, True
        while more:
            message: Message = await receive()
            if message["type"] == "http.disconnect":
                return None
            length += len(message["body"])
            more = message["more_body"]
        return length

    async def _hold_a_socket(self, path: str, receive: Receive, send: Send) -> None:
        if path == "/not_accepted":
            await self.go_on.wait()
        await send({"type": "websocket.accept"})
        if path == "/later":
            await self.go_on.wait()
        while (message := await receive())["type"] != "websocket.disconnect":
            self.messages += [message["bytes"]] if "bytes" in message else []
        self.left += 1


class Answer:
    """What a connection was answered until it was closed, or one answer of it."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        first, _, self.body = data.partition(b"\r\n\r\n")
        status, *lines = first.decode().split("\r\n") if data.startswith(b"HTTP/") else ("",)
        self.status = int(status.split()[1]) if status else 0
        self.headers = dict(line.lower().split(": ", 1) for line in lines)

    @property
    def error(self) -> dict[str, Any]:
        """The error of OpenAI's body."""
        assert self.headers["content-type"] == "application/json"
        assert int(self.headers["content-length"]) == len(self.body)
        assert re.fullmatch("req_[0-9a-f]{32}", self.headers["x-request-id"])
        assert self.headers["connection"] == "close"
        assert "date" in self.headers
        body = json.loads(self.body)
        assert set(body["error"]) == {"message", "type", "param", "code"}
        return body["error"]  # type: ignore[no-any-return]


class Client:
    """A connection to the server."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    def send(self, data: bytes) -> None:
        self._writer.write(data)

    async def drain(self) -> None:
        await self._writer.drain()

    async def read(self, end: bytes) -> Answer:
        """What comes up to `end`."""
        return Answer(await self._reader.readuntil(end))

    async def read_exactly(self, count: int) -> bytes:
        return await self._reader.readexactly(count)

    async def rest(self) -> Answer:
        """All that comes until the server closes."""
        return Answer(await self._reader.read())

    async def close(self) -> None:
        self._writer.close()
        await self._writer.wait_closed()


class Served:
    """A server, its application and its connections."""

    def __init__(self, app: App, server: uvicorn.Server) -> None:
        self.app = app
        self.state = server.server_state
        self.config = server.config
        self._port = server.servers[0].sockets[0].getsockname()[1]
        self._clients: list[Client] = []

    async def connect(self, data: bytes = b"") -> Client:
        """A client that has sent `data`."""
        client = Client(*await asyncio.open_connection("127.0.0.1", self._port))
        client.send(data)
        self._clients.append(client)
        return client

    async def answer(self, data: bytes) -> Answer:
        """All that a connection is answered which sends `data`."""
        return await (await self.connect(data)).rest()

    async def connection(self, awaited: Pending = Pending.HEAD) -> Protocol:
        """The server's side of the only connection, once it awaits this of its client."""

        def waiting() -> list[Protocol]:
            connections: Any = self.state.connections
            return [one for one in connections if one._pending is awaited]

        await until(lambda: waiting() != [])
        (connection,) = waiting()
        return connection

    def socket(self) -> Any:
        """The server's side of the only connection, which is a WebSocket."""
        (connection,) = self.state.connections
        assert isinstance(connection, Socket)
        return connection

    async def close(self) -> None:
        for client in self._clients:
            await client.close()


Serve = Callable[..., AbstractAsyncContextManager[Served]]


@asynccontextmanager
async def serve(limits: Limits, **options: Any) -> AsyncIterator[Served]:
    """A server with these limits on a free port; its clients are closed with it."""
    app = App()
    config = Config(
        app, limits, port=0, log_config=None, lifespan="off", access_log=False, **options
    )
    config.load()
    server = uvicorn.Server(config)
    server.lifespan = config.lifespan_class(config)
    await server.startup()
    await server.on_tick(0)  # the headers of the server
    served = Served(app, server)
    try:
        yield served
    finally:
        app.go_on.set()
        await served.close()
        server.servers[0].close()
        await until(lambda: not served.state.connections and not served.state.tasks)


async def until_expired(connection: Protocol | Socket, times: int = 2) -> None:
    """Return when the connection's deadline has passed and began anew so often."""
    for _ in range(times):
        deadline = connection._deadline
        assert deadline is not None
        await until(partial(_has_another_deadline, connection, deadline))


def _has_another_deadline(connection: Protocol | Socket, earlier: object) -> bool:
    return connection._deadline is not earlier


def hurry(connection: Protocol) -> None:
    """Give the client little time from now on: no stall of this process can be its fault."""
    connection._limits = SHORT
    connection._await(connection._pending)
