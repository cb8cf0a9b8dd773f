"""Reads request bodies on demand: whole, decompressed and within limits."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from server import threads
from server.errors import APIError, BodyTooLarge
from server.http.bodies import decompression
from server.http.bodies.budget import Budget, Lease
from server.http.bodies.decompression import Decoder
from server.http.bodies.memory_trimmer import MemoryTrimmer
from server.http.bodies.multipart import is_multipart
from server.http.request_state import state_of
from server.threads import LARGE, Size

SLICE = 1024 * 1024
"""Bytes that are decoded at a time."""

DECODERS = 2
"""Bodies that are decoded at once. Each has a window of up to 8 MB that is not charged."""

JOINERS = 1
"""Large bodies whose pieces are joined at once. Each takes twice its size meanwhile."""

BODY_IGNORED = frozenset({"GET", "HEAD"})
"""Methods whose bodies mean nothing (RFC 9110, 9.3.1). Nobody reads them."""


class Bodies:
    """Middleware that gives the application each body in one message, decoded.

    Nothing is read before the application receives. Bytes are charged to `budget` as they arrive
    and as they are decoded, until the request is answered: parsed values live that long. `limit`
    is the most bytes of a body, both encoded and decoded.

    upload_endpoints: endpoints that read forms with files themselves, within limits of their own.
    Such forms pass unchanged. So do bodies of GET and HEAD: they mean nothing, and a stream that
    waits for its client to disconnect discards them as they arrive.

    `receive` raises BodyTooLarge, BodyMemoryExhausted, UnsupportedEncoding, or InvalidRequest for
    a body that cannot be decoded. After an error it returns a disconnect.
    """

    def __init__(
        self,
        app: ASGIApp,
        limit: int,
        budget: Budget,
        upload_endpoints: frozenset[Callable[..., Any]] = frozenset(),
    ) -> None:
        self._app = app
        self._upload_endpoints = upload_endpoints
        self._budget = budget
        self._shared = _Shared(
            limit, asyncio.Semaphore(DECODERS), asyncio.Semaphore(JOINERS), MemoryTrimmer()
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The ASGI interface."""
        if scope["type"] != "http" or scope.get("method") in BODY_IGNORED:
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        state = state_of(scope)
        if state.endpoint in self._upload_endpoints and is_multipart(headers):
            state.streams_body = True
            await self._app(scope, receive, send)
            return
        lease = state.body_lease = Lease(self._budget)
        body = _Body(headers, receive, lease, self._shared)
        try:
            await self._app(scope, body.receive, send)
        finally:
            lease.end()
            self._shared.trimmer.note(lease.most)


@dataclass(frozen=True, slots=True)
class _Shared:
    """What all bodies share. limit: the most bytes of each."""

    limit: int
    decoders: asyncio.Semaphore
    joiners: asyncio.Semaphore
    trimmer: MemoryTrimmer


class _Body:
    """The body of one request while it is read."""

    def __init__(self, headers: Headers, receive: Receive, lease: Lease, shared: _Shared) -> None:
        self._receive = receive
        self._lease = lease
        self._limit = shared.limit
        self._shared = shared
        encoding = headers.get("content-encoding", "").strip().lower()
        self._encoding = encoding.removeprefix("x-") or "identity"
        length = headers.get("content-length", "")
        self._declared_size = int(length) if length.isdecimal() else 0
        self._delivered = False
        self._refused = False

    async def receive(self) -> Message:
        """The whole body, then the client's disconnect."""
        if self._delivered:
            return await self._receive()
        if self._refused:
            return {"type": "http.disconnect"}
        try:
            body = await self._read()
        except APIError as error:
            self._refused = True
            self._lease.release()
            raise error.without_frames() from None  # they hold the body until the answer is sent
        self._delivered = True
        if body is None:
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": body, "more_body": False}

    async def _read(self) -> bytes | None:
        """The body; None if the client disconnected before its end."""
        if self._encoding != "identity":
            decompression.check(self._encoding)
        self._refuse_over_limit(self._declared_size)
        self._lease.require(self._declared_size)
        pieces = []
        size = 0
        more = True
        while more:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                return None
            piece = message.get("body", b"")
            size += len(piece)
            self._refuse_over_limit(size)
            self._lease.charge(len(piece))
            if piece:
                pieces.append(piece)
            more = message.get("more_body", False)
        body = await self._joined(pieces, size)
        if self._encoding == "identity":
            return body
        decoder = Decoder(body, self._encoding, self._limit)
        del body
        return await self._decoded(decoder, size)

    async def _decoded(self, decoder: Decoder, encoded: int) -> bytes:
        """The decoded body. encoded: bytes that are charged for the encoded body."""
        pieces = []
        slice_ = min(SLICE, self._limit + 1)
        size = 0
        async with self._shared.decoders:
            while True:
                # Charged before the memory is allocated.
                self._lease.charge(slice_)
                piece = await asyncio.to_thread(decoder.read, slice_)
                self._lease.refund(slice_ - len(piece))
                if not piece:
                    break
                pieces.append(piece)
                size += len(piece)
        decoder.close()
        self._lease.refund(encoded)
        return await self._joined(pieces, size)

    async def _joined(self, pieces: list[bytes], size: int) -> bytes:
        """The pieces joined; clears `pieces`. For a moment both are in memory, and charged.

        Large bodies are joined on a thread, where the join releases the GIL, and not while another
        one is parsed.
        """
        if len(pieces) == 1:
            return pieces.pop()
        if size <= LARGE:
            with self._lease.charged(size):
                return _join(pieces)
        async with self._shared.joiners:
            with self._lease.charged(size):
                return await threads.run(partial(self._join_large, pieces), Size.LARGE)

    def _join_large(self, pieces: list[bytes]) -> bytes:
        body = _join(pieces)
        # The memory of many small pieces is of no use for the next large body.
        self._shared.trimmer.trim()
        return body

    def _refuse_over_limit(self, size: int) -> None:
        if size > self._limit:
            raise BodyTooLarge(f"The request body is larger than {self._limit} bytes.")


def _join(pieces: list[bytes]) -> bytes:
    body = b"".join(pieces)
    pieces.clear()
    return body


async def read_body(receive: Receive) -> bytes | None:
    """A request's whole body; None if the client disconnected before its end."""
    pieces = []
    more = True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        pieces.append(message.get("body", b""))
        more = message.get("more_body", False)
    return b"".join(pieces)


async def take_body(request: Request) -> bytes:
    """A request's body. It can be taken once: unlike `Request.body`, this stores no reference.

    Raises ClientDisconnect if the client disconnected before its end.
    """
    body = await read_body(request.receive)
    if body is None:
        raise ClientDisconnect
    return body
