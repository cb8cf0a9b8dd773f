"""Encode wire events as server-sent events, each in one piece or, if it is large, in several."""

from collections.abc import Sequence

import orjson

from server.encoding.json_pieces import WITHOUT_ARRAYS, in_pieces
from server.generation.runs import WireEvent


def named(event: WireEvent) -> Sequence[bytes]:
    """The form of the Responses API: the `event:` line repeats the `type` of the data."""
    name: bytes = event["type"].encode()
    try:
        return (b"event: %b\ndata: %b\n\n" % (name, orjson.dumps(event, None, WITHOUT_ARRAYS)),)
    except TypeError:
        return (b"event: %b\ndata: " % name, *in_pieces(event), b"\n\n")


def unnamed(event: WireEvent) -> Sequence[bytes]:
    """The form of Chat and the legacy completions: there is no `event:` line."""
    return (b"data: %b\n\n" % orjson.dumps(event),)
