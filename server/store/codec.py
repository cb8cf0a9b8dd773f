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

_LEVEL = 6


def dump(value: dict[str, Any]) -> str:
    """JSON text."""
    return orjson.dumps(value).decode()


def load(text: str) -> dict[str, Any]:
    """What `dump` was given."""
    value: dict[str, Any] = orjson.loads(text)
    return value


def pack(events: Sequence[dict[str, Any]]) -> bytes:
    """Events, deflated."""
    return zlib.compress(orjson.dumps(events), _LEVEL)


def unpack(body: bytes) -> list[dict[str, Any]]:
    """What `pack` was given."""
    events: list[dict[str, Any]] = orjson.loads(zlib.decompress(body))
    return events


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
