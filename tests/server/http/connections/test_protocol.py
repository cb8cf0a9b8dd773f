"""Connections over real sockets: what they may send, for how long, and how many there may be."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest
import uvicorn
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from server.http.connections.limits import Limits
from server.http.connections.protocol import Config, Pending, Protocol, Socket

AGES = 3600.0
HEAD = b"POST %s HTTP/1.1\r\nHost: localhost\r\n"
SHORT = Limits(head_seconds=0.05, body_seconds=0.05, closing_seconds=AGES)
SHORT_BODY = Limits(body_seconds=0.05, closing_seconds=AGES)
UPGRADE = (
    b"GET /socket HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
)
PING = b"\x89\x04"
"""The head of a ping with four bytes of payload, as uvicorn sends it."""
KEY = b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"


def head(path: bytes = b"/echo", *lines: bytes) -> bytes:
    return HEAD % path + b"".join(line + b"\r\n" for line in lines) + b"\r\n"


async def until(condition: Callable[[], bool]) -> None:
    """Return when the condition holds."""
    for _ in range(10_000):
        if condition():
            return
        await asyncio.sleep(0.001)
    raise AssertionError("the condition is still false")


class App:
    """Answers with the length of the body; by the path at once, later, or in parts."""

    def __init__(self) -> None:
        self.scopes: list[Scope] = []
        self.left = 0
        self.go_on = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.scopes.append(scope)
        if scope["type"] == "websocket":
            if scope["path"] == "/refused":
                await Response("no", 401)(scope, receive, send)
            else:
                await self._hold_a_socket(receive, send)
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

    async def _hold_a_socket(self, receive: Receive, send: Send) -> None:
        await send({"type": "websocket.accept"})
        while (await receive())["type"] != "websocket.disconnect":
            continue
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

    async def close(self) -> None:
        for client in self._clients:
            await client.close()


class Unread:
    """The transport of a client that reads nothing: it collects what is written."""

    def __init__(self, unsent: list[bytes]) -> None:
        self.write = unsent.append

    def get_write_buffer_size(self) -> int:
        return 0


Serve = Callable[..., AbstractAsyncContextManager[Served]]


@asynccontextmanager
async def serve(limits: Limits, **options: Any) -> AsyncIterator[Served]:
    """A server with these limits on a free port; its clients are closed with it."""
    app = App()
    config = Config(
        app, limits, port=0, log_config=None, lifespan="off", access_log=False, **options
    )
    server = uvicorn.Server(config)
    running = asyncio.create_task(server.serve())
    await until(lambda: server.started)
    served = Served(app, server)
    try:
        yield served
    finally:
        app.go_on.set()
        await served.close()
        server.should_exit = True
        await running


async def until_expired(connection: Protocol, times: int = 2) -> None:
    """Return when the connection's deadline has passed and began anew so often."""
    for _ in range(times):
        deadline = connection._deadline
        assert deadline is not None
        await until(lambda deadline=deadline: connection._deadline is not deadline)


def hurry(connection: Protocol) -> None:
    """Give the client little time from now on: no stall of this process can be its fault."""
    connection._limits = SHORT
    connection._await(connection._pending)


# The head


@pytest.mark.parametrize(
    "start", [b"GET /", b"GET / HTTP/1.1\r\nHost: x\r\nA: ", b"GET / HTTP/1.1\r\nHost: x\r\nA"]
)
async def test_a_head_without_end_is_a_431(start: bytes) -> None:
    async with serve(Limits()) as served:
        answer = await served.answer(start + b"a" * 70_000)
        assert answer.status == 431
        assert answer.error["code"] == "headers_too_large"


async def test_a_refusal_without_the_application_is_reported_by_its_code() -> None:
    codes: list[str | None] = []
    async with serve(Limits(), refused=codes.append) as served:
        await served.answer(b"GET / HTTP/1.1\r\nHost: x\r\nA: " + b"a" * 70_000)
        await served.answer(b"nonsense\r\n\r\n")
    assert codes == ["headers_too_large", None]


async def test_a_head_that_comes_in_parts_is_counted_as_a_whole() -> None:
    async with serve(Limits(head_bytes=1000)) as served:
        client = await served.connect(b"GET / HTTP/1.1\r\nHost: x\r\nA: ")
        connection = await served.connection()
        for size in (200, 400, 600):
            client.send(b"a" * 200)
            await until(lambda size=size: connection._head_bytes > size)
        client.send(b"a" * 600)
        assert (await client.rest()).status == 431


