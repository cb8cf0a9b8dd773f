"""Compressed request bodies.

Source: RFC 9110, 8.4 (Content-Encoding), and RFC 9659, which bounds zstd's window to 8 MB.
"""

import asyncio
import gzip
import io
import zlib
from collections.abc import Callable
from typing import BinaryIO

import zstandard
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from server.errors import BodyTooLarge, InvalidRequest, UnsupportedEncoding

ZSTD_WINDOW = 8 * 1024 * 1024


class Decoding:
    """Gives the application the body that a client compressed with gzip or zstd.

    limit: the most bytes of a decoded body. Reading a longer one raises BodyTooLarge before it is
    in memory, a broken one InvalidRequest, and one in another encoding UnsupportedEncoding.
    """

    def __init__(self, app: ASGIApp, limit: int) -> None:
        self._app = app
        self._limit = limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The ASGI interface."""
        encoding = _encoding(scope)
        if encoding == "identity":
            await self._app(scope, receive, send)
            return
        decoded = False

        async def decoding() -> Message:
            nonlocal decoded
            if decoded:
                return await receive()
            decoded = True
            if encoding not in _OPENERS:
                raise UnsupportedEncoding(tuple(_OPENERS))
            body = await read_body(receive)
            if body is None:
                return {"type": "http.disconnect"}
            text = await asyncio.to_thread(decode, body, encoding, self._limit)
            return {"type": "http.request", "body": text, "more_body": False}

        await self._app(scope, decoding, send)


async def read_body(receive: Receive) -> bytes | None:
    """A request's whole body; None where the client left before it was sent."""
    chunks = []
    more = True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        chunks.append(message.get("body", b""))
        more = message.get("more_body", False)
    return b"".join(chunks)


def decode(body: bytes, encoding: str, limit: int) -> bytes:
    """`body` decoded. Raises BodyTooLarge over `limit` bytes, InvalidRequest for a broken body."""
    try:
        with _OPENERS[encoding](io.BytesIO(body)) as reader:
            decoded = reader.read(limit + 1)
    except (EOFError, OSError, zlib.error, zstandard.ZstdError) as error:
        raise InvalidRequest(
            f"We could not decode the {encoding} body of your request: {error}",
            code="invalid_encoding",
        ) from None
    if len(decoded) > limit:
        raise BodyTooLarge(f"The decoded request body is larger than {limit} bytes.")
    return decoded


def _encoding(scope: Scope) -> str:
    if scope["type"] != "http":
        return "identity"
    named = Headers(scope=scope).get("content-encoding", "").strip().lower()
    return named.removeprefix("x-") or "identity"


def _zstd(body: BinaryIO) -> BinaryIO:
    decompressor = zstandard.ZstdDecompressor(max_window_size=ZSTD_WINDOW)
    return decompressor.stream_reader(body, read_across_frames=True)


def _gzip(body: BinaryIO) -> BinaryIO:
    return gzip.GzipFile(fileobj=body)  # type: ignore[return-value]


_OPENERS: dict[str, Callable[[BinaryIO], BinaryIO]] = {"gzip": _gzip, "zstd": _zstd}
