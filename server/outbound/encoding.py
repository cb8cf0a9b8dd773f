"""Wire events as the bytes of server-sent events."""

import orjson

from server.generation.runs import WireEvent


def named(event: WireEvent) -> bytes:
    """Responses' form: the `event:` line repeats the data's `type`."""
    name: str = event["type"]
    return b"event: %s\ndata: %s\n\n" % (name.encode(), orjson.dumps(event))


def unnamed(event: WireEvent) -> bytes:
    """Chat's form: data alone."""
    return b"data: %s\n\n" % orjson.dumps(event)
