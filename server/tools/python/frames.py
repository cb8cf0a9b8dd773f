"""The frames between the server and the process of a session.

Everything that comes from the process is untrusted: a cell may write to any of its descriptors.
"""

import base64
import binascii
import codecs
import json
from collections.abc import Iterator
from typing import Any

from server.tools.python.confinement.command import DATA
from server.tools.python.sandbox import CellEnd, CellEvent, OutputImage, OutputText

MOST_FRAME = 8 << 20
"""Bytes of the largest frame: an image of 4 MiB and its JSON."""
LEAST = 1 << 10
"""Bytes of the limit that an image, a result or a traceback takes at least."""
SMALL_FRAME = 1 << 10
"""Bytes of the largest frame that may be a cell's last one."""
_LEAST_FRAME = 16
"""Bytes of the smallest frame. All that the worker writes are larger."""
_LAST = b'{"event": "end"'
"""How the last frame of a cell begins."""
_FRAMES = 8
"""Bytes of frames that are decoded for each byte of output. JSON writes a character of one byte as
six, and one of four bytes as twelve."""
_MOST_FIELDS = 8
_BEGINNINGS = '"tfn'
"""How texts, true, false and null begin."""
_DECODER = json.JSONDecoder()
_MEDIA_TYPES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})


class InvalidFrame(Exception):
    """The process sent something that the worker never sends."""


def request(**fields: str) -> bytes:
    """The frame of a request."""
    content = json.dumps(fields).encode()
    return len(content).to_bytes(4, "big") + content


class FrameReader:
    """Cuts bytes into frames."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    @property
    def has_frame(self) -> bool:
        """Whether there is a frame, or what is none, that was not taken yet."""
        size = self._size()
        return size > MOST_FRAME or len(self._buffer) >= 4 + size

    def feed(self, content: bytes) -> Iterator[bytes]:
        """Add bytes. Returns the frames that are now complete."""
        self._buffer += content
        return self.complete()

    def complete(self) -> Iterator[bytes]:
        """The frames that are complete, for `parse`. Raises InvalidFrame.

        Those that are not taken from the iterator come with the next call.
        """
        while self.has_frame:
            size = self._size()
            if not _LEAST_FRAME <= size <= MOST_FRAME:
                raise InvalidFrame(f"a frame of {size} bytes")
            frame = bytes(self._buffer[4 : 4 + size])
            del self._buffer[: 4 + size]
            yield frame

    def _size(self) -> int:
        """Of the next frame; a possible one where it is not known yet."""
        if len(self._buffer) < 4:
            return _LEAST_FRAME
        return int.from_bytes(self._buffer[:4], "big")


def parse(content: bytes) -> dict[str, Any]:
    """The object of a frame, as the worker writes it. Raises InvalidFrame.

    Its values are texts and literals. Millions of other values would block the server for seconds,
    since the parser of JSON lets nothing else run.
    """
    try:
        text = content.decode()
        if not text.startswith("{"):
            raise InvalidFrame("a frame that is not an object")
        fields: dict[str, Any] = {}
        place = 1
        for _ in range(_MOST_FIELDS):
            name, place = _value(text, place, '"')
            fields[name], place = _value(text, place + len(": "), _BEGINNINGS)
            if place == len(text) - 1 and text.endswith("}"):
                return fields
            place += len(", ")
    except ValueError as error:
        raise InvalidFrame("a frame that is not JSON") from error
    raise InvalidFrame("a frame with too many fields")


def _value(text: str, place: int, beginnings: str) -> tuple[Any, int]:
    """The JSON value at a place, and the place after it. beginnings: what it may begin with."""
    if not text.startswith(tuple(beginnings), place):
        raise InvalidFrame("a frame with a value of an unknown kind")
    return _DECODER.raw_decode(text, place)


def event_of(frame: dict[str, Any], cell: str) -> CellEvent:
    """The event of a frame. cell: the id of the cell that runs. Raises InvalidFrame."""
    if frame.get("cell") != cell:
        raise InvalidFrame("a frame of another cell")
    match frame:
        case {"event": "text", "stream": ("result" | "error") as stream, "text": str(text)}:
            return OutputText(stream, _printable(text))
        case {"event": "image", "media_type": str(media_type), "data": str(data)}:
            if media_type not in _MEDIA_TYPES:
                raise InvalidFrame("an image of an unknown type")
            return OutputImage(media_type, _decoded(data))
        case {"event": "end", "raised": bool(raised)}:
            return CellEnd("raised" if raised else "completed")
    raise InvalidFrame("a frame of an unknown kind")


def _decoded(data: str) -> bytes:
    try:
        return base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError) as error:
        raise InvalidFrame("an image that is not base64") from error


def _printable(text: str) -> str:
    """The text, with surrogates that no encoding allows written as escapes."""
    return text.encode("utf-8", "backslashreplace").decode()


class Output:
    """Decodes one stream of a cell. Bytes that are not UTF-8 are written as `\\xNN`.

    folder: the true path of the session's folder, which is written as `/mnt/data`; None if that is
    its true path.
    """

    def __init__(self, folder: str | None) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")
        self._folder = folder
        self._tail = ""

    def feed(self, content: bytes, *, last: bool = False) -> str:
        """The characters that the bytes complete."""
        text = self._decoder.decode(content, last)
        if self._folder is None:
            return text
        text = (self._tail + text).replace(self._folder, DATA)
        self._tail = "" if last else _common_end(text, self._folder)
        return text.removesuffix(self._tail)


def _common_end(text: str, path: str) -> str:
    """The longest end of the text with which the path begins."""
    for size in range(min(len(text), len(path) - 1), 0, -1):
        if path.startswith(text[-size:]):
            return text[-size:]
    return ""


class Budget:
    """Counts the output of a cell, and drops what is over the limit.

    An image, a result and a traceback count for LEAST bytes at least: each is an event of its own,
    so that many small ones would take much more than their bytes. Frames count whatever is kept of
    them, since each one blocks the server for as long as it takes to decode it: large ones by their
    bytes, and small ones by their number, so that these can still be read after too large images.
    """

    def __init__(self, most: int) -> None:
        self._left = most
        self._large_frames = max(_FRAMES * most, MOST_FRAME)
        self._small_frames = most // LEAST + 1

    @property
    def is_spent(self) -> bool:
        """Whether nothing more is kept."""
        return self._left == 0

    def take_frame(self, frame: bytes) -> bool:
        """Whether a frame is to be decoded: it may be the last, or be kept."""
        if len(frame) > SMALL_FRAME:
            self._large_frames -= len(frame)
            return self._left > 0 and self._large_frames >= 0
        self._small_frames -= 1
        return frame.startswith(_LAST) or (self._left > 0 and self._small_frames >= 0)

    def take(self, event: OutputText | OutputImage) -> OutputText | OutputImage | None:
        """The event as far as it is within the limit; None if nothing is left of it."""
        if isinstance(event, OutputImage):
            if not 0 < len(event.data) <= self._left:
                return None
            self._spend(max(len(event.data), LEAST))
            return event
        content = event.text.encode()[: self._left]
        least = LEAST if event.stream in ("result", "error") else 0
        self._spend(max(len(content), least))
        text = content.decode(errors="ignore")
        return OutputText(event.stream, text) if text else None

    def _spend(self, size: int) -> None:
        self._left = max(self._left - size, 0)
