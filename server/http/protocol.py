"""HTTP/1.1 connections: uvicorn's protocol, with the bounds that it has no settings for.

Bounded are the request line and headers (431), the time to their end and without a byte of the
body (408), the connections (503 as they open), the requests processed at once (503) and those that
wait on a connection. An answer is never cut off by any of these times.

Sources: RFC 9112 (3.2 for `Host`, 9.6 for closing), RFC 6585 (431), RFC 9110 (408, 503).
"""

import asyncio
import random
from enum import Enum, auto
from typing import Any, cast

import uvicorn
from httptools import HttpParserError, HttpParserUpgrade
from starlette.types import ASGIApp
from uvicorn._types import ASGI3Application
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.protocols.utils import get_remote_addr
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from uvicorn.server import ServerState
from websockets.exceptions import InvalidHandshake
from websockets.http11 import Request

from server.errors import APIError, Busy, HeadersTooLarge, InvalidRequest, RequestTimeout
from server.http.limits import Connections, Limits
from server.http.refusal import Refuse, encoded, refusal
from server.http.writing import WriteDeadline

WITHOUT_HOST = ("0.9", "1.0")
"""Versions of HTTP in which a request may lack `Host`."""

SPREAD = 0.1
"""The share by which a deadline may be later: many that began together do not end together."""

HEALTH_CHECKS = frozenset({"/health", "/ready"})
"""Paths that are served however many requests are processed: a busy server is healthy."""


class Config(uvicorn.Config):
    """uvicorn's configuration for `app`, with this module's protocols and `limits`."""

    def __init__(self, app: ASGIApp, limits: Limits, **options: Any) -> None:
        super().__init__(cast(ASGI3Application, app), http=Protocol, ws=Socket, **options)
        self.limits = limits
        self.open_connections = Connections(limits)


class Awaited(Enum):
    """What a connection's client has to send before its deadline."""

    HEAD = auto()
    BODY = auto()
    UNREAD = auto()
    """The rest of a body whose answer is complete."""


