"""The HTTP client of the SDK's transports: guarded connections, and limits on what a server sends.

It needs the extra `mcp`.
"""

import ssl
from collections.abc import AsyncIterator, Callable
from functools import cache
from http import HTTPStatus
from typing import NoReturn

import httpx2

from server.tools.fetch.pieces import BYTES_PER_PIECE, interruptible
from server.tools.mcp.limits import BYTES_PER_LINE, MAX_STREAM
from server.tools.mcp.message_size import MAX_RESPONSE, MAX_VALUES, ValueCounter
from server.tools.mcp.surrogates import Mender

Guard = Callable[[httpx2.AsyncHTTPTransport], httpx2.AsyncHTTPTransport]
"""Lets a new transport connect to what one server may be."""
GuardTransport = Callable[[httpx2.AsyncHTTPTransport, bool], httpx2.AsyncHTTPTransport]
"""Lets a new transport connect to permitted addresses only; the flag permits private ones."""

CONNECT_SECONDS = 10.0
# A session has one request in flight, beside the stream of notifications.
_LIMITS = httpx2.Limits(max_connections=8, max_keepalive_connections=8, keepalive_expiry=5.0)


class Exchange:
    """What the last requests of one connection ran into, for the errors of calls.

    status: the status of the last message to the server, None if that was a success or has no
    answer. received: the bytes of all responses so far, except those to calls, which may run while
    tools are listed. too_large: whether a response was too long. forgotten: whether the server does
    not know the session of the last message any more. gets: whether the connection is a `GET`, as
    with SSE; with streamable HTTP a `GET` only offers to listen, which a server may refuse.
    """

    def __init__(self) -> None:
        self.status: int | None = None
        self.received = 0
        self.too_large = False
        self.forgotten = False
        self.gets = False

    def begin(self) -> None:
        """Forget what earlier requests ran into: another one begins."""
        self.status, self.too_large, self.forgotten = None, False, False

    def record(self, request: httpx2.Request, status: int) -> None:
        """Take notice of the status of a response."""
        if request.method == "POST" or (request.method == "GET" and self.gets):
            self.status = status if status >= HTTPStatus.MULTIPLE_CHOICES else None
            has_session = "mcp-session-id" in request.headers
            self.forgotten = has_session and status == HTTPStatus.NOT_FOUND

    @property
    def reason(self) -> str:
        """The words of the status."""
        try:
            return HTTPStatus(self.status or 0).phrase
        except ValueError:
            return "unknown status"


def http_client(
    guard: Guard, exchange: Exchange, headers: dict[str, str] | None
) -> httpx2.AsyncClient:
    """A client for one server. It reads no environment variables, and follows no redirects.

    The SDK follows redirects within the origin itself. There is no limit on the time to read: calls
    have limits of their own, and some servers send nothing while a tool runs.
    """
    transport = httpx2.AsyncHTTPTransport(verify=_ssl_context(), trust_env=False, limits=_LIMITS)
    return httpx2.AsyncClient(
        transport=_LimitedTransport(guard(transport), exchange),
        headers=headers,
        timeout=httpx2.Timeout(CONNECT_SECONDS, read=None),
        trust_env=False,
        follow_redirects=False,
        max_redirects=5,
    )


@cache
def _ssl_context() -> ssl.SSLContext:
    """The one context of the process: it takes 20 ms to read the certificates.

    `SSL_CERT_FILE` and `SSL_CERT_DIR` name the operator's own authorities.
    """
    return httpx2.create_ssl_context()


class _LimitedTransport(httpx2.AsyncBaseTransport):
    """Limits the size of responses, takes no compressed ones, and records failures."""

    def __init__(self, inner: httpx2.AsyncBaseTransport, exchange: Exchange) -> None:
        self._inner = inner
        self._exchange = exchange

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        # A small compressed response may be large.
        request.headers["accept-encoding"] = "identity"
        response = await self._inner.handle_async_request(request)
        self._exchange.record(request, response.status_code)
        limit = MAX_STREAM if request.method == "GET" else MAX_RESPONSE
        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        is_stream = kind.startswith("text/event-stream")
        # The time to parse parameters grows with the square of their size. They could only name a
        # charset, and both JSON and events are UTF-8.
        response.headers["content-type"] = kind
        stream = response.stream
        assert isinstance(stream, httpx2.AsyncByteStream)
        if response.headers.get("content-encoding", "identity").lower() != "identity":
            await stream.aclose()
            raise httpx2.DecodingError("the server compressed its response", request=request)
        return httpx2.Response(
            status_code=response.status_code,
            headers=response.headers,
            stream=_LimitedStream(
                stream, self._exchange, limit, is_stream=is_stream, is_call=_is_call(request)
            ),
            extensions=response.extensions,
        )

    async def aclose(self) -> None:
        await self._inner.aclose()


class _LimitedStream(httpx2.AsyncByteStream):
    """The body of a response, up to a limit of bytes, of pieces, of lines (each event costs some
    work), and of values in each message: the SDK validates them on the event loop. Halves of
    characters are replaced.
    """

    def __init__(
        self,
        inner: httpx2.AsyncByteStream,
        exchange: Exchange,
        limit: int,
        *,
        is_stream: bool,
        is_call: bool,
    ) -> None:
        self._limit = limit
        self._is_stream = is_stream
        self._is_call = is_call
        self._inner = inner
        self._exchange = exchange

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = lines = count = 0
        values, mender = ValueCounter(is_stream=self._is_stream), Mender()
        async for chunk in interruptible(aiter(self._inner)):
            size += len(chunk)
            count += 1
            self._exchange.received += 0 if self._is_call else len(chunk)
            lines += chunk.count(b"\n") + chunk.count(b"\r") if self._is_stream else 0
            if size > self._limit or lines > self._limit // BYTES_PER_LINE:
                self._refuse(f"the response has more than {self._limit:,} bytes")
            if count > self._limit // BYTES_PER_PIECE:
                self._refuse("the response arrives in too many pieces")
            if values.add(chunk) > MAX_VALUES:
                self._refuse(f"a message has more than {MAX_VALUES:,} values")
            yield mender.add(chunk)
        yield mender.end()

    def _refuse(self, reason: str) -> NoReturn:
        self._exchange.too_large = True
        # The SDK ends the request, and keeps the connection.
        raise httpx2.StreamError(reason)

    async def aclose(self) -> None:
        await self._inner.aclose()


def _is_call(request: httpx2.Request) -> bool:
    """Whether a request calls a tool. With older protocols, tools are only listed before calls."""
    return request.headers.get("mcp-method") == "tools/call"
