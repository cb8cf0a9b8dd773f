"""Converts stored objects to rows and back."""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby, islice
from typing import Any

from sqlalchemy import Column, ColumnElement, Select, Table, exists, insert
from sqlalchemy.ext.asyncio import AsyncConnection

from server import threads
from server.store import codec
from server.store.items import Item, SampledMessages, SampledTurn, StoredItem, ToolState
from server.store.responses.base import Event, StoredResponse

_LONGEST_KEY = 64
_MOST_KEYS = 10_000
_BATCH_EVENTS = 1000  # parsed in half a millisecond
_MOST_TOKENS = 512  # deflated in about 0.15 ms
_MOST_JSON = 1 << 19  # characters, serialized or read in about 0.15 ms
_MOST_INFLATED = 2_560  # bytes of deflated token ids, inflated in about 0.1 ms
_MOST_DECODED = 32  # items, read in about 0.2 ms
_MOST_ROWS = 500  # that a driver hands over, or takes, in a few milliseconds


def in_batches(keys: Iterable[str]) -> Iterator[list[str]]:
    """Yield the keys in batches that every driver accepts in one statement."""
    remaining = iter(keys)
    while batch := list(islice(remaining, _MOST_KEYS)):
        yield batch


async def read_among(
    connection: AsyncConnection, query: Select[Any], column: Column[str], keys: Iterable[str]
) -> list[Any]:
    """Return the rows of a query whose column has one of the keys, however many these are."""
    return [
        row
        for batch in in_batches(keys)
        for row in await read(connection, query.where(column.in_(batch)))
    ]


def is_of(table: Table, owner: str, name: str) -> ColumnElement[bool]:
    """The condition for the owner's row with this id."""
    return (table.c.id == key(name)) & (table.c.owner == owner)


def in_owned(
    column: Column[str], parent: Table, owner: str, *conditions: ColumnElement[bool]
) -> ColumnElement[bool]:
    """The condition for rows whose column has the id of a row of `parent` that the owner has.

    conditions: those that the row of `parent` meets. With a join, SQLite, which has no statistics,
    would look for more than a few ids among all that the owner has stored.
    """
    return exists().where(parent.c.id == column, parent.c.owner == owner, *conditions)


def key(name: str) -> str:
    """Return the stored form of an id. Clients choose items' ids: unusual ones become digests."""
    if len(name) <= _LONGEST_KEY and name.isascii() and name.isprintable():
        return name
    return f"sha256:{hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()}"


def body(stored: StoredResponse) -> dict[str, Any]:
    """Return the API's object without its output, which is stored as items."""
    return {name: value for name, value in stored.response.items() if name != "output"}


def response(stored: StoredResponse) -> dict[str, Any]:
    """Return the row of a response, without `created_at`."""
    return {
        "id": stored.id,
        "owner": stored.owner,
        "previous_id": None if stored.detached else stored.response.get("previous_response_id"),
        "conversation_id": stored.conversation_id,
        "seen": stored.read_position,
        "start_date": stored.start_date,
        "body": codec.dump(body(stored)),
        "tool_state": tool_state(stored.tool_state),
    }


def tool_state(state: ToolState) -> str | None:
    """Return the column with the state of hosted tools; None where there is none."""
    return codec.dump(dict(state)) if state else None


def load_tool_state(column: str | None) -> ToolState:
    """Return the state that `tool_state` received."""
    return {} if column is None else codec.load(column)


async def items(
    response_id: str, side: int, stored_items: Sequence[StoredItem]
) -> list[dict[str, Any]]:
    """Return the rows of a response's input or output; large ones are built on a thread."""

    def row(stored: StoredItem) -> dict[str, Any]:
        own = {"response_id": response_id, "side": side, "call_id": _call_id(stored.item)}
        return {**own, **item(stored)}

    return await _built(row, stored_items)


async def conversation_items(
    conversation_id: str, stored_items: Sequence[StoredItem]
) -> list[dict[str, Any]]:
    """Return the rows of a conversation's items; large ones are built on a thread."""
    own = {"conversation_id": conversation_id}
    return await _built(lambda stored: {**own, **item(stored)}, stored_items)


