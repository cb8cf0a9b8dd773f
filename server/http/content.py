"""Responses with the content of files. They are always downloads, which no browser executes."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path
from urllib.parse import quote

from starlette.responses import FileResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send

MEDIA_TYPE = "application/octet-stream"
_NO_SNIFFING = {"X-Content-Type-Options": "nosniff"}


def file_response(path: Path, filename: str) -> Response:
    """A file of this machine. Ranges of it may be requested."""
    return FileResponse(path, media_type=MEDIA_TYPE, filename=filename, headers=_NO_SNIFFING)


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
