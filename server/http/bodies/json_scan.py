"""Checks the size of a JSON document in its bytes, before it is parsed.

A JSON parser holds the GIL for the whole call, and an empty object of two bytes takes 64 bytes in
memory. The text is therefore checked first, in slices between which other threads can run: the
numbers of values, containers and levels, and the bytes of strings that are not ASCII.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import accumulate

from server.errors import InvalidRequest
from server.schemas.limits import (
    MAX_CONTAINERS,
    MAX_DEPTH,
    MAX_NAMES,
    MAX_VALUES,
    MAX_WIDE_BYTES,
)

SLICE = 1 << 16
"""Bytes that are checked in at most about 2 ms."""

_MARKS = b"[]{},:"
_NO_MARKS = bytes(set(range(256)) - set(_MARKS))
_NO_QUOTES_OR_BRACKETS = bytes(set(range(256)) - set(b'"[]{}'))
_PASSES = 8
# As signed bytes: 1 opens a level, -1 closes one.
_STEPS = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")

_PAIR, _PLACEHOLDER = b"\\\\", b"\xff\xff"  # of the same length, and never in UTF-8
_HIGH = rb"\\u[dD][89abAB][0-9a-fA-F]{2}"
_LOW = rb"\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_LONE_HIGH = re.compile(_HIGH + rb"(?!" + _LOW + rb")")
_LONE_LOW = re.compile(rb"(?<!\\u[dD][89abAB][0-9a-fA-F]{2})" + _LOW)
_HIGH_AT_END = re.compile(_HIGH + rb"\Z")
_ESCAPE_BYTES = 6
_REPLACEMENT = rb"\\uFFFD"


def check(text: bytes) -> None:
    """Check a JSON text against the limits. Invalid JSON may pass.

    Raises InvalidRequest that names the exceeded limit. Takes about 10 ms for each MB of small
    values; check texts over 256 KiB on a thread.
    """
    if _may_exceed_limits(text):
        scan = _Scan()
        for piece in _slices(text):
            scan.read(piece)


def replace_lone_surrogates(text: bytes) -> bytes:
    """The JSON text with lone surrogates, as in a truncated emoji, replaced by U+FFFD."""
    parts = []
    start = 0
    while start < len(text):
        piece = text[start : start + SLICE]
        # Now each backslash begins an escape. A text that contains the placeholder is not JSON.
        plain = piece if _PLACEHOLDER in piece else piece.replace(_PAIR, _PLACEHOLDER)
        if len(piece) == SLICE:
            plain = plain[: _whole_escapes(plain)]
        start += len(plain)
        plain = _LONE_LOW.sub(_REPLACEMENT, _LONE_HIGH.sub(_REPLACEMENT, plain))
        parts.append(plain if _PLACEHOLDER in piece else plain.replace(_PLACEHOLDER, _PAIR))
    return b"".join(parts)


def contains(text: bytes, part: bytes) -> bool:
    """Whether the part occurs in the text. Other threads can run after each slice."""
    starts = range(0, len(text), SLICE)
    return any(text.find(part, start, start + SLICE + len(part) - 1) >= 0 for start in starts)


def _whole_escapes(text: bytes) -> int:
    """Where to cut without splitting an escape or a pair of surrogates; never 0."""
    cut = text.rfind(b"\\", len(text) - _ESCAPE_BYTES + 1)
    if cut < 0:
        cut = len(text)
    high = cut - _ESCAPE_BYTES
    return high if _HIGH_AT_END.match(text, high, cut) else cut


def _may_be_too_deep(text: bytes) -> bool:
    """Whether the text may exceed MAX_DEPTH, the only limit that a text of one slice can exceed.

    An upper bound. Declarations of tools have many containers, but most of them are on the
    innermost levels, which are removed first.
    """
    if _openings(text) <= MAX_DEPTH:
        return False
    if b"\\" in text:
        text = text.replace(b"\\\\", b"").replace(b'\\"', b"")
    # Whether a bracket is in a string does not depend on two quotes in a row before it.
    pieces = text.translate(None, _NO_QUOTES_OR_BRACKETS).replace(b'""', b"").split(b'"')
    brackets = b"".join(pieces[::2])
    for passes in range(1, _PASSES + 1):
        # Each removes at most two levels.
        brackets = brackets.replace(b"{}", b"").replace(b"[]", b"")
        if _openings(brackets) + 2 * passes <= MAX_DEPTH:
            return False
    return True


def _openings(text: bytes) -> int:
    return text.count(b"[") + text.count(b"{")


def _may_exceed_limits(text: bytes) -> bool:
    """Whether the text may exceed a limit. An upper bound: it counts marks in strings too."""
    if len(text) <= SLICE:
        return _may_be_too_deep(text)
    values = names = containers = 0
    for piece in _slices(text):
        opened = _openings(piece)
        containers += opened
        if containers > MAX_DEPTH:
            return True
        colons = piece.count(b":")
        names += colons
        values += opened + piece.count(b",") + colons
    return values >= MAX_VALUES or names > MAX_NAMES or len(text) > MAX_WIDE_BYTES


def _slices(text: bytes) -> Iterator[bytes]:
    """The text in pieces that do not end inside an escape."""
    start = 0
    while start < len(text):
        piece = text[start : start + SLICE]
        if (len(piece) - len(piece.rstrip(b"\\"))) % 2:
            piece = text[start : start + SLICE + 1]
        start += len(piece)
        yield piece


class _Scan:
    """The counts so far. wide: bytes of strings that have characters beyond ASCII."""

    def __init__(self) -> None:
        self._inside = False
        self._values = 1
        self._names = 0
        self._containers = 0
        self._depth = 0
        self._wide = 0
        self._open = 0
        self._open_is_wide = False

    def read(self, piece: bytes) -> None:
        """Count the next piece. Raises InvalidRequest."""
        if b"\\" in piece:
            piece = piece.replace(b"\\\\", b"").replace(b'\\"', b"")
        pieces = piece.split(b'"')
        if _is_wide(piece) or self._open_is_wide or len(pieces) < 3:
            self._measure(pieces)
        else:  # many short ASCII strings: only the last may continue, and become wide
            self._open = len(pieces[-1])
        others = pieces[self._inside :: 2]
        self._inside ^= len(pieces) % 2 == 0
        self._count(b"".join(others).translate(None, _NO_MARKS))

    def _measure(self, pieces: Sequence[bytes]) -> None:
        """Add the bytes between quotes that are wide, which only strings are.

        The last string may continue in the next piece.
        """
        for number, string in enumerate(pieces):
            if number:  # after a quote
                self._wide += self._open if self._open_is_wide else 0
                self._open, self._open_is_wide = 0, False
            self._open += len(string)
            self._open_is_wide |= _is_wide(string)
        if self._wide + (self._open if self._open_is_wide else 0) > MAX_WIDE_BYTES:
            raise _over(f"more than {MAX_WIDE_BYTES} bytes of text that is not ASCII")

    def _count(self, marks: bytes) -> None:
        brackets = marks.translate(None, b",:")
        opened = brackets.count(b"[") + brackets.count(b"{")
        self._values += len(marks) - len(brackets) + opened
        self._names += marks.count(b":")
        self._containers += opened
        if self._depth + opened > MAX_DEPTH:
            steps = memoryview(brackets.translate(_STEPS)).cast("b")
            if max(accumulate(steps, initial=self._depth)) > MAX_DEPTH:
                raise _over(f"more than {MAX_DEPTH} levels of nesting")
        self._depth += 2 * opened - len(brackets)
        if self._values > MAX_VALUES:
            raise _over(f"more than {MAX_VALUES} values")
        if self._names > MAX_NAMES:
            raise _over(f"more than {MAX_NAMES} members of objects")
        if self._containers > MAX_CONTAINERS:
            raise _over(f"more than {MAX_CONTAINERS} arrays and objects")


def _is_wide(text: bytes) -> bool:
    return b"\\u" in text or not text.isascii()


def _over(limit: str) -> InvalidRequest:
    return InvalidRequest(f"The request body has {limit}.", code="body_too_complex")
