"""WebSocket connections: uvicorn's protocol, with limits that uvicorn lacks.

The limits are: the lists in the headers of the handshake (431), the memory of messages that are not
complete, with that of all request bodies (1013), the time between two parts of a message (1008),
and the time to read what is sent. Sources: RFC 6455 (5.5.3 for pongs, 7.4.1 for the codes).
"""

import asyncio
from typing import Any

from uvicorn._types import ASGIReceiveEvent, ASGISendEvent
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from uvicorn.server import ServerState
from websockets.exceptions import InvalidHandshake
from websockets.frames import CloseCode, Frame
from websockets.http11 import Request
from websockets.protocol import State

from server.errors import APIError, BodyMemoryExhausted, HeadersTooLarge, InvalidRequest
from server.http.bodies.budget import Lease
from server.http.connections.config import Config
from server.http.connections.refusal import encoded, refusal
from server.http.connections.write_timeout import WriteDeadline
from server.threads import LARGE

UNCHARGED = 1 << 16
"""Bytes of an unfinished message that take no memory of the budget."""

SLICE = 1 << 12
"""Bytes that are parsed in one go. They may be hundreds of frames; what is received at once may be
tens of thousands, which took most of a second of the event loop."""

PARSE_SECONDS = 0.001
"""Seconds after which others run before the next slice. Where slices are parts of a large message,
hundreds of them take no longer."""

MOST_LISTS = 4096
"""Characters of `LISTS` in a handshake. The time to parse them grows with the square of their size:
64 KB would take a quarter of a second."""

LISTS = ("Connection", "Upgrade", "Sec-WebSocket-Extensions", "Sec-WebSocket-Protocol")
"""The headers of a handshake that are lists."""


