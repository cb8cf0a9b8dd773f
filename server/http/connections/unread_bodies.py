"""Closes connections whose request was answered before its body was read.

An ASGI server discards the rest of such a body, whatever its length, to read the next request. This
middleware closes the connection instead, shortly after the answer: an immediate close while the
client still sends could reset the connection before the client has the answer.

Source: RFC 9112, 9.6 (Tear-down), and RFC 9110, 10.1.1 (Expect).
"""

import asyncio
from contextlib import suppress

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

SMALL_BODY = 64 * 1024
"""Declared bytes of a body that may be discarded to reuse the connection."""

LINGER_BYTES = 32 * 1024 * 1024
"""Bytes that are discarded before the connection is closed."""

LINGER_SECONDS = 5.0
"""How long bytes are discarded before the connection is closed."""

LINGERING = 4
"""Connections whose bodies are discarded at the same time, so that others are not slowed down."""


class UnreadBody:
    """Middleware that closes the connection after an answer that precedes the request's body."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._lingering = asyncio.Semaphore(LINGERING)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The ASGI interface."""
        if scope["type"] != "http" or not _may_be_long(Headers(scope=scope)):
            await self._app(scope, receive, send)
            return
        long = _LongRequest(receive, send, self._lingering)
        await self._app(scope, long.receive, long.send)


class _LongRequest:
    """A request with a long body, and its answer."""

    def __init__(self, receive: Receive, send: Send, lingering: asyncio.Semaphore) -> None:
        self._receive = receive
        self._lingering = lingering
        self._send = send
        self._read = False
        self._closing = False

    async def receive(self) -> Message:
        message = await self._receive()
        self._read = message["type"] == "http.disconnect" or not message.get("more_body", False)
        return message

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._closing = not self._read
            await self._send(_with_close(message) if self._closing else message)
        elif self._closing and not message.get("more_body", False):
            # The client has the whole answer, except its end.
            await self._send({**message, "more_body": True})
            with suppress(TimeoutError):
                async with asyncio.timeout(LINGER_SECONDS), self._lingering:
                    await self._discard()
            await self._send({"type": "http.response.body", "body": b"", "more_body": False})
        else:
            await self._send(message)

    async def _discard(self) -> None:
        discarded = 0
        while not self._read and discarded < LINGER_BYTES:
            discarded += len((await self.receive()).get("body", b""))


def _may_be_long(headers: Headers) -> bool:
    """Whether reading the body to its end could take long.

    A client that waits for a `100 Continue` may or may not send its body: after another answer, the
    start of its next request is unknown.
    """
    declared = headers.get("content-length", "0")
    small = declared.isdecimal() and len(declared) < 10 and int(declared) <= SMALL_BODY
    return not small or "transfer-encoding" in headers or "expect" in headers


def _with_close(message: Message) -> Message:
    headers = [header for header in message.get("headers", ()) if header[0] != b"connection"]
    return {**message, "headers": [*headers, (b"connection", b"close")]}