async def test_a_head_that_is_too_large_is_a_431_though_it_ends() -> None:
    async with serve(Limits(head_bytes=1000)) as served:
        requests = head(b"/unread") + head(b"/unread", b"A: " + b"a" * 1000)
        first, second = (await served.answer(requests)).data.split(b"0 bytes")
        assert b" 431 " in second or first.startswith(b"HTTP/1.1 431 ")


async def test_the_rest_of_a_piece_is_parsed_too() -> None:
    async with serve(Limits(head_bytes=1000)) as served:
        body = b"b" * 200_000
        data = head(b"/echo", b"Content-Length: 200000") + body
        client = await served.connect(data * 2)
        for _ in range(2):
            assert b"200000 bytes" in (await client.read(b"0\r\n\r\n")).body


async def test_a_head_may_be_as_large_as_the_limit() -> None:
    async with serve(Limits()) as served:
        answer = await served.answer(head(b"/echo", b"A: " + b"a" * 65_000, b"Connection: close"))
        assert answer.status == 200


@pytest.mark.parametrize(("fields", "status"), [(10, 200), (11, 431)])
async def test_the_number_of_fields_is_bounded(fields: int, status: int) -> None:
    async with serve(Limits(head_fields=10)) as served:
        lines = [b"A: b"] * (fields - 2)
        answer = await served.answer(head(b"/unread", *lines, b"Connection: close"))
        assert answer.status == status


async def test_a_slow_head_is_a_408() -> None:
    async with serve(SHORT) as served:
        answer = await served.answer(b"GET / HTTP/1.1\r\nHost: x\r\n")
        assert answer.status == 408
        assert answer.error["code"] == "request_timeout"


async def test_a_slow_head_of_a_later_request_is_a_408() -> None:
    async with serve(Limits()) as served:
        client = await served.connect(head(b"/unread"))
        assert (await client.read(b"0\r\n\r\n")).status == 200
        client.send(b"G")
        hurry(await served.connection())
        assert (await client.rest()).status == 408


@pytest.mark.parametrize("data", [b"", b"\r\n" * 100])
async def test_who_asks_nothing_is_not_answered(data: bytes) -> None:
    async with serve(SHORT) as served:
        assert (await served.answer(data)).data == b""


async def test_empty_lines_do_not_keep_a_connection_open() -> None:
    async with serve(Limits()) as served:
        client = await served.connect(head(b"/unread"))
        await client.read(b"0\r\n\r\n")
        client.send(b"\r\n")
        connection = await served.connection()
        hurry(connection)
        deadline = connection._deadline
        client.send(b"\r\n")
        await client.drain()
        assert (await client.rest()).data == b""
        assert connection._deadline is None is not deadline


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"GET /unread HTTP/1.1\r\nConnection: close\r\n\r\n", 400),
        (b"GET /unread HTTP/1.1\r\nHost: a\r\nHost: a\r\nConnection: close\r\n\r\n", 400),
        (b"GET /unread HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n", 400),
        (b"GET /unread HTTP/1.0\r\n\r\n", 200),
        (b"GET /unread HTTP/1.1\r\nHost:\r\nConnection: close\r\n\r\n", 200),
    ],
)
async def test_a_request_has_one_host(data: bytes, status: int) -> None:
    async with serve(Limits()) as served:
        answer = await served.answer(data)
        assert answer.status == status
        if status == 400:
            assert answer.error["type"] == "invalid_request_error"
            assert served.app.scopes == []


@pytest.mark.parametrize(
    "data",
    [
        b"\x16\x03\x01\x02\x00\x01\x00",
        b"GET / HTTP/1.1\r\nHost: a\r\nA b\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\nHost: a\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n",
    ],
)
async def test_what_is_no_request_is_a_400_in_openais_body(data: bytes) -> None:
    async with serve(Limits()) as served:
        answer = await served.answer(data)
        assert answer.status == 400
        assert answer.error["message"] == "Invalid HTTP request received."


async def test_a_client_may_read_why_while_it_still_sends() -> None:
    async with serve(Limits()) as served:
        client = await served.connect(b"nonsense\r\n\r\n" + b"a" * 1_000_000)
        await client.drain()
        assert (await client.rest()).status == 400
        await client.close()
        await until(lambda: not served.state.connections)


async def test_a_refused_client_that_stays_is_closed() -> None:
    async with serve(Limits(closing_seconds=0.01)) as served:
        await served.connect(b"nonsense\r\n\r\n")
        await until(lambda: not served.state.connections)
        assert served.config.open_connections.open == 0  # type: ignore[attr-defined]


# The body