class Socket(WriteDeadline, WebSocketsSansIOProtocol):
    """A WebSocket that the application closes when the server stops, not uvicorn.

    The first `UNCHARGED` bytes of a message are not charged, so that small messages go on when the
    memory is exhausted. A client that reads nothing gets one pong, to its last ping (RFC 6455,
    5.5.3): the pongs to all of them could take any amount of memory.
    """

    config: Config

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._delayed_pong = b""
        self._unfinished = Lease(config.bodies)
        self._kept = 0
        self._deadline: asyncio.TimerHandle | None = None
        self._unparsed = bytearray()
        self._next_slices: asyncio.Handle | None = None

    def data_received(self, data: bytes) -> None:
        """Parse `data`. Of many bytes others run between the slices, and nothing more is read."""
        if not self.handshake_initiated:
            self._parse(data)
            return
        self._unparsed += data
        if self._next_slices is None:
            self._parse_slices()

    async def receive(self) -> ASGIReceiveEvent:
        """The next event for the application. What was received with it is parsed after it."""
        event = await super().receive()
        if self._unparsed and not self.read_paused:
            self._parse_rest()
        return event

    def _parse_slices(self) -> None:
        was_held, self._next_slices = self._next_slices is not None, None
        until = self.loop.time() + PARSE_SECONDS
        while piece := bytes(self._unparsed[:SLICE]):
            del self._unparsed[:SLICE]
            self._parse(piece)
            if self.read_paused or self.loop.time() >= until:
                break
        if self._unparsed:
            self._parse_rest()
        elif was_held and not self.read_paused:
            self.transport.resume_reading()

    def _parse_rest(self) -> None:
        """Parse the next slices soon. While messages wait for the application, `receive` does."""
        if not self.transport.is_closing():
            self.transport.pause_reading()
        if not self.read_paused and self._next_slices is None:
            self._next_slices = self.loop.call_soon(self._parse_slices)

    def _parse(self, data: bytes) -> None:
        """Parse `data`, and charge what is kept of a message that is not complete."""
        super().data_received(data)
        if self.transport.is_closing():
            self._drop_unfinished()
            return
        kept = len(self.conn.reader.buffer) + sum(map(len, self.frames))
        try:
            self._unfinished.resize(max(0, kept - UNCHARGED))
        except BodyMemoryExhausted as error:
            self.config.refused(error.code)
            self._close(CloseCode.TRY_AGAIN_LATER)
            return
        # Answers to pings, which come by themselves, are no parts of a message.
        if kept != self._kept:
            self._kept = kept
            self._await_rest(kept > 0)

    def _await_rest(self, expected: bool) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        if expected:
            self._deadline = self.loop.call_later(self.config.limits.body_seconds, self._expire)

    def _expire(self) -> None:
        if self.read_paused:  # the server does not read, so the client is not late
            self._await_rest(True)
        else:
            self._close(CloseCode.POLICY_VIOLATION)

    def _close(self, code: CloseCode) -> None:
        """Close the connection, as far as the state of its handshakes allows with this code."""
        self._drop_unfinished()
        if self.conn.state is State.OPEN and not self.close_sent:
            self.conn.send_close(code)
            self.handle_parser_exception()
        else:
            self.transport.close()

    def _drop_unfinished(self) -> None:
        self._unparsed.clear()
        self.frames = []
        self.conn.reader.discard()
        self._unfinished.release()
        self._await_rest(False)

    def handle_connect(self, event: Request) -> None:
        """Start the handshake, or answer an invalid one with OpenAI's error body."""
        lists = [value for name in LISTS for value in event.headers.get_all(name)]
        if sum(map(len, lists)) > MOST_LISTS:
            self.refuse(
                HeadersTooLarge(
                    f"The lists in the headers {', '.join(LISTS)} have more than {MOST_LISTS}"
                    " characters."
                )
            )
            return
        try:
            self.conn.process_request(event)
        except InvalidHandshake as error:
            self.refuse(InvalidRequest(f"The WebSocket handshake is not valid: {error}."))
        else:
            super().handle_connect(event)

    def refuse(self, error: APIError) -> None:
        """Answer the handshake with `error` and close."""
        self.handshake_initiated = self.handshake_complete = self.close_sent = True
        self.config.refused(error.code)
        self.transport.write(encoded(refusal(error, self.client), self.default_headers))
        self.transport.close()

    async def send(self, message: ASGISendEvent) -> None:
        """Send the application's message. After a refusal, the handshake is complete, too."""
        await super().send(message)
        # uvicorn would log an error for each handshake that the application refuses.
        self.handshake_complete = self.handshake_complete or self.close_sent

    def handle_cont(self, event: Frame) -> None:
        """Append a part of a message. A list of parts of one byte would take much more memory."""
        frames: list[Any] = self.frames
        if not isinstance(frames[0], bytearray):
            frames[0] = bytearray(frames[0])
        frames[0] += event.data
        if event.fin:
            self.send_receive_event_to_app()

    def send_receive_event_to_app(self) -> None:
        """Pass a message on as bytes, or close the connection if a text is no UTF-8.

        To decode a large text takes too long for the event loop. It is checked when it is read.
        """
        message = b"".join(self.frames)
        is_text, self.curr_msg_data_type = self.curr_msg_data_type == "text", "bytes"
        if is_text and not self.close_sent and len(message) <= LARGE and not _is_utf8(message):
            self._close(CloseCode.INVALID_DATA)
        else:
            self.frames = [message]
            super().send_receive_event_to_app()

    def handle_ping(self) -> None:
        """Answer pings; while the client does not read, the last one only, once it reads again."""
        if self.writable.is_set() or self.conn.state is not State.OPEN:
            super().handle_ping()
        elif frames := self.conn.data_to_send():
            self._delayed_pong = frames[-1]

    def resume_writing(self) -> None:
        """The client reads again."""
        super().resume_writing()
        pong, self._delayed_pong = self._delayed_pong, b""
        if pong and self.conn.state is State.OPEN:
            self.transport.write(pong)

    def schedule_ping(self) -> None:
        """Send the next ping after the whole interval."""
        # uvicorn subtracts the time that the last pong took. After a pong that took almost the
        # interval, it would ping without pause, and recognize none of the pongs to these pings.
        self.last_ping_rtt = 0.0
        super().schedule_ping()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is closed, and no longer counts as open."""
        self.config.open_connections.leave(self.client and self.client[0])
        if self._next_slices is not None:
            self._next_slices.cancel()
        self._drop_unfinished()
        super().connection_lost(exc)

    def shutdown(self) -> None:
        """Close the connection if its handshake is not complete."""
        if not self.handshake_complete:
            super().shutdown()


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True
