"""HTTP/1.1 connections: uvicorn's protocol, with limits that uvicorn lacks.

The limits are: the size of the request line and headers (431), the time to their end and between
bytes of the body (408), open connections (503), requests processed at once (503), and requests
that wait on a connection. No time limit ends an answer that has started, except on the spare
connections for health checks.

Sources: RFC 9112 (3.2 for `Host`, 9.6 for closing), RFC 6585 (431), RFC 9110 (408, 503).
"""

import asyncio
import random
from enum import Enum, auto
from typing import Any, cast

from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser
from starlette.types import ASGIApp
from uvicorn._types import ASGI3Application
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.protocols.utils import get_remote_addr
from uvicorn.server import ServerState

from server.errors import APIError, Busy, HeadersTooLarge, InvalidRequest, RequestTimeout
from server.http.connections.config import Config
from server.http.connections.limits import Place
from server.http.connections.refusal import Refuse, encoded, refusal
from server.http.connections.unframed import Unframed
from server.http.connections.websocket import Socket
from server.http.connections.write_timeout import WriteDeadline

BEFORE_1_1 = ("0.9", "1.0")
"""HTTP versions in which `Host` is optional, and in which clients need not know chunks."""

JITTER = 0.1
"""The share by which deadlines are randomly extended, so that they do not expire together."""

HEALTH_CHECKS = frozenset({"/health", "/ready", "/metrics"})
"""Paths that are exempt from the limits on requests and connections: a busy server is healthy, and
measured."""


class Pending(Enum):
    """What the client has to send before the connection's deadline."""

    HEAD = auto()
    BODY = auto()
    UNREAD = auto()
    """The rest of a body whose answer is complete."""


