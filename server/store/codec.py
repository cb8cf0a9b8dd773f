"""How what is kept is written: items and responses as JSON text, the bulky rest compressed.

Events are kept as they were sent, in deflated batches: what is replayed is then what was said,
whatever version of the parser, setting or random id made it. A delta costs some 20 bytes.
"""

import sys
import zlib
from array import array
from collections.abc import Sequence
from typing import Any

import orjson

from harmony.messages import Author, Channel, Message, Role
from server import threads

_LEVEL = 6
# Bytes of JSON that are deflated, and of what it becomes that are read, in some 0.15 ms.
_MOST_DEFLATED = 65_536
_MOST_INFLATED = 2_560


def dump(value: dict[str, Any]) -> str:
    """JSON text."""
    return orjson.dumps(value).decode()


def load(text: str) -> dict[str, Any]:
    """What `dump` was given."""
    value: dict[str, Any] = orjson.loads(text)
    return value


async def pack(events: Sequence[dict[str, Any]]) -> bytes:
    """Events, deflated: on a thread where they are long."""
    text = orjson.dumps(events)
    return await threads.run(lambda: zlib.compress(text, _LEVEL), small=len(text) <= _MOST_DEFLATED)


async def unpack(bodies: Sequence[bytes]) -> list[dict[str, Any]]:
    """What `pack` was given, time after time."""

    def read() -> list[dict[str, Any]]:
        return [event for body in bodies for event in orjson.loads(zlib.decompress(body))]

    return await threads.run(read, small=sum(map(len, bodies)) <= _MOST_INFLATED)


def dump_message(message: Message | None) -> str | None:
    """A message of the model's, without its token ids."""
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


def load_message(text: str | None, tokens: bytes | None) -> Message | None:
    """What `dump_message` and `pack_tokens` were given."""
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
        tokens=unpack_tokens(tokens),
    )


def pack_tokens(tokens: tuple[int, ...] | None) -> bytes | None:
    """Token ids as deflated little-endian 32-bit integers."""
    if tokens is None:
        return None
    ids = array("I", tokens)
    if sys.byteorder == "big":
        ids.byteswap()
    return zlib.compress(ids.tobytes(), _LEVEL)


def unpack_tokens(body: bytes | None) -> tuple[int, ...] | None:
    """What `pack_tokens` was given."""
    if body is None:
        return None
    ids = array("I", zlib.decompress(body))
    if sys.byteorder == "big":
        ids.byteswap()
    return tuple(ids)
