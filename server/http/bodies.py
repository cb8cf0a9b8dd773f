"""How a request's body is read: once it is asked for, whole, decoded and within bounds."""

import asyncio
import io

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from server import decoding
from server.decoding import Decoder
from server.errors import APIError, BodyTooLarge
from server.http.budget import Budget, Lease

SLICE = 1024 * 1024
"""Bytes that are decoded at a time."""

DECODERS = 4
"""Bodies that are decoded at once. Each has a window of up to 8 MB beside what is charged."""

LEASE = "body_lease"
"""Where the request's state has the Lease of its body."""


class Bodies:
    """Gives the application each body in one message, decoded.

    Nothing is read before the application receives. What is read is charged to `budget` as it
    arrives and as it is decoded, and until the request is answered: what was parsed from a body
    lives that long. `limit` is the most bytes of a body, encoded and decoded.

    To receive raises BodyTooLarge, BodyMemoryExhausted, UnsupportedEncoding, or InvalidRequest for
    a body that cannot be decoded; and the same again for who tries again.
    """

    def __init__(self, app: ASGIApp, limit: int, budget: Budget) -> None:
        self._app = app
        self._limit = limit
        self._budget = budget
        self._decoders = asyncio.Semaphore(DECODERS)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The ASGI interface."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        lease = Lease(self._budget)
        scope.setdefault("state", {})[LEASE] = lease
        body = _Body(Headers(scope=scope), receive, lease, self._limit, self._decoders)
        try:
            await self._app(scope, body.receive, send)
        finally:
            lease.end()


class _Body:
    """One request's body on its way in."""

    def __init__(
        self,
        headers: Headers,
        receive: Receive,
        lease: Lease,
        limit: int,
        decoders: asyncio.Semaphore,
    ) -> None:
        self._receive = receive
        self._lease = lease
        self._limit = limit
        self._decoders = decoders
        named = headers.get("content-encoding", "").strip().lower()
        self._encoding = named.removeprefix("x-") or "identity"
        declared = headers.get("content-length", "")
        self._promised = int(declared) if declared.isdecimal() else 0
        self._delivered = False
        self._error: APIError | None = None

    async def receive(self) -> Message:
        """The whole body, then the client's disconnect."""
        if self._delivered:
            return await self._receive()
        if self._error is not None:
            raise self._error
        try:
            body = await self._read()
        except APIError as error:
            self._error = error
            self._lease.release()
            raise
        self._delivered = True
        if body is None:
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": body, "more_body": False}

    async def _read(self) -> bytes | None:
        """The body; None where the client left before it was sent."""
        if self._encoding != "identity":
            decoding.check(self._encoding)
        self._refuse_over_limit(self._promised)
        self._lease.require(self._promised)
        # It grows in place, and gives its bytes away without a copy.
        body = io.BytesIO()
        more = True
        while more:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                return None
            piece = message.get("body", b"")
            self._refuse_over_limit(body.tell() + len(piece))
            self._lease.charge(len(piece))
            body.write(piece)
            more = message.get("more_body", False)
        if self._encoding == "identity":
            return body.getvalue()
        return await self._decoded(body.getvalue())

    async def _decoded(self, encoded: bytes) -> bytes:
        decoder = Decoder(encoded, self._encoding, self._limit)
        body = io.BytesIO()
        async with self._decoders:
            while True:
                # Charged before there is memory for it.
                self._lease.charge(SLICE)
                piece = await asyncio.to_thread(decoder.read, SLICE)
                self._lease.refund(SLICE - len(piece))
                if not piece:
                    break
                body.write(piece)
        self._lease.refund(len(encoded))
        return body.getvalue()

    def _refuse_over_limit(self, size: int) -> None:
        if size > self._limit:
            raise BodyTooLarge(f"The request body is larger than {self._limit} bytes.")


async def read_body(receive: Receive) -> bytes | None:
    """A request's whole body; None where the client left before it was sent."""
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
    """A request's body, which can be taken once: the request does not keep it, as `body()` does.

    Raises ClientDisconnect where the client left before it was sent.
    """
    body = await read_body(request.receive)
    if body is None:
        raise ClientDisconnect
    return body
