"""Encode wire events as server-sent events."""

import orjson

from server.generation.runs import WireEvent


def named(event: WireEvent) -> bytes:
    """The form of the Responses API: the `event:` line repeats the `type` of the data."""
    name: str = event["type"]
    return b"event: %s\ndata: %s\n\n" % (name.encode(), orjson.dumps(event))


def unnamed(event: WireEvent) -> bytes:
    """The form of Chat and the legacy completions: there is no `event:` line."""
    return b"data: %s\n\n" % orjson.dumps(event)
