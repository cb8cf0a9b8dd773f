"""Responses with the content of files. They are always downloads, which no browser executes.

Source: RFC 9110, 14 (ranges) and 13.1.5 (If-Range).
"""

import os
import re
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import BinaryIO
from urllib.parse import quote

from starlette.datastructures import Headers
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from server.errors import RangeNotSatisfiable
from server.threads import closed_on_a_thread, read

MEDIA_TYPE = "application/octet-stream"
_NO_SNIFFING = {"X-Content-Type-Options": "nosniff"}
_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})", re.ASCII | re.IGNORECASE)


async def file_response(content: BinaryIO, filename: str, etag: str, headers: Headers) -> Response:
    """A file of this machine, which is closed with the response; or a range of it.

    etag: of the content, with its quotes. headers: those of the request. Raises
    RangeNotSatisfiable.
    """
    size = os.fstat(content.fileno()).st_size
    try:
        part = _requested(headers, etag, size)
    except RangeNotSatisfiable:
        content.close()
        raise
    wanted = part or range(size)
    response = await stream_response(_read(content, wanted), filename)
    if quote(filename, safe="") == filename:
        # Some clients read this form alone.
        response.headers["Content-Disposition"] = f'attachment; filename="{filename}"'
    response.headers["Content-Length"] = str(len(wanted))
    response.headers["Accept-Ranges"] = "bytes"
    response.headers["ETag"] = etag
    if part is not None:
        response.status_code = 206
        response.headers["Content-Range"] = f"bytes {part.start}-{part.stop - 1}/{size}"
    return response


def _requested(headers: Headers, etag: str, size: int) -> range | None:
    """The bytes that a request asks for; None for all of them. Raises RangeNotSatisfiable.

    A server may ignore a request for several ranges, and must ignore other units.
    """
    matched = _RANGE.fullmatch(headers.get("range", "").strip())
    if matched is None or headers.get("if-range", etag) != etag:
        return None
    first, last = matched.groups()
    if not first and not last:
        return None
    if first and last and int(last) < int(first):
        return None
    start = int(first) if first else max(size - int(last), 0)
    stop = min(int(last) + 1, size) if first and last else size
    if start >= size:
        raise RangeNotSatisfiable(size)
    return range(start, stop)


async def _read(content: BinaryIO, part: range) -> AsyncGenerator[bytes, None]:
    with closed_on_a_thread(content):
        content.seek(part.start)
        async for piece in read(content, len(part)):
            yield piece


async def stream_response(content: AsyncGenerator[bytes, None], filename: str) -> Response:
    """A content that comes piece by piece. Raises what `content` raises before its first piece."""
    first = await anext(content, b"")
    disposition = f"attachment; filename*=UTF-8''{quote(filename, safe='')}"
    return _Stream(first, content, {"Content-Disposition": disposition, **_NO_SNIFFING})


class _Stream(StreamingResponse):
    """Closes the content when the client leaves."""

    def __init__(
        self, first: bytes, content: AsyncGenerator[bytes, None], headers: dict[str, str]
    ) -> None:
        super().__init__(self._pieces(first), media_type=MEDIA_TYPE, headers=headers)
        self._content = content

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The ASGI interface."""
        async with aclosing(self._content):
            await super().__call__(scope, receive, send)

    async def _pieces(self, first: bytes) -> AsyncGenerator[bytes, None]:
        yield first
        async for piece in self._content:
            yield piece