class Protocol(WriteDeadline, HttpToolsProtocol):
    """A connection. Its deadline is set anew for each part of a request, not for each byte."""

    config: Config

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._limits = config.limits
        self._entered = False
        self._ended = False
        self._in_head = False
        self._in_body = False
        self._messages = 0
        self._head_bytes = 0
        self._idle_bytes = 0
        self._progress = 0.0
        self._was_paused = False
        self._awaited: Awaited | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._active: RequestResponseCycle | None = None
        self._reason: APIError | None = None

    # The connection

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Await a request, or refuse the connection where there are too many."""
        client = get_remote_addr(transport)
        self._entered = self.config.open_connections.enter(client and client[0])
        if not self._entered:
            error = Busy("There are too many connections to the server. Try again later.")
            transport.write(self._encoded(error))
            transport.close()
            return
        super().connection_made(transport)
        self._await(Awaited.HEAD)

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the application, also of a request that others wait behind."""
        if not self._entered:
            return
        self.config.open_connections.leave(self.client and self.client[0])
        self._await(None)
        self._unset_keepalive_if_required()
        self._disconnect()
        super().connection_lost(exc)

    def _disconnect(self) -> None:
        for cycle in (self._active, self.cycle):
            if cycle is not None and not cycle.response_complete:
                cycle.disconnected = True
                cycle.message_event.set()
        self.pipeline.clear()
        self._active = None

    def handle_websocket_upgrade(self) -> None:
        """Hand the connection to a WebSocket, which is counted on."""
        if self._answering():
            self._refuse(InvalidRequest("An earlier request on this connection is not answered."))
        elif len(self.tasks) >= self._limits.requests:
            self._refuse(_too_many_requests())
        else:
            self._ended = True
            self._await(None)
            super().handle_websocket_upgrade()
            socket = self.transport.get_protocol()
            if isinstance(socket, Socket) and not socket.handshake_initiated:
                # What the other parser did not take; it leaves the connection open.
                socket.refuse(InvalidRequest("The WebSocket handshake cannot be parsed."))

    # What arrives

    def data_received(self, data: bytes) -> None:
        """Parse `data`; of a head no more than it may have."""
        while data and not self._ended:
            room = len(data) if self._in_body else self._limits.head_bytes - self._head_bytes
            if room <= 0:
                self._refuse(self._head_too_large())
                return
            piece, data = (data, b"") if len(data) <= room else (data[:room], data[room:])
            self._feed(piece)
        if not self._ended:
            self._set_deadline()

    def _feed(self, piece: bytes) -> None:
        was_in_head, was_in_body, messages = self._in_head, self._in_body, self._messages
        self._idle_bytes += len(piece)
        self._parse(piece)
        begun = self._messages - messages
        if self._in_head:
            if was_in_head and not begun:
                self._head_bytes += len(piece)
            else:
                # Behind other messages it is not known where in the piece this one begins.
                self._head_bytes = 0 if was_in_head or was_in_body or begun > 1 else len(piece)
        else:
            self._head_bytes = 0
        idle = was_in_body and self._in_body and self._idle_bytes > self._limits.head_bytes
        if idle and not self._ended:
            # Trailers or the extensions of chunks; the parser keeps the former.
            self._refuse(HeadersTooLarge("The body's trailers or chunk extensions are too large."))

    def _parse(self, piece: bytes) -> None:
        self._unset_keepalive_if_required()
        try:
            self.parser.feed_data(piece)
        except HttpParserUpgrade:
            # Any other upgrade than to a WebSocket is not made; the request is served as it is.
            if self._should_upgrade():
                self.handle_websocket_upgrade()
        except HttpParserError:
            self._refuse(self._reason or InvalidRequest("Invalid HTTP request received."))

    def on_message_begin(self) -> None:
        """The parser has seen the first byte of a request."""
        super().on_message_begin()
        self._in_head = True
        self._messages += 1

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header, or a trailer. Raises HeadersTooLarge over the limit on their number."""
        if len(self.headers) >= self._limits.head_fields:
            self._fail(self._head_too_large())
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Start the request, or raise the APIError that refuses it."""
        self._in_head, self._in_body = False, True
        self._idle_bytes = 0
        self._progress, self._was_paused = self.loop.time(), False
        self._check_head()
        super().on_headers_complete()
        if not self.parser.should_upgrade():
            # Trailers come to `on_header`, too, and must not become headers.
            self.headers = []
        if len(self.pipeline) > self._limits.pipelined:
            self._fail(InvalidRequest("Too many requests wait on this connection."))

    def _check_head(self) -> None:
        size, hosts = len(self.url), 0
        for name, value in self.headers:
            size += len(name) + len(value)
            if name == b"host":
                hosts += 1
        if size > self._limits.head_bytes:
            self._fail(self._head_too_large())
        if hosts > 1 or (not hosts and self.parser.get_http_version() not in WITHOUT_HOST):
            self._fail(InvalidRequest("The request must have exactly one Host header."))

    def on_body(self, body: bytes) -> None:
        """A part of the body: the client makes progress."""
        super().on_body(body)
        self._idle_bytes = 0
        self._progress = self.loop.time()
        self._was_paused = self.flow.read_paused

    def on_message_complete(self) -> None:
        """The request's last byte has come."""
        self._in_body = False
        self._idle_bytes = 0
        super().on_message_complete()

    # What is answered

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        self._active = cycle
        busy = len(self.tasks) >= self._limits.requests
        if busy and cycle.scope["path"] not in HEALTH_CHECKS:
            app = cast(ASGI3Application, Refuse(_too_many_requests()))
        super()._start_asgi_task(cycle, app)

    def on_response_complete(self) -> None:
        """Go on with the next request, or await one, but not the rest of a body for ever."""
        self._active = None
        super().on_response_complete()
        if self._answering():
            self._progress = self.loop.time()
        elif self._in_body and not self.transport.is_closing():
            self._unset_keepalive_if_required()
            # Who was not asked to continue may send another request instead of the body.
            unasked = self.expect_100_continue
            self._await(Awaited.UNREAD, self._limits.closing_seconds if unasked else None)
        elif self._in_head:
            self._unset_keepalive_if_required()

    def _answering(self) -> bool:
        return self._active is not None and not self._active.response_complete

    # Deadlines

    def _set_deadline(self) -> None:
        awaited: Awaited | None
        if not self._answering():
            # Also where bytes came that belong to no request, such as empty lines.
            awaited = Awaited.UNREAD if self._in_body else Awaited.HEAD
        elif self._in_body:
            awaited = Awaited.BODY
        else:
            awaited = Awaited.HEAD if self._in_head else None
        if awaited is not self._awaited:
            self._await(awaited)

    def _await(self, awaited: Awaited | None, seconds: float | None = None) -> None:
        """Begin a deadline, in place of the one before. seconds: where not all of its time."""
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        self._awaited = awaited
        if awaited is not None:
            seconds = self._seconds(awaited) if seconds is None else seconds
            seconds *= 1 + SPREAD * random.random()
            self._deadline = self.loop.call_later(seconds, self._expire)

    def _seconds(self, awaited: Awaited) -> float:
        match awaited:
            case Awaited.HEAD:
                return self._limits.head_seconds
            case Awaited.BODY:
                return self._limits.body_seconds
            case Awaited.UNREAD:
                return self._limits.unread_seconds

    def _expire(self) -> None:
        self._deadline = None
        match self._awaited:
            case Awaited.HEAD if self._answering():
                self._await(Awaited.HEAD)
            case Awaited.HEAD if self._in_head:
                seconds = self._limits.head_seconds
                self._refuse(RequestTimeout(f"The headers took more than {seconds:g} s."))
            case Awaited.BODY:
                self._expire_body()
            case _:
                self.transport.close()

    def _expire_body(self) -> None:
        seconds = self._limits.body_seconds
        left = self._progress + seconds - self.loop.time()
        if self._was_paused or self._body_is_not_awaited():
            # Nobody took what the client sends, or may send.
            self._was_paused = self.flow.read_paused
            self._await(Awaited.BODY)
        elif left > 0:
            self._await(Awaited.BODY, left)
        else:
            self._refuse(RequestTimeout(f"Nothing of the body came for {seconds:g} s."))

    def _body_is_not_awaited(self) -> bool:
        """Whether the server reads no body now, or has already begun to answer."""
        cycle = self.cycle
        return (
            self.flow.read_paused
            or cycle is not self._active
            or cycle.waiting_for_100_continue
            or cycle.response_started
        )

    # Refusals

    def _fail(self, error: APIError) -> None:
        """Make the parser stop. Raises `error`, which then is the answer."""
        self._reason = error
        raise error

    def _refuse(self, error: APIError) -> None:
        """Answer with `error` and close, once the client has had time to read it.

        Data that came in after a close would reset the connection, and the answer with it. In the
        middle of an earlier request's answer no other one can be sent.
        """
        self._ended = True
        self._await(None)
        self._unset_keepalive_if_required()
        begun = any(
            cycle is not None and cycle.response_started and not cycle.response_complete
            for cycle in (self._active, self.cycle)
        )
        self._disconnect()
        if begun or self.transport.is_closing():
            self.transport.close()
            return
        self.transport.write(self._encoded(error))
        self.flow.resume_reading()
        self.transport.set_protocol(Closing(self, self._limits.closing_seconds))

    def _encoded(self, error: APIError) -> bytes:
        return encoded(refusal(error), self.server_state.default_headers)

    def _head_too_large(self) -> HeadersTooLarge:
        limits = self._limits
        return HeadersTooLarge(
            f"The request line and the headers have more than {limits.head_bytes} bytes or"
            f" {limits.head_fields} fields."
        )


