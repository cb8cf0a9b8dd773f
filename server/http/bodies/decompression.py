"""Decodes compressed request bodies, a slice at a time.

Sources: RFC 9110, 8.4 (Content-Encoding), RFC 1952, 2.2 (the members of gzip), RFC 8878, 3.1 (the
frames of zstd), and RFC 9659, which bounds their window to 8 MB.
"""

import io
import zlib
from collections.abc import Callable
from typing import BinaryIO, cast

import zstandard

from server.errors import BodyTooLarge, InvalidRequest, UnsupportedEncoding

ZSTD_WINDOW = 8 * 1024 * 1024

MAX_RATIO = 200
"""The most decoded bytes for each encoded byte, above FREE_BYTES.

Prose, code and logs reach 2 to 60; 500 similar tools 120; an agent's history that repeats a file
100 with gzip and 400 with zstd; a decompression bomb 1,000 with gzip and 30,000 with zstd.
"""

FREE_BYTES = 4 * 1024 * 1024
"""Decoded bytes to which the ratio does not apply.

131,072 tokens, the longest context of gpt-oss, are about 600 KB of English text, so repetitive
texts that fit into the context pass.
"""

MAX_MEMBERS = 4096
"""The most parts of a gzip body that were compressed alone, as by tools that compress blocks.

A million empty ones fit into a body, and each takes some microseconds of the interpreter.
"""

_GZIP = zlib.MAX_WBITS + 16
_CHUNK = 16 * 1024
_SKIPPED_BYTES = 128 * 1024 + 64
_SKIPPED = b"\x50\x2a\x4d\x18" + _SKIPPED_BYTES.to_bytes(4, "little") + b"\xff" * _SKIPPED_BYTES
"""A skippable frame that is read behind each zstd body.

zstandard takes a body that is cut off within a frame for a whole one. There, these bytes are an
error: they can be neither a block nor a frame, and are more than the rest of the largest block.
"""


class Decoder:
    """The decoded form of one compressed body.

    limit: the most decoded bytes. Raises UnsupportedEncoding for an unknown `encoding`.
    """

    def __init__(self, body: bytes, encoding: str, limit: int) -> None:
        check(encoding)
        self._encoding = encoding
        self._reader = _OPENERS[encoding](io.BytesIO(body))
        self._limit = limit
        self._ratio_limit = max(FREE_BYTES, MAX_RATIO * len(body))
        self._decoded = 0

    def read(self, size: int) -> bytes:
        """The next bytes, at most `size`; empty at the end.

        Raises InvalidRequest for a body that cannot be decoded, and BodyTooLarge as soon as it
        exceeds the limit or MAX_RATIO times its size.
        """
        try:
            piece = self._reader.read(size)
        except (EOFError, zlib.error, zstandard.ZstdError) as error:
            raise InvalidRequest(
                f"We could not decode the {self._encoding} body of your request: {error}",
                code="invalid_encoding",
            ) from None
        self._decoded += len(piece)
        if self._decoded > self._limit:
            raise BodyTooLarge(f"The decoded request body is larger than {self._limit} bytes.")
        if self._decoded > self._ratio_limit:
            raise BodyTooLarge(
                f"The request body decodes to more than {MAX_RATIO} times its size.",
                code="compression_ratio_too_high",
            )
        return piece

    def close(self) -> None:
        """Release the body."""
        self._reader.close()


def check(encoding: str) -> None:
    """Raises UnsupportedEncoding for an unknown encoding."""
    if encoding not in _OPENERS:
        raise UnsupportedEncoding(tuple(_OPENERS))


def _zstd(body: BinaryIO) -> BinaryIO:
    decompressor = zstandard.ZstdDecompressor(max_window_size=ZSTD_WINDOW)
    source = cast(BinaryIO, _WithSkippedFrame(body))  # zstandard calls `read` and `close` only
    return decompressor.stream_reader(source, read_across_frames=True)


class _WithSkippedFrame:
    """A file with a zstd body, which is read as if `_SKIPPED` were behind it."""

    def __init__(self, body: BinaryIO) -> None:
        self._body = body
        self._behind = io.BytesIO(_SKIPPED)

    def read(self, size: int) -> bytes:
        """The next bytes, at most `size`; empty at the end."""
        return self._body.read(size) or self._behind.read(size)

    def close(self) -> None:
        """Close the file."""
        self._body.close()


class _Members:
    """A file with a gzip body, which is read decoded.

    Unlike Python's `gzip`, it leaves headers and padding to C: a long one there takes seconds.
    """

    def __init__(self, body: BinaryIO) -> None:
        self._body = body
        self._left = b""
        self._begun = 0
        self._member = zlib.decompressobj(_GZIP)

    def read(self, size: int) -> bytes:
        """The next `size` bytes, less at the end only. Raises EOFError and zlib.error."""
        pieces: list[bytes] = []
        while size and self._has_member():
            encoded = self._left or self._body.read(_CHUNK)
            piece = self._member.decompress(encoded, size)
            self._left = self._member.unconsumed_tail or self._member.unused_data
            if not (piece or encoded or self._member.eof):
                raise EOFError("it is cut off")
            pieces.append(piece)
            size -= len(piece)
        return b"".join(pieces)

    def _has_member(self) -> bool:
        """Whether there is more to decode. Begins the next member if one has ended."""
        if self._begun and not self._member.eof:
            return True
        padding = b"\0" if self._begun else b""
        left = self._left or self._body.read(_CHUNK)
        while left and not (left := left.lstrip(padding)):
            left = self._body.read(_CHUNK)
        self._left = left
        if left:
            self._begun += 1
            self._member = zlib.decompressobj(_GZIP)
        if self._begun > MAX_MEMBERS:
            raise zlib.error(f"it has more than {MAX_MEMBERS} parts")
        return bool(left)

    def close(self) -> None:
        """Close the file."""
        self._body.close()


def _gzip(body: BinaryIO) -> BinaryIO:
    return cast(BinaryIO, _Members(body))  # `Decoder` calls `read` and `close` only


_OPENERS: dict[str, Callable[[BinaryIO], BinaryIO]] = {"gzip": _gzip, "zstd": _zstd}