async def test_a_body_that_does_not_go_on_is_a_408() -> None:
    async with serve(SHORT_BODY) as served:
        answer = await served.answer(head(b"/echo", b"Content-Length: 2") + b"a")
        assert answer.status == 408
        assert answer.error["message"] == "Nothing of the body came for 0.05 s."
        await until(lambda: served.app.left == 1)


async def test_a_body_that_goes_on_has_all_the_time_it_needs() -> None:
    async with serve(Limits()) as served:
        client = await served.connect(head(b"/echo", b"Content-Length: 2"))
        connection = await served.connection(Pending.BODY)
        connection._progress += AGES
        hurry(connection)
        await until_expired(connection, 1)
        client.send(b"aa")
        assert b"2 bytes" in (await client.read(b"0\r\n\r\n")).body


async def test_a_body_that_nobody_reads_is_not_late() -> None:
    async with serve(SHORT_BODY) as served:
        client = await served.connect(head(b"/later", b"Content-Length: 3000000"))
        client.send(b"a" * 3_000_000)
        connection = await served.connection(Pending.BODY)
        await until(lambda: connection.flow.read_paused)
        await until_expired(connection)
        connection._limits = Limits()
        served.app.go_on.set()
        assert b"3000000 bytes" in (await client.read(b"0\r\n\r\n")).body


async def test_a_body_that_was_read_just_now_is_not_late() -> None:
    async with serve(Limits()) as served:
        await served.connect(head(b"/echo", b"Content-Length: 2"))
        connection = await served.connection(Pending.BODY)
        connection._was_paused = True
        hurry(connection)
        await until_expired(connection, 1)
        assert not connection._was_paused


async def test_a_client_that_is_not_asked_to_continue_is_not_late() -> None:
    async with serve(SHORT_BODY) as served:
        lines = (b"Content-Length: 2", b"Expect: 100-continue")
        client = await served.connect(head(b"/later", *lines))
        connection = await served.connection(Pending.BODY)
        await until_expired(connection)
        connection._limits = Limits()
        served.app.go_on.set()
        assert (await client.read(b"\r\n\r\n")).status == 100
        client.send(b"aa")
        assert b"2 bytes" in (await client.read(b"0\r\n\r\n")).body


@pytest.mark.parametrize("lines", [(), (b"Expect: 100-continue",)])
async def test_the_rest_of_an_answered_body_is_not_awaited_for_ever(
    lines: tuple[bytes, ...],
) -> None:
    limits = Limits(unread_seconds=AGES if lines else 0.01, closing_seconds=0.01)
    async with serve(limits) as served:
        answer = await served.answer(head(b"/unread", b"Content-Length: 9", *lines))
        assert b"0 bytes" in answer.body


async def test_a_connection_goes_on_behind_the_rest_of_an_answered_body() -> None:
    async with serve(Limits()) as served:
        client = await served.connect(head(b"/unread", b"Content-Length: 9") + b"a")
        await client.read(b"0\r\n\r\n")
        client.send(b"a" * 7)
        client.send(b"a" + head(b"/unread"))
        assert (await client.read(b"0\r\n\r\n")).status == 200


CHUNKED = head(b"/echo", b"Transfer-Encoding: chunked")


@pytest.mark.parametrize("method", [b"GET", b"HEAD"])
async def test_http_1_0_gets_no_chunks(method: bytes) -> None:
    async with serve(Limits()) as served:
        served.app.go_on.set()
        answer = await served.answer(method + b" /stream HTTP/1.0\r\n\r\n")
    assert answer.status == 200
    assert "transfer-encoding" not in answer.headers
    assert answer.headers["connection"] == "close"
    assert answer.body == (b"started0 bytes" if method == b"GET" else b"")


@pytest.mark.parametrize(
    "endless",
    [
        pytest.param(b"0\r\nA: " + b"a" * 5000, id="a trailer"),
        pytest.param(b"0\r\n" + b"A: a\r\n" * 1000, id="trailers"),
        pytest.param(b"1;" + b"a" * 5000, id="a chunk's extension"),
    ],
)
async def test_what_is_beside_a_body_is_bounded(endless: bytes) -> None:
    async with serve(Limits(head_bytes=1000)) as served:
        client = await served.connect(CHUNKED)
        await served.connection(Pending.BODY)
        client.send(endless)
        answer = await client.rest()
        assert answer.status == 431
        assert answer.error["code"] == "headers_too_large"


async def test_trailers_are_no_headers() -> None:
    async with serve(Limits()) as served:
        client = await served.connect(CHUNKED + b"1\r\na\r\n0\r\nAuthorization: b\r\n\r\n")
        assert b"1 bytes" in (await client.read(b"0\r\n\r\n")).body
        assert b"authorization" not in dict(served.app.scopes[0]["headers"])


