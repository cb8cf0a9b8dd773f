"""Forwards requests of the playground to the API of another server.

Only requests of the API pass, and only headers that the API needs. What comes back can be read by
the playground, and never becomes a page of its own: the answers of the other server stand below
the playground's origin, where a page could read the key of the tab.
"""

import logging
from collections.abc import AsyncIterator
from urllib.parse import unquote, urlsplit

import httpx
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from server.errors import (
    APIError,
    BodyTooLarge,
    InvalidRequest,
    NotFound,
    ServerFailed,
    Unavailable,
)
from server.http.answers.answer import error_response
from server.http.connections.disconnect import until_disconnect

logger = logging.getLogger(__name__)

MAX_BODY_BYTES = 64 << 20
METHODS = ("GET", "HEAD", "POST", "DELETE")

BESIDE_THE_API = frozenset(
    {"/health", "/ready", "/metrics", "/tokenize", "/detokenize", "/playground/load"}
)
"""Paths of gpt-oss-server that do not begin with `/v1`."""

REQUEST_HEADERS = (
    b"accept",
    b"authorization",
    b"content-type",
    b"idempotency-key",
    b"openai-organization",
    b"openai-project",
)
ANSWER_HEADERS = (
    "content-encoding",
    "content-length",
    "content-type",
    "retry-after",
    "www-authenticate",
    "x-request-id",
)
SAFE = (
    (b"content-security-policy", b"default-src 'none'; sandbox"),
    (b"x-content-type-options", b"nosniff"),
    (b"cache-control", b"no-store"),
)
"""Headers of every answer: a browser that opens it as a page runs and loads nothing."""


class Proxy:
    """An ASGI application that forwards requests to the server at `base_url`.

    base_url: the address of an API, such as `http://localhost:8000/v1`. client: closed by the
    caller; it must not follow redirects.
    """

    def __init__(self, base_url: str, client: httpx.AsyncClient) -> None:
        self._api = base_url.rstrip("/")
        self._root = self._api.removesuffix("/v1")
        self._client = client

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The ASGI interface. Errors are answered with OpenAI's body."""
        pieces = Request(scope, receive).stream()
        try:
            request = self._request(scope, await read_within(pieces, MAX_BODY_BYTES))
        except APIError as error:
            await _refusal(error)(scope, receive, send)
            return
        # The other server stops to sample when its client, this one, disconnects.
        await until_disconnect(self._forward(request, scope, receive, send), receive)

    def _request(self, scope: Scope, body: bytes) -> httpx.Request:
        """The request for the other server.

        Raises NotFound for what is not of its API, and InvalidRequest for what is no URL.
        """
        address = self._address(scope)
        try:
            url = httpx.URL(address, query=scope["query_string"] or None)
        except httpx.InvalidURL as error:
            message = "The URL cannot be forwarded: it is too long, or not valid."
            raise InvalidRequest(message) from error
        # As bytes: keys may have characters beyond ASCII, which httpx would refuse to encode.
        sent = {name: value for name, value in scope["headers"] if name in REQUEST_HEADERS}
        # What is compressed here would have to be decompressed to be streamed.
        headers = [*sent.items(), (b"accept-encoding", b"identity")]
        return self._client.build_request(
            scope["method"], url, headers=headers, content=body or None
        )

    def _address(self, scope: Scope) -> str:
        raw: bytes = scope.get("raw_path", b"")
        path = raw.decode("ascii", "replace")
        parts = unquote(path).split("/")
        outside = ".." in parts or "." in parts or "" in parts[1:] or "\\" in unquote(path)
        if not outside and scope["method"] in METHODS:
            if path.startswith("/v1/"):
                return self._api + path.removeprefix("/v1")
            if path in BESIDE_THE_API:
                return self._root + path
        message = f"Invalid URL ({scope['method']} {scope['path'][:200]})"
        raise NotFound(message, code="unknown_url")

    async def _forward(
        self, request: httpx.Request, scope: Scope, receive: Receive, send: Send
    ) -> None:
        try:
            answer = await self._client.send(request, stream=True)
        except httpx.HTTPError as error:
            logger.warning("%s cannot be reached: %s", self._api, type(error).__name__)
            unreached = Unavailable(f"The server at {_origin(self._api)} cannot be reached.")
            await _refusal(unreached)(scope, receive, send)
            return
        try:
            if 300 <= answer.status_code < 400:
                moved = ServerFailed(f"The server at {_origin(self._api)} is at another address.")
                await _refusal(moved)(scope, receive, send)
                return
            await _answer(answer, send)
        finally:
            await answer.aclose()


def _refusal(error: APIError) -> Response:
    """The proxy's own answer: with the headers that those of the other server get."""
    response = error_response(error)
    response.headers.update({name.decode(): value.decode() for name, value in SAFE})
    return response


async def _answer(answer: httpx.Response, send: Send) -> None:
    headers = [
        (name.encode(), answer.headers[name].encode("latin-1", "replace"))
        for name in ANSWER_HEADERS
        if name in answer.headers
    ]
    start = {"type": "http.response.start", "status": answer.status_code}
    await send({**start, "headers": [*headers, *SAFE]})
    try:
        async for chunk in answer.aiter_raw():
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
    except httpx.HTTPError as error:
        # Without the last message the connection is closed, and the page sees that it is not
        # the end of the answer.
        logger.warning("an answer ended early: %s", type(error).__name__)
        return
    await send({"type": "http.response.body", "body": b""})


async def read_within(pieces: AsyncIterator[bytes], most: int) -> bytes:
    """The whole body. Raises BodyTooLarge over `most` bytes."""
    body = bytearray()
    async for piece in pieces:
        body += piece
        if len(body) > most:
            raise BodyTooLarge(f"The body is over the limit of {most} bytes.")
    return bytes(body)


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"
