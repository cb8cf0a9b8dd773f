"""Decodes a body while it is read, within limits on size and on the ratio of compression.

Only gzip and deflate are decoded, because zlib can stop after a given number of bytes.
"""

import zlib
from collections.abc import AsyncIterator, Iterator

from server.tools.fetch.errors import BodyTooLarge, UnsupportedBody
from server.tools.fetch.pieces import BYTES_PER_PIECE, interruptible

ACCEPTED = "gzip, deflate"
_MOST_RATIO = 200
_FREE_BYTES = 1 << 20  # below this size any ratio is harmless
_STEP = 1 << 16
_GZIP = b"\x1f\x8b"
"""How each member of a gzip body begins."""


async def read_body(chunks: AsyncIterator[bytes], encoding: str, limit: int) -> bytes:
    """The decoded body.

    encoding: the value of Content-Encoding. limit: bytes, before and after decoding.
    Raises BodyTooLarge, UnsupportedBody.
    """
    body, received, count = bytearray(), 0, 0
    decoder = _Decoder(encoding.strip().lower())
    async for chunk in interruptible(chunks):
        received += len(chunk)
        count += 1
        if count > limit // BYTES_PER_PIECE:
            raise BodyTooLarge("the page arrives in too many pieces")
        if received > limit:
            raise BodyTooLarge(f"the page is larger than {limit} bytes")
        for piece in decoder.pieces(chunk):
            body += piece
            if len(body) > limit or len(body) > max(_FREE_BYTES, received * _MOST_RATIO):
                raise BodyTooLarge(f"the page is larger than {limit} bytes")
    body += decoder.rest()
    return bytes(body)


class _Decoder:
    def __init__(self, encoding: str) -> None:
        if encoding not in ("", "identity", "gzip", "x-gzip", "deflate"):
            raise UnsupportedBody("the encoding of the page is not supported")
        self._is_plain = encoding in ("", "identity")
        self._is_deflate = encoding == "deflate"
        # 32: the header says whether it is gzip or zlib.
        self._zlib = zlib.decompressobj(zlib.MAX_WBITS | 32)
        self._is_new = True
        self._after = b""  # the beginning of what follows the last member

    def pieces(self, chunk: bytes) -> Iterator[bytes]:
        """The decoded pieces of a chunk, each of a bounded size."""
        if self._is_plain:
            yield chunk
        else:
            rest = chunk
            while rest:
                piece, rest = self._step(rest)
                yield piece

    def rest(self) -> bytes:
        """What the decoder still holds once all is read. Raises UnsupportedBody."""
        if self._is_plain or self._is_new:
            return b""
        piece = self._zlib.flush()
        if not self._zlib.eof:
            raise UnsupportedBody("the compressed page is not complete")
        return piece

    def _step(self, data: bytes) -> tuple[bytes, bytes]:
        """At most `_STEP` decoded bytes, and the data that is left."""
        if self._zlib.eof:
            return b"", self._next_member(data)
        try:
            piece = self._zlib.decompress(data, _STEP)
        except zlib.error as error:
            if not (self._is_deflate and self._is_new):
                raise UnsupportedBody("the compressed page is damaged") from error
            # Some servers send deflate without zlib's header.
            self._zlib = zlib.decompressobj(-zlib.MAX_WBITS)
            self._is_new = False
            return self._step(data)
        self._is_new = False
        # Once the data has ended, the unconsumed tail is not emptied any more.
        return piece, self._zlib.unused_data if self._zlib.eof else self._zlib.unconsumed_tail

    def _next_member(self, data: bytes) -> bytes:
        """Begin another member, and return its data; nothing where padding follows the last one."""
        data = self._after + data
        if not data.startswith(_GZIP):
            self._after = data[: len(_GZIP)]
            return b""
        self._zlib = zlib.decompressobj(zlib.MAX_WBITS | 32)
        self._after = b""
        return data