async def _built(
    row: Callable[[StoredItem], dict[str, Any]], stored_items: Sequence[StoredItem]
) -> list[dict[str, Any]]:
    tokens = (each.message.tokens or () for each in stored_items if each.message is not None)
    values = [[each.item, each.result and each.result.content] for each in stored_items]
    of_tokens = threads.counted(sum(map(len, tokens)), _MOST_TOKENS)
    of_values = threads.counted(threads.cost(values, _MOST_JSON), _MOST_JSON)
    return await threads.run(lambda: [*map(row, stored_items)], max(of_tokens, of_values))


def item(stored: StoredItem) -> dict[str, Any]:
    """Return the columns that items have in each table of items."""
    message = stored.message
    return {
        "item_id": key(stored.item["id"]),
        "item": codec.dump(stored.item),
        "message": codec.dump_message(message),
        "tokens": None if message is None else codec.pack_tokens(message.tokens),
        "result": codec.dump_message(stored.result),
    }


async def read(connection: AsyncConnection, query: Select[Any]) -> list[Any]:
    """Return the rows of a query. Other work runs between parts of a long result."""
    async with connection.stream(query) as result:
        return [row async for part in result.partitions(_MOST_ROWS) for row in part]


async def insert_all(
    connection: AsyncConnection, table: Table, values: Sequence[Mapping[str, Any]]
) -> None:
    """Insert rows. Other work runs between parts of a long list."""
    for first in range(0, len(values), _MOST_ROWS):
        await connection.execute(insert(table), values[first : first + _MOST_ROWS])


async def stored_items(found: Sequence[Any]) -> tuple[StoredItem, ...]:
    """Return the items of rows; many or large ones are read on a thread."""
    return await threads.run(lambda: tuple(map(stored_item, found)), size_of(found))


def size_of(found: Sequence[Any]) -> threads.Size:
    """Return the size of work with the items of rows. A row may have no item."""
    if len(found) > _MOST_DECODED:
        return threads.Size.MEDIUM
    texts = [text for row in found for text in (row.item, row.message, row.result) if text]
    deflated = [row.tokens for row in found if row.tokens]
    of_texts = threads.counted(sum(map(len, texts)), _MOST_JSON)
    return max(of_texts, threads.counted(sum(map(len, deflated)), _MOST_INFLATED))


def stored_item(row: Any) -> StoredItem:
    """Return the item of a row."""
    message = codec.load_message(row.message, row.tokens)
    return StoredItem(codec.load(row.item), message, codec.load_message(row.result, None))


async def turns(
    completion_id: str, sampled: Sequence[SampledTurn]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the rows of a completion's sampled messages, built on a thread, and of its calls.

    The id of a turn is that of its first call.
    """
    named = [(next(iter(turn.ends)), turn) for turn in sampled]

    def build() -> list[dict[str, Any]]:
        return [
            {
                "turn": name,
                "position": position,
                "completion_id": completion_id,
                "message": codec.dump_message(message),
                "tokens": codec.pack_tokens(message.tokens),
            }
            for name, turn in named
            for position, message in enumerate(turn.messages)
        ]

    calls = [
        {"call_id": call_id, "turn": name, "length": length, "completion_id": completion_id}
        for name, turn in named
        for call_id, length in turn.ends.items()
    ]
    return await threads.run(build, threads.counted(len(sampled), 0)), calls


async def messages_by_turn(found: Sequence[Any]) -> dict[str, SampledMessages]:
    """Return the messages of rows in the order of turns, by the id of the turn."""

    def load() -> dict[str, SampledMessages]:
        return {
            name: tuple(filter(None, (codec.load_message(row.message, row.tokens) for row in own)))
            for name, own in groupby(found, key=lambda row: row.turn)
        }

    return await threads.run(load, threads.counted(len(found), 0))


async def batch(response_id: str, events: Sequence[Event]) -> dict[str, Any]:
    """Return the row of consecutive events, which are numbered from 0 for each response."""
    return {
        "response_id": response_id,
        "first": events[0]["sequence_number"],
        "count": len(events),
        "body": await codec.pack(events),
    }


async def batches(response_id: str, events: Sequence[Event]) -> list[dict[str, Any]]:
    """Return the rows of all events of a response.

    Parsing JSON holds the interpreter's lock, so that the size of a row is limited.
    """
    return [
        await batch(response_id, events[first : first + _BATCH_EVENTS])
        for first in range(0, len(events), _BATCH_EVENTS)
    ]


def _call_id(item: Item) -> str | None:
    call_id = item.get("call_id")
    return key(call_id) if isinstance(call_id, str) else None
