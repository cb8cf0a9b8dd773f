"""What is kept, as rows and back."""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

from server import threads
from server.store import codec
from server.store.responses.base import Event, Item, StoredItem, StoredResponse

_LONGEST_KEY = 64
_AT_ONCE = 10_000
_BATCH = 1000  # events that are read in half a millisecond
_MOST_TOKENS = 512  # deflated in some 0.15 ms
_MOST_JSON = 1 << 19  # characters, written in as little


def in_batches(keys: Iterable[str]) -> Iterator[list[str]]:
    """Keys, so many at a time as any driver takes in a statement."""
    left = iter(keys)
    while batch := list(islice(left, _AT_ONCE)):
        yield batch


def key(name: str) -> str:
    """An id as it is kept and looked up. Clients choose items' ids: odd ones become digests."""
    if len(name) <= _LONGEST_KEY and name.isascii() and name.isprintable():
        return name
    return f"sha256:{hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()}"


def body(stored: StoredResponse) -> dict[str, Any]:
    """The API's object without its output, which the items hold."""
    return {name: value for name, value in stored.response.items() if name != "output"}


def response(stored: StoredResponse) -> dict[str, Any]:
    """The row of a response, but for the time."""
    return {
        "id": stored.id,
        "owner": stored.owner,
        "previous_id": None if stored.detached else stored.response.get("previous_response_id"),
        "conversation_id": stored.conversation_id,
        "seen": stored.read_position,
        "start_date": stored.start_date,
        "body": codec.dump(body(stored)),
    }


async def items(response_id: str, side: int, kept: Sequence[StoredItem]) -> list[dict[str, Any]]:
    """The rows of a response's input or output: made on a thread where the model said much."""

    def made() -> list[dict[str, Any]]:
        return [
            {
                "response_id": response_id,
                "side": side,
                "call_id": _call_id(stored.item),
                **item(stored),
            }
            for stored in kept
        ]

    said = (stored.message.tokens or () for stored in kept if stored.message is not None)
    is_small = sum(map(len, said)) <= _MOST_TOKENS and threads.is_small(
        [s.item for s in kept], _MOST_JSON
    )
    return await threads.run(made, small=is_small)


def item(stored: StoredItem) -> dict[str, Any]:
    """The columns that an item has wherever it is kept."""
    message = stored.message
    return {
        "item_id": key(stored.item["id"]),
        "item": codec.dump(stored.item),
        "message": codec.dump_message(message),
        "tokens": None if message is None else codec.pack_tokens(message.tokens),
    }


def stored_item(row: Any) -> StoredItem:
    """What `item` was given."""
    return StoredItem(codec.load(row.item), codec.load_message(row.message, row.tokens))


async def batch(response_id: str, events: Sequence[Event]) -> dict[str, Any]:
    """The row of successive events; they are numbered from 0 for each response."""
    return {
        "response_id": response_id,
        "first": events[0]["sequence_number"],
        "count": len(events),
        "body": await codec.pack(events),
    }


async def batches(response_id: str, events: Sequence[Event]) -> list[dict[str, Any]]:
    """The rows of all events of a response.

    What parses JSON holds the interpreter's lock: no row has so much of it that others would wait.
    """
    return [
        await batch(response_id, events[first : first + _BATCH])
        for first in range(0, len(events), _BATCH)
    ]


def _call_id(item: Item) -> str | None:
    call_id = item.get("call_id")
    return key(call_id) if isinstance(call_id, str) else None