# Answers


async def test_no_deadline_cuts_off_an_answer() -> None:
    async with serve(Limits()) as served:
        client = await served.connect(head(b"/stream") + b"POST / HT")
        await client.read(b"started\r\n")
        connection = await served.connection()
        hurry(connection)
        await until_expired(connection)
        served.app.go_on.set()
        assert (await client.read(b"0\r\n\r\n")).data.endswith(b"0 bytes\r\n0\r\n\r\n")
        assert (await client.rest()).status == 408


async def test_no_deadline_cuts_off_an_answer_that_begins_before_the_bodys_end() -> None:
    async with serve(SHORT_BODY) as served:
        client = await served.connect(head(b"/stream", b"Content-Length: 2"))
        await client.read(b"started\r\n")
        connection = await served.connection(Pending.BODY)
        await until_expired(connection)
        connection._limits = Limits()
        served.app.go_on.set()
        client.send(b"aa")
        assert (await client.read(b"0\r\n\r\n")).data.endswith(b"2 bytes\r\n0\r\n\r\n")


@pytest.mark.parametrize("data", [b"nonsense\r\n\r\n", UPGRADE + KEY + b"\r\n"])
async def test_in_the_middle_of_an_answer_stands_no_other(data: bytes) -> None:
    async with serve(Limits()) as served:
        client = await served.connect(head(b"/stream"))
        await client.read(b"started\r\n")
        client.send(data)
        assert (await client.rest()).data == b""


# Requests on one connection


async def test_requests_that_wait_are_answered_in_order() -> None:
    async with serve(Limits()) as served:
        bodies = [head(b"/echo", b"Content-Length: %d" % i) + b"a" * i for i in range(4)]
        client = await served.connect(head(b"/later") + b"".join(bodies[1:]))
        await until(lambda: len(served.app.scopes) == 1)
        served.app.go_on.set()
        for i in range(4):
            assert b"%d bytes" % i in (await client.read(b"0\r\n\r\n")).body


async def test_a_body_of_a_request_that_waits_is_not_late() -> None:
    async with serve(SHORT_BODY) as served:
        waiting = head(b"/echo", b"Content-Length: 2")
        client = await served.connect(head(b"/later") + waiting)
        connection = await served.connection(Pending.BODY)
        await until_expired(connection)
        connection._limits = Limits()
        served.app.go_on.set()
        await client.read(b"0\r\n\r\n")
        client.send(b"aa")
        assert b"2 bytes" in (await client.read(b"0\r\n\r\n")).body


async def test_few_requests_wait_on_a_connection() -> None:
    async with serve(Limits(pipelined=2)) as served:
        answer = await served.answer(head(b"/later") * 4)
        assert answer.status == 400
        assert answer.error["message"] == "Too many requests wait on this connection."


async def test_every_request_of_a_connection_learns_that_it_is_lost() -> None:
    async with serve(Limits()) as served:
        client = await served.connect(head(b"/watch") + head(b"/echo") + head(b"/echo"))
        await until(lambda: len(served.app.scopes) == 1)
        await client.close()
        await until(lambda: served.app.left == 1)
        assert len(served.app.scopes) == 1


# How many


async def test_more_connections_are_a_503_until_one_closes() -> None:
    async with serve(Limits(connections=1)) as served:
        first = await served.connect(head(b"/unread"))
        await first.read(b"0\r\n\r\n")
        answer = await served.answer(b"")
        assert (answer.status, answer.headers["retry-after"]) == (503, "1")
        assert answer.error["code"] == "server_overloaded"
        await first.close()
        await until(lambda: not served.state.connections)
        assert (await served.answer(head(b"/unread", b"Connection: close"))).status == 200


async def test_an_address_has_its_share() -> None:
    async with serve(Limits(connections_per_address=1)) as served:
        client = await served.connect(head(b"/unread"))
        await client.read(b"0\r\n\r\n")
        assert (await served.answer(b"")).status == 503


@pytest.mark.parametrize(
    ("path", "status"),
    [(b"/unread", 503), (b"/health", 200), (b"/ready", 200), (b"/metrics", 200)],
)
async def test_more_requests_are_a_503_but_for_health_checks(path: bytes, status: int) -> None:
    async with serve(Limits(requests=1)) as served:
        await served.connect(head(b"/later"))
        await until(lambda: len(served.app.scopes) == 1)
        answer = await served.answer(head(path, b"Connection: close"))
        assert answer.status == status
        if status == 503:
            assert answer.headers["retry-after"] == "1"
            assert answer.error["code"] == "server_overloaded"