class Protocol(WriteDeadline, HttpToolsProtocol):
    """A connection. Each part of a request has a deadline, which single bytes do not extend."""

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
        self._place: Place | None = None
        self._end_of_spare: asyncio.TimerHandle | None = None
        self._ended = False
        self._in_head = False
        self._in_body = False
        self._messages = 0
        self._head_bytes = 0
        self._idle_bytes = 0
        self._progress = 0.0
        self._was_paused = False
        self._pending: Pending | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._active: RequestResponseCycle | None = None
        self._reason: APIError | None = None

    # The connection

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for a request, or refuse the connection if there are too many."""
        self.client = get_remote_addr(transport)
        self._place = self.config.open_connections.enter(self._host())
        if self._place is None:
            transport.write(self._encoded(_too_many_connections()))
            transport.close()
            return
        super().connection_made(transport)
        self._await(Pending.HEAD)
        if self._place is Place.SPARE:
            self._end_of_spare = self.loop.call_later(self._limits.spare_seconds, transport.abort)

    def _host(self) -> str | None:
        return self.client and self.client[0]

    def connection_lost(self, exc: Exception | None) -> None:
        """Notify the application of the disconnect, for pipelined requests too."""
        if self._place is None:
            return
        self.config.open_connections.leave(self._host(), self._place)
        if self._end_of_spare is not None:
            self._end_of_spare.cancel()
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

    def handle_websocket_upgrade(self) -> None:
        """Pass the connection to a WebSocket. It still counts as open."""
        if self._answering():
            self._refuse(InvalidRequest("An earlier request on this connection is not answered."))
        elif error := self._why_busy():
            self._refuse(error)
        else:
            self._ended = True
            self._await(None)
            super().handle_websocket_upgrade()
            socket = self.transport.get_protocol()
            if isinstance(socket, Socket) and not socket.handshake_initiated:
                # The WebSocket's parser rejected the request, and left the connection open.
                socket.refuse(InvalidRequest("The WebSocket handshake cannot be parsed."))

    # What arrives

    def data_received(self, data: bytes) -> None:
        """Parse `data`, and refuse a head that exceeds its limit."""
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
        started = self._messages - messages
        if self._in_head:
            if was_in_head and not started:
                self._head_bytes += len(piece)
            else:
                # After other messages in the piece, the start of this one is unknown.
                self._head_bytes = 0 if was_in_head or was_in_body or started > 1 else len(piece)
        else:
            self._head_bytes = 0
        idle = was_in_body and self._in_body and self._idle_bytes > self._limits.head_bytes
        if idle and not self._ended:
            # Trailers or chunk extensions; the parser buffers trailers.
            self._refuse(HeadersTooLarge("The body's trailers or chunk extensions are too large."))

    def _parse(self, piece: bytes) -> None:
        self._unset_keepalive_if_required()
        try:
            self.parser.feed_data(piece)
        except HttpParserUpgrade as upgrade:
            if self._should_upgrade():
                self.handle_websocket_upgrade()
            else:
                # This parser has skipped the body, and would take it for the next request.
                head = self._head_without_upgrade()
                self.parser = self._new_parser()
                self._parse(head + piece[upgrade.args[0] :])
        except HttpParserError:
            self._refuse(self._reason or InvalidRequest("Invalid HTTP request received."))

    def _ignores_upgrade(self) -> bool:
        """Whether the parser ends this request after its head, for an upgrade that is not made.

        Only upgrades to WebSocket are made. A request with another one is as one without it (RFC
        9110, 7.8): its head is parsed again, and its body as usual.
        """
        return self.parser.should_upgrade() and not self._should_upgrade()

    def _new_parser(self) -> HttpRequestParser:
        parser = HttpRequestParser(self)
        parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn's
        return parser

    def _head_without_upgrade(self) -> bytes:
        version = self.parser.get_http_version().encode()
        lines = [b"%b %b HTTP/%b" % (self.parser.get_method(), self.url, version)]
        lines += [b"%b: %b" % header for header in self.headers if header[0] != b"upgrade"]
        return b"\r\n".join([*lines, b"", b""])

    def on_message_begin(self) -> None:
        """Called by the parser at the first byte of a request."""
        super().on_message_begin()
        self._in_head = True
        self._messages += 1

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header, or a trailer. Raises HeadersTooLarge over the limit on their number."""
        if len(self.headers) >= self._limits.head_fields:
            self._fail(self._head_too_large())
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Start the request. Raises APIError to refuse it."""
        if self.parser.get_method() == b"CONNECT":
            self._fail(InvalidRequest("Invalid HTTP request received."))
        if self._ignores_upgrade():
            return
        self._in_head, self._in_body = False, True
        self._idle_bytes = 0
        self._progress, self._was_paused = self.loop.time(), False
        self._check_head()
        super().on_headers_complete()
        if not self.parser.should_upgrade():
            # Trailers are passed to `on_header` too, and must not become headers.
            self.headers = []
        if len(self.pipeline) == 1:
            # uvicorn has stopped to read, and would not notice a disconnect during the answer.
            # Behind more requests, it stops: all that waits takes memory.
            self.flow.resume_reading()
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
        if hosts > 1 or (not hosts and self.parser.get_http_version() not in BEFORE_1_1):
            self._fail(InvalidRequest("The request must have exactly one Host header."))

    def on_body(self, body: bytes) -> None:
        """A part of the body: the client makes progress."""
        super().on_body(body)
        self._idle_bytes = 0
        self._progress = self.loop.time()
        self._was_paused = self.flow.read_paused

    def on_message_complete(self) -> None:
        """The request is complete."""
        if self._ignores_upgrade():
            return
        self._in_body = False
        self._idle_bytes = 0
        super().on_message_complete()

    # What is answered

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        self._active = cycle
        if self._place is Place.SPARE:
            cycle.keep_alive = False
        error = None if cycle.scope["path"] in HEALTH_CHECKS else self._why_busy()
        if error is not None:
            self.config.refused(error.code)
            app = cast(ASGI3Application, Refuse(error))
        if cycle.scope["http_version"] in BEFORE_1_1:
            app = cast(ASGI3Application, Unframed(cast(ASGIApp, app), cycle))
        super()._start_asgi_task(cycle, app)

    def _why_busy(self) -> Busy | None:
        """The error for a request that is no health check, where there is no room for it."""
        if self._place is Place.SPARE:
            return _too_many_connections()
        if len(self.tasks) >= self._limits.requests:
            return Busy("The server is processing too many requests. Try again later.")
        return None

    def on_response_complete(self) -> None:
        """Start the next request or wait for one, with a deadline for the rest of the body."""
        self._active = None
        self.timeout_keep_alive = self.config.open_connections.idle_seconds(self._host())
        super().on_response_complete()
        if self._answering():
            self._progress = self.loop.time()
        elif self._in_body and not self.transport.is_closing():
            self._unset_keepalive_if_required()
            # Without a `100 Continue`, the client may send another request instead of the body.
            not_continued = self.expect_100_continue
            self._await(Pending.UNREAD, self._limits.closing_seconds if not_continued else None)
        elif self._in_head:
            self._unset_keepalive_if_required()

    def _answering(self) -> bool:
        return self._active is not None and not self._active.response_complete

    # Deadlines

    def _set_deadline(self) -> None:
        pending: Pending | None
        if not self._answering():
            # Even after bytes that belong to no request, such as empty lines.
            pending = Pending.UNREAD if self._in_body else Pending.HEAD
        elif self._in_body:
            pending = Pending.BODY
        else:
            pending = Pending.HEAD if self._in_head else None
        if pending is not self._pending:
            self._await(pending)

    def _await(self, pending: Pending | None, seconds: float | None = None) -> None:
        """Replace the deadline. seconds: the time, by default that of the limits."""
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        self._pending = pending
        if pending is not None:
            seconds = self._seconds(pending) if seconds is None else seconds
            seconds *= 1 + JITTER * random.random()
            self._deadline = self.loop.call_later(seconds, self._expire)

    def _seconds(self, pending: Pending) -> float:
        match pending:
            case Pending.HEAD:
                return self._limits.head_seconds
            case Pending.BODY:
                return self._limits.body_seconds
            case Pending.UNREAD:
                return self._limits.unread_seconds

    def _expire(self) -> None:
        self._deadline = None
        match self._pending:
            case Pending.HEAD if self._answering():
                self._await(Pending.HEAD)
            case Pending.HEAD if self._in_head:
                seconds = self._limits.head_seconds
                self._refuse(RequestTimeout(f"The headers took more than {seconds:g} s."))
            case Pending.BODY:
                self._expire_body()
            case _:
                self.transport.close()

    def _expire_body(self) -> None:
        seconds = self._limits.body_seconds
        remaining = self._progress + seconds - self.loop.time()
        if self._was_paused or self._body_is_not_read():
            # The server did not read, so the client is not late.
            self._was_paused = self.flow.read_paused
            self._await(Pending.BODY)
        elif remaining > 0:
            self._await(Pending.BODY, remaining)
        else:
            self._refuse(RequestTimeout(f"Nothing of the body came for {seconds:g} s."))

    def _body_is_not_read(self) -> bool:
        """Whether the server does not read the body now, or has started its answer."""
        cycle = self.cycle
        return (
            self.flow.read_paused
            or cycle is not self._active
            or cycle.waiting_for_100_continue
            or cycle.response_started
        )

    # Refusals

    def _fail(self, error: APIError) -> None:
        """Stop the parser. Raises `error`, which becomes the answer."""
        self._reason = error
        raise error

    def _refuse(self, error: APIError) -> None:
        """Answer with `error`, and close the connection after the client had time to read it.

        Data that arrives after a close would reset the connection before the client has the
        answer. While an earlier answer is being sent, the connection is closed without this one.
        """
        self._ended = True
        self._await(None)
        self._unset_keepalive_if_required()
        has_started = any(
            cycle is not None and cycle.response_started and not cycle.response_complete
            for cycle in (self._active, self.cycle)
        )
        self._disconnect()
        if has_started or self.transport.is_closing():
            self.transport.close()
            return
        self.transport.write(self._encoded(error))
        self.flow.resume_reading()
        self.transport.set_protocol(Closing(self, self._limits.closing_seconds))

    def _encoded(self, error: APIError) -> bytes:
        self.config.refused(error.code)
        return encoded(refusal(error, self.client), self.server_state.default_headers)

    def _head_too_large(self) -> HeadersTooLarge:
        limits = self._limits
        return HeadersTooLarge(
            f"The request line and the headers have more than {limits.head_bytes} bytes or"
            f" {limits.head_fields} fields."
        )


class Closing(asyncio.Protocol):
    """A refused connection: drops all data until the client closes it or `seconds` have passed."""

    def __init__(self, refused: Protocol, seconds: float) -> None:
        self._refused = refused
        refused.transport.write_eof()
        self._deadline = refused.loop.call_later(seconds, refused.transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is closed."""
        self._deadline.cancel()
        self._refused.connection_lost(exc)


def _too_many_connections() -> Busy:
    return Busy("There are too many connections to the server. Try again later.")
