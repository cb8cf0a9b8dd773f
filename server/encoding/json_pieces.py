"""JSON in pieces of bounded size.

An answer of 60,000 tokens may have 70 MB of logprobs, which four events, the whole response and the
store repeat. They are encoded once, while the answer grows, and are copied in pieces only: neither
orjson nor a copy of bytes lets go of the interpreter's lock.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import orjson

PIECE = 1 << 16
"""Bytes from which on a piece of an array is complete."""

WITHOUT_ARRAYS = orjson.OPT_PASSTHROUGH_SUBCLASS
"""The option of `orjson.dumps` with which an `EncodedArray` is a TypeError."""
_NUL = b"\0"
"""Stands for an array in JSON, which has no such byte."""


class EncodedArray(list[orjson.Fragment]):
    """A JSON array that is encoded while it grows.

    `orjson.dumps` writes it as any other array. As a list it has a fragment for each piece; a piece
    has several values of the array.
    """

    def __init__(self) -> None:
        super().__init__()
        self.pieces: list[bytes] = []
        """The values with the commas between them, cut between values."""
        self.size = 0
        """Bytes of all values."""

    def add(self, values: Iterable[Any]) -> None:
        """Add values at the end."""
        for value in values:
            text = orjson.dumps(value)
            self.size += len(text)
            if self.pieces and len(self.pieces[-1]) < PIECE:
                text = b"%b,%b" % (self.pieces.pop(), text)
                self.pop()
            self.pieces.append(text)
            self.append(orjson.Fragment(text))

    def add_encoded(self, values: bytes) -> None:
        """Add values at the end that are JSON, with the commas between them, as one piece."""
        self.size += len(values)
        self.pieces.append(values)
        self.append(orjson.Fragment(values))


def in_pieces(value: Any) -> Sequence[bytes]:
    """`value` as JSON: one piece, or several if it has an `EncodedArray`, which is not copied."""
    try:
        return (orjson.dumps(value, None, WITHOUT_ARRAYS),)
    except TypeError:
        return _cut_at_arrays(value)


def joined(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The pieces, joined to pieces of `PIECE` bytes or some more."""
    part: list[bytes] = []
    size = 0
    for piece in pieces:
        part.append(piece)
        size += len(piece)
        if size >= PIECE:
            yield b"".join(part)
            part, size = [], 0
    if part:
        yield b"".join(part)


def _cut_at_arrays(value: Any) -> Sequence[bytes]:
    arrays: list[EncodedArray] = []

    def mark(found: Any) -> orjson.Fragment:
        if not isinstance(found, EncodedArray):
            return orjson.Fragment(orjson.dumps(found))
        arrays.append(found)
        return orjson.Fragment(_NUL)

    first, *others = orjson.dumps(value, mark, WITHOUT_ARRAYS).split(_NUL)
    pieces = [first]
    for array, text in zip(arrays, others, strict=True):
        pieces += [*_with_commas(array.pieces), text]
    return pieces


def _with_commas(pieces: Iterable[bytes]) -> Iterator[bytes]:
    before = b"["
    for piece in pieces:
        yield before
        yield piece
        before = b","
    yield b"]" if before == b"," else b"[]"