# WebSockets


async def test_a_websocket_has_no_deadline_and_is_counted() -> None:
    async with serve(Limits()) as served:
        client = await served.connect()
        connection = await served.connection()
        client.send(UPGRADE + KEY + b"\r\n")
        assert (await client.read(b"\r\n\r\n")).status == 101
        assert connection._deadline is None
        connections = served.config.open_connections  # type: ignore[attr-defined]
        assert connections.open == 1
        await client.close()
        await until(lambda: connections.open == 0)
        await until(lambda: served.app.left == 1)


async def test_a_websocket_is_pinged_on_though_no_pong_comes() -> None:
    async with serve(Limits(), ws_ping_interval=0.01) as served:
        client = await served.connect(UPGRADE + KEY + b"\r\n")
        assert (await client.read(b"\r\n\r\n")).status == 101
        for _ in range(3):
            assert (await client.read_exactly(len(PING) + 4))[:2] == PING


async def test_a_late_pong_does_not_shorten_the_time_to_the_next_ping() -> None:
    class Loop:
        def call_later(self, seconds: float, _: Callable[[], None]) -> None:
            self.seconds = seconds

    async with serve(Limits(), ws_ping_interval=20) as served:
        loop: Any = Loop()
        connection = Socket(served.config, served.state, {}, loop)
        connection.last_ping_rtt = 19.99
        connection.schedule_ping()
        assert loop.seconds == 20


def numbered_ping(number: int) -> bytes:
    """A ping with four bytes of payload, masked by zeros."""
    return b"\x89\x84" + bytes(4) + number.to_bytes(4)


async def test_a_client_that_reads_nothing_gets_a_pong_to_its_last_ping_only() -> None:
    async with serve(Limits()) as served:
        client = await served.connect(UPGRADE + KEY + b"\r\n")
        assert (await client.read(b"\r\n\r\n")).status == 101
        connections: Any = served.state.connections
        (connection,) = connections
        connection.pause_writing()  # what the transport calls when its buffer is full
        unsent: list[bytes] = []
        connection.transport, transport = Unread(unsent), connection.transport
        for number in range(1000):
            client.send(numbered_ping(number))
        await until(lambda: connection._delayed_pong.endswith((999).to_bytes(4)))
        assert unsent == []
        connection.transport = transport
        connection.resume_writing()
        assert await client.read_exactly(6) == b"\x8a\x04" + (999).to_bytes(4)


async def test_another_upgrade_is_not_made(caplog: pytest.LogCaptureFixture) -> None:
    async with serve(Limits()) as served:
        lines = (b"Connection: Upgrade", b"Upgrade: h2c")
        client = await served.connect(head(b"/unread", *lines) * 2)
        assert (await client.read(b"0\r\n\r\n")).status == 200
        assert caplog.records == []


async def test_more_websockets_are_a_503() -> None:
    async with serve(Limits(requests=1)) as served:
        await served.connect(head(b"/later"))
        await until(lambda: len(served.app.scopes) == 1)
        answer = await served.answer(UPGRADE + KEY + b"\r\n")
        assert answer.status == 503
        assert answer.error["code"] == "server_overloaded"


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param(b"", id="no key"),
        pytest.param(KEY + b"A: " + b"a" * 9000 + b"\r\n", id="a line that is too long"),
    ],
)
async def test_a_handshake_that_is_not_valid_is_a_400(lines: bytes) -> None:
    async with serve(Limits()) as served:
        answer = await served.answer(UPGRADE + lines + b"\r\n")
        assert answer.status == 400
        assert "WebSocket handshake" in answer.error["message"]
        assert served.app.scopes == []


async def test_a_handshake_that_the_application_refuses_is_no_server_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with serve(Limits()) as served:
        answer = await served.answer(UPGRADE.replace(b"/socket", b"/refused") + KEY + b"\r\n")
        assert (answer.status, answer.body) == (401, b"no")
    assert caplog.records == []


async def test_text_that_is_no_utf_8_closes_a_websocket_without_a_server_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with serve(Limits()) as served:
        client = await served.connect(UPGRADE + KEY + b"\r\n")
        await client.read(b"\r\n\r\n")
        client.send(b"\x81\x81" + bytes(4) + b"\xff")
        assert (await client.rest()).data == b"\x88\x02" + (1007).to_bytes(2)
        await until(lambda: served.app.left == 1)
    assert caplog.records == []


async def test_the_head_of_a_websocket_is_bounded() -> None:
    async with serve(Limits()) as served:
        answer = await served.answer(UPGRADE + KEY + b"A: " + b"a" * 70_000)
        assert answer.status == 431
