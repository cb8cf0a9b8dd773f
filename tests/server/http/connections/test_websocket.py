"""WebSocket connections over real sockets: handshakes, pings, and what messages may take."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from server.errors import BodyMemoryExhausted
from server.http.bodies.budget import Budget
from server.http.connections import websocket
from server.http.connections.limits import Limits
from server.http.connections.protocol import Pending
from server.http.connections.websocket import UNCHARGED, Socket
from server.threads import LARGE
from tests.server.http.connections.served import (
    KEY,
    UPGRADE,
    Client,
    Served,
    head,
    serve,
    until_expired,
)
from tests.waiting import settle, until

PING = b"\x89\x04"
"""The head of a ping with four bytes of payload, as uvicorn sends it."""


class Unread:
    """The transport of a client that reads nothing: it collects what is written."""

    def __init__(self, unsent: list[bytes]) -> None:
        self.write = unsent.append

    def get_write_buffer_size(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return False

    def pause_reading(self) -> None:
        """What was received is parsed in slices."""

    def resume_reading(self) -> None:
        """The last slice was parsed."""


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
        config: Any = served.config
        connection = Socket(config, served.state, {}, loop)
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
        connection = served.socket()
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
        client.send(numbered_ping(1000))
        assert await client.read_exactly(6) == b"\x8a\x04" + (1000).to_bytes(4)


async def test_another_upgrade_is_not_made(caplog: pytest.LogCaptureFixture) -> None:
    async with serve(Limits()) as served:
        lines = (b"Connection: Upgrade", b"Upgrade: h2c")
        client = await served.connect(head(b"/unread", *lines) * 2)
        assert (await client.read(b"0\r\n\r\n")).status == 200
        assert caplog.records == []


BODY = b"GET /smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.mark.parametrize("in_two", [False, True], ids=["one packet", "two packets"])
@pytest.mark.parametrize(
    ("framing", "sent"),
    [
        (b"Content-Length: %d" % len(BODY), BODY),
        (b"Transfer-Encoding: chunked", b"%x\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY)),
    ],
    ids=["length", "chunks"],
)
async def test_another_upgrade_leaves_the_body(framing: bytes, sent: bytes, in_two: bool) -> None:
    lines = (b"Connection: Upgrade, HTTP2-Settings", b"Upgrade: h2c", b"HTTP2-Settings: AAEA")
    request = head(b"/echo", *lines, framing)
    async with serve(Limits()) as served:
        client = await served.connect(request if in_two else request + sent)
        if in_two:
            await served.connection(Pending.BODY)
            client.send(sent)
        assert b"%d bytes" % len(BODY) in (await client.read(b"0\r\n\r\n")).body
        client.send(head(b"/unread"))
        assert (await client.read(b"0\r\n\r\n")).status == 200
        assert [scope["path"] for scope in served.app.scopes] == ["/echo", "/unread"]


@pytest.mark.parametrize("line", [b"HTTP/1.1", b"HTTP/1.0"])
async def test_another_upgrade_leaves_the_end_of_the_connection(line: bytes) -> None:
    request = head(b"/echo", b"Connection: close, Upgrade", b"Upgrade: h2c", b"Content-Length: 2")
    async with serve(Limits()) as served:
        answer = await served.answer(request.replace(b"HTTP/1.1", line) + b"ab")
        assert (answer.status, answer.headers["connection"]) == (200, "close")
        assert b"2 bytes" in answer.body
        assert b"upgrade" not in dict(served.app.scopes[0]["headers"])


async def test_more_websockets_are_a_503() -> None:
    async with serve(Limits(requests=1)) as served:
        await served.connect(head(b"/later"))
        await until(lambda: len(served.app.scopes) == 1)
        answer = await served.answer(UPGRADE + KEY + b"\r\n")
        assert answer.status == 503
        assert answer.error["code"] == "server_overloaded"


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        pytest.param(b"", "is not valid: missing", id="no key"),
        pytest.param(
            KEY + b"A: " + b"a" * 9000 + b"\r\n", "cannot be parsed", id="a line that is too long"
        ),
    ],
)
async def test_a_handshake_that_is_not_valid_is_a_400(lines: bytes, problem: str) -> None:
    codes: list[str | None] = []
    async with serve(Limits(), refused=codes.append) as served:
        answer = await served.answer(UPGRADE + lines + b"\r\n")
        assert answer.status == 400
        assert f"The WebSocket handshake {problem}" in answer.error["message"]
        assert served.app.scopes == []
    assert codes == ["invalid_value"]


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


@pytest.mark.parametrize("name", [b"Sec-WebSocket-Protocol", b"Sec-WebSocket-Extensions"])
async def test_the_lists_of_a_handshake_are_bounded(name: bytes) -> None:
    """The event loop parses them, in a time that grows with the square of their size."""
    async with serve(Limits()) as served:
        line = name + b": " + b",".join([b"a"] * 1000) + b"\r\n"
        client = await served.connect(UPGRADE + KEY + line + b"\r\n")
        assert (await client.read(b"\r\n\r\n")).status == 101
        answer = await served.answer(UPGRADE + KEY + 3 * line + b"\r\n")
        assert (answer.status, answer.error["code"]) == (431, "headers_too_large")
        assert len(served.app.scopes) == 1


async def test_the_head_of_a_websocket_is_bounded() -> None:
    async with serve(Limits()) as served:
        answer = await served.answer(UPGRADE + KEY + b"A: " + b"a" * 70_000)
        assert answer.status == 431


def frame(first: int, payload: bytes) -> bytes:
    """A frame of less than 64 KiB, masked by zeros. first: its first byte."""
    size = (
        bytes([0x80 | len(payload)]) if len(payload) < 126 else b"\xfe" + len(payload).to_bytes(2)
    )
    return bytes([first]) + size + bytes(4) + payload


TEXT, BEGIN, GO_ON, END, PONG = 0x81, 0x01, 0x00, 0x80, 0x8A
FIRST = b"a" * (UNCHARGED - 1)


@asynccontextmanager
async def open_socket(
    budget: Budget, limits: Limits | None = None, **options: Any
) -> AsyncIterator[tuple[Served, Client]]:
    """A server and a WebSocket to it. budget: of the bodies."""
    async with serve(limits or Limits(), bodies=budget, **options) as served:
        client = await served.connect(UPGRADE + KEY + b"\r\n")
        assert (await client.read(b"\r\n\r\n")).status == 101
        yield served, client


async def test_a_message_in_parts_is_one_message() -> None:
    async with open_socket(Budget(1000)) as (served, client):
        client.send(frame(BEGIN, b"a") + frame(GO_ON, b"b") * 3 + frame(END, b"c"))
        await until(lambda: served.app.messages == [b"abbbc"])


async def test_others_run_while_many_frames_are_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A quarter of a megabyte is received at once, and may be 40,000 frames."""
    monkeypatch.setattr(websocket, "PARSE_SECONDS", 0.0)
    async with open_socket(Budget(0)) as (served, _):
        served.socket().data_received(frame(PONG, b"") * 40_000 + frame(TEXT, b"a"))
        turns = 0
        while not served.app.messages:
            turns += 1
            await asyncio.sleep(0)
        assert turns > 40


