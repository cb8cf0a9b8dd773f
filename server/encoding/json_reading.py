"""Reads JSON of the store. Long arrays of logprobs stay encoded.

orjson holds the interpreter's lock for a whole text: a second for the 34 MB of logprobs that an
answer of 30,000 tokens may have. Nothing but clients reads these. So their arrays are found in the
text, in steps of a fraction of a millisecond.
"""

import re
from collections.abc import Mapping
from secrets import token_hex
from typing import Any

import orjson

from server.encoding.json_pieces import EncodedArray

_SMALL = 1 << 18
"""Bytes that are parsed whole."""

_KEY = b'"logprobs":'
_LONG = 1 << 14
"""Bytes of an array from which on it stays encoded."""

_OPENED = re.compile(rb'[{,]"logprobs":(?:\{"content":)?\[(?=\{"(?:token|logprob)":)')
"""The start of an array, of Responses, of Chat or of a record.

In a string, the quotes have backslashes.
"""

_LEVELS = 4  # a token, its alternatives, each of them, and its bytes
_STRING = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'


def _nested(levels: int) -> bytes:
    """The pattern of an array or object with up to `levels` levels."""
    inner = rb"|" + _nested(levels - 1) if levels > 1 else b""
    return rb'[\[{](?:[^"\[\]{}]++|' + _STRING + inner + rb")*+[\]}]"


_VALUES = re.compile(rb"(?:" + _nested(_LEVELS) + rb"(?:,(?=[\[{]))?+){1,32}+")

_HOLE = token_hex(16)
"""Stands, with a number, for an array that was cut out. No client can know it."""


def load(text: bytes) -> Any:
    """`text`, which `orjson.dumps` made, as JSON; long logprobs in it are an `EncodedArray`."""
    if len(text) <= _SMALL:
        return orjson.loads(text)
    kept: list[bytes] = []
    arrays: dict[str, EncodedArray] = {}
    start = found = 0
    while (found := text.find(_KEY, found)) >= 0:
        opened = _OPENED.match(text, found - 1)
        found += len(_KEY)
        if opened is not None:
            array, end = _array(text, opened.end())
            if end - opened.end() >= _LONG and text[end : end + 1] == b"]":
                hole = f"{_HOLE}{len(arrays)}"
                arrays[hole] = array
                kept += [text[start : opened.end() - 1], orjson.dumps(hole)]
                start = found = end + 1
    kept.append(text[start:])
    value = orjson.loads(b"".join(kept))
    _fill(value, arrays)
    return value


def _array(text: bytes, start: int) -> tuple[EncodedArray, int]:
    """The values from a position in an array on, and where they end."""
    array = EncodedArray()
    while (values := _VALUES.match(text, start)) is not None:
        array.add_encoded(values[0].removesuffix(b","))
        start = values.end()
    return array, start


def _fill(value: Any, arrays: Mapping[str, EncodedArray]) -> None:
    """Put each array in the place of its hole."""
    pending = [value] if arrays else []
    while pending:
        outer = pending.pop()
        for key, inner in outer.items() if isinstance(outer, dict) else enumerate(outer):
            if isinstance(inner, str) and inner in arrays:
                outer[key] = arrays[inner]
            elif isinstance(inner, dict | list):
                pending.append(inner)
