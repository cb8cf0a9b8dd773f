"""The stored formats: items and responses as JSON text, events and token ids compressed.

Events are stored as they were sent, in deflated batches. A replay is then independent of the
version, the settings and the random ids that made them. A delta takes about 20 bytes.
"""

import sys
import zlib
from array import array
from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain
from typing import Any

import orjson

from harmony.messages import Author, Channel, Message, Role
from server import threads
from server.encoding import json_reading
from server.encoding.json_pieces import in_pieces, joined

Inflate = Callable[[bytes], bytes]
"""Returns inflated data, as `zlib.decompress` does."""

_LEVEL = 3
# Bytes of JSON that are deflated, and of deflated data that are read, in about 0.15 ms.
_MOST_DEFLATED = 65_536
_MOST_INFLATED = 2_560
# Texts, and their characters together, that are read in about 0.2 ms.
_MOST_VALUES = 200
_MOST_READ = 65_536


def dump(value: dict[str, Any] | str) -> str:
    """Return JSON text."""
    return orjson.dumps(value).decode()


async def dump_large(value: dict[str, Any]) -> str:
    """Return JSON text, which is made on a thread if the value is large."""
    size = threads.counted(threads.cost(value, _MOST_READ), _MOST_READ)
    return await threads.run(partial(dump, value), size)


def load(text: str) -> dict[str, Any]:
    """Return the value that `dump` received."""
    value: dict[str, Any] = json_reading.load(text.encode())
    return value


async def load_all(texts: Sequence[str]) -> list[dict[str, Any]]:
    """Return the values of several texts; large ones are read on a thread."""
    values = threads.counted(len(texts), _MOST_VALUES)
    characters = threads.counted(sum(map(len, texts)), _MOST_READ)
    return await threads.run(lambda: [*map(load, texts)], max(values, characters))


async def pack(events: Sequence[dict[str, Any]]) -> bytes:
    """Deflate events; large ones on a thread, and one by one: orjson does not let go of the GIL."""
    rest = iter(events)
    pieces: list[bytes] = []
    size = 0
    while size <= _MOST_DEFLATED and (event := next(rest, None)) is not None:
        own = [b"," if pieces else b"[", *in_pieces(event)]
        pieces += own
        size += sum(map(len, own))

    def deflated() -> bytes:
        later = ((b",", *in_pieces(event)) for event in rest)
        deflate = zlib.compressobj(_LEVEL)
        all_pieces = chain(pieces or (b"[",), chain.from_iterable(later), (b"]",))
        return b"".join([*map(deflate.compress, joined(all_pieces)), deflate.flush()])

    return await threads.run(deflated, threads.counted(size, _MOST_DEFLATED))


async def unpack(bodies: Sequence[bytes]) -> list[dict[str, Any]]:
    """Return the events of several `pack` calls, concatenated."""

    def read() -> list[dict[str, Any]]:
        return [event for body in bodies for event in json_reading.load(zlib.decompress(body))]

    return await threads.run(read, threads.counted(sum(map(len, bodies)), _MOST_INFLATED))


def dump_message(message: Message | None) -> str | None:
    """Return a sampled message as JSON text, without its token ids."""
    if message is None:
        return None
    fields = {
        "role": message.author.role,
        "name": message.author.name,
        "content": message.content,
        "channel": message.channel,
        "recipient": message.recipient,
        "content_type": message.content_type,
    }
    return dump({name: value for name, value in fields.items() if value is not None})


def load_message(
    text: str | None, tokens: bytes | None, inflate: Inflate = zlib.decompress
) -> Message | None:
    """Return the message that `dump_message` and `pack_tokens` received.

    inflate: reads the deflated token ids. Raises what it raises.
    """
    if text is None:
        return None
    fields = load(text)
    channel = fields.get("channel")
    return Message(
        author=Author(Role(fields["role"]), fields.get("name")),
        content=fields["content"],
        channel=None if channel is None else Channel(channel),
        recipient=fields.get("recipient"),
        content_type=fields.get("content_type"),
        tokens=unpack_tokens(tokens, inflate),
    )


def pack_tokens(tokens: tuple[int, ...] | None) -> bytes | None:
    """Return token ids as deflated little-endian 32-bit integers."""
    if tokens is None:
        return None
    ids = array("I", tokens)
    if sys.byteorder == "big":
        ids.byteswap()
    return zlib.compress(ids.tobytes(), _LEVEL)


def unpack_tokens(body: bytes | None, inflate: Inflate = zlib.decompress) -> tuple[int, ...] | None:
    """Return the token ids that `pack_tokens` received. Raises what `inflate` raises."""
    if body is None:
        return None
    ids = array("I", inflate(body))
    if sys.byteorder == "big":
        ids.byteswap()
    return tuple(ids)