async def test_a_large_message_does_not_wait_for_others_after_each_slice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One of 16 MB has 4,096 slices, between which a busy server would do other work for long."""
    monkeypatch.setattr(websocket, "PARSE_SECONDS", 60.0)
    async with open_socket(Budget(1 << 20)) as (served, _):
        served.socket().data_received(frame(TEXT, b"a" * 60_000))
        turns = 0
        while not served.app.messages:
            turns += 1
            await asyncio.sleep(0)
        assert turns < 60_000 // websocket.SLICE // 2


async def test_messages_that_are_received_at_once_come_in_order() -> None:
    sent = [b"%d" % number for number in range(5000)]
    async with open_socket(Budget(0)) as (served, client):
        served.socket().data_received(b"".join(frame(TEXT, each) for each in sent))
        await until(lambda: served.app.messages == sent)
        client.send(frame(TEXT, b"next"))
        await until(lambda: served.app.messages[-1] == b"next")


async def test_frames_of_a_connection_that_is_lost_are_not_parsed() -> None:
    async with open_socket(Budget(0)) as (served, _):
        connection = served.socket()
        connection.data_received(frame(PONG, b"") * 40_000 + frame(TEXT, b"a"))
        connection.transport.abort()
        await until(lambda: served.app.left == 1)
        await settle()
        assert served.app.messages == []


async def test_unfinished_messages_take_memory_of_the_budget() -> None:
    budget = Budget(UNCHARGED)
    async with open_socket(budget) as (served, client):
        client.send(frame(BEGIN, FIRST) + frame(GO_ON, b"b" * 500))
        await until(lambda: budget.used == 499)
        client.send(frame(GO_ON, b"c" * 500)[:200])
        await until(lambda: budget.used == 691)  # without the head of the frame
        client.send(frame(GO_ON, b"c" * 500)[200:] + frame(END, b"d"))
        await until(lambda: len(served.app.messages) == 1)
        assert budget.used == 0
        client.send(frame(BEGIN, FIRST) + frame(GO_ON, b"bb"))
        await until(lambda: budget.used == 1)
        await client.close()
        await until(lambda: budget.used == 0)


async def test_a_message_beyond_the_budget_closes_the_connection() -> None:
    budget, codes = Budget(1000), list[str | None]()
    async with open_socket(budget, refused=codes.append) as (served, client):
        client.send(frame(BEGIN, FIRST) + frame(GO_ON, b"b" * 1002))
        assert (await client.rest()).data == b"\x88\x02" + (1013).to_bytes(2)
        await until(lambda: served.app.left == 1)
    assert budget.used == 0
    assert codes == [BodyMemoryExhausted.default_code]


async def test_small_messages_go_on_when_the_memory_is_exhausted() -> None:
    async with open_socket(Budget(0)) as (served, client):
        client.send(frame(BEGIN, b"a"))
        client.send(b"\x89\x84" + bytes(4))  # a part of a ping
        client.send(b"ping" + frame(END, b"b"))
        await until(lambda: served.app.messages == [b"ab"])


async def send_pongs(client: Client) -> None:
    while True:
        client.send(b"\x8a\x80" + bytes(4))
        await asyncio.sleep(0.01)


async def test_a_message_that_does_not_go_on_closes_the_connection() -> None:
    async with open_socket(Budget(0), limits=Limits(body_seconds=0.05)) as (served, client):
        client.send(frame(TEXT, b"whole"))
        await until(lambda: served.app.messages == [b"whole"])
        client.send(frame(BEGIN, b"a"))
        pongs = asyncio.create_task(send_pongs(client))
        # Not to its end: a pong that crosses it makes the server reset the connection.
        assert await client.read_exactly(4) == b"\x88\x02" + (1008).to_bytes(2)
        pongs.cancel()
        await until(lambda: served.app.left == 1)


@pytest.mark.parametrize("is_finished", [True, False])
async def test_a_message_has_a_deadline_until_it_or_its_connection_ends(is_finished: bool) -> None:
    async with open_socket(Budget(0)) as (served, client):
        client.send(frame(BEGIN, b"a"))
        connection = served.socket()
        await until(lambda: connection._deadline is not None)
        deadline = connection._deadline
        if is_finished:
            client.send(frame(END, b"b"))
            await until(lambda: served.app.messages == [b"ab"])
        else:
            await client.close()
            await until(lambda: served.app.left == 1)
        assert deadline.cancelled()
        assert connection._deadline is None


async def test_a_message_that_is_not_read_is_not_late() -> None:
    async with serve(Limits(body_seconds=0.05)) as served:
        client = await served.connect(UPGRADE.replace(b"/socket", b"/later") + KEY + b"\r\n")
        await client.read(b"\r\n\r\n")
        client.send(frame(TEXT, b"first") + frame(BEGIN, b"a"))
        connection = served.socket()
        await until(lambda: connection._deadline is not None)
        await until_expired(connection)
        connection.config.limits = Limits()
        await until_expired(connection, 1)
        served.app.go_on.set()
        client.send(frame(END, b"b"))
        await until(lambda: served.app.messages == [b"first", b"ab"])


NOT_ACCEPTED = UPGRADE.replace(b"/socket", b"/not_accepted") + KEY + b"\r\n"


async def test_a_message_beyond_the_budget_closes_a_connection_that_is_not_accepted_yet() -> None:
    async with serve(Limits(), bodies=Budget(1000)) as served:
        client = await served.connect(NOT_ACCEPTED)
        await until(lambda: len(served.app.scopes) == 1)
        client.send(frame(BEGIN, FIRST) + frame(GO_ON, b"b" * 1002))
        assert (await client.rest()).data == b""


async def test_a_server_that_stops_leaves_a_websocket_to_the_application() -> None:
    async with open_socket(Budget(0)) as (served, client):
        served.socket().shutdown()
        client.send(frame(TEXT, b"a"))
        await until(lambda: served.app.messages == [b"a"])


async def test_a_server_that_stops_accepts_no_websocket_any_more() -> None:
    async with serve(Limits()) as served:
        client = await served.connect(NOT_ACCEPTED)
        await until(lambda: len(served.app.scopes) == 1)
        served.socket().shutdown()
        assert (await client.rest()).status == 500


async def test_a_wrong_text_before_the_clients_close_is_no_server_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with open_socket(Budget(0)) as (served, client):
        client.send(frame(TEXT, b"\xff") + frame(0x88, (1000).to_bytes(2)))
        await client.rest()
        await until(lambda: served.app.left == 1)
    assert caplog.records == []


async def test_messages_are_not_compressed() -> None:
    extension = b"Sec-WebSocket-Extensions: permessage-deflate\r\n"
    async with serve(Limits()) as served:
        client = await served.connect(UPGRADE + KEY + extension + b"\r\n")
        answer = await client.read(b"\r\n\r\n")
    assert answer.status == 101
    assert "sec-websocket-extensions" not in answer.headers


async def test_a_large_text_is_passed_on_unchecked() -> None:
    text = b"\xff" * (LARGE + 1)
    async with open_socket(Budget(2 * LARGE)) as (served, client):
        client.send(b"\x81\xff" + len(text).to_bytes(8) + bytes(4) + text)
        await until(lambda: served.app.messages == [text])