class Closing(asyncio.Protocol):
    """A refused connection: drops what still comes, until the client closes or `seconds` pass."""

    def __init__(self, refused: Protocol, seconds: float) -> None:
        self._refused = refused
        refused.transport.write_eof()
        self._deadline = refused.loop.call_later(seconds, refused.transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is closed."""
        self._deadline.cancel()
        self._refused.connection_lost(exc)


class Socket(WriteDeadline, WebSocketsSansIOProtocol):
    """A WebSocket that is not closed as soon as the server stops, but by the application."""

    config: Config

    def handle_connect(self, event: Request) -> None:
        """Begin the handshake, or answer one that is not valid in OpenAI's body."""
        try:
            self.conn.process_request(event)
        except InvalidHandshake as error:
            reason = InvalidRequest(f"The WebSocket handshake is not valid: {error}.")
            self.handshake_initiated = True
            self.refuse(reason)
        else:
            super().handle_connect(event)

    def refuse(self, error: APIError) -> None:
        """Answer the handshake with `error` and close."""
        self.handshake_complete = self.close_sent = True
        self.transport.write(encoded(refusal(error), self.default_headers))
        self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Count the connection no more."""
        self.config.open_connections.leave(self.client and self.client[0])
        super().connection_lost(exc)

    def shutdown(self) -> None:
        """Close what no client has been accepted on."""
        if not self.handshake_complete:
            super().shutdown()


def _too_many_requests() -> Busy:
    return Busy("The server is processing too many requests. Try again later.")
