"""The items of stored responses and conversations by their ids, in a database."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from sqlalchemy import Select, Table, func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from server.store import rows
from server.store.database import Database
from server.store.items import StoredItem
from server.store.tables import OUTPUT, conversation_items, conversations, items, responses


async def read_items(
    database: Database, owner: str, ids: Collection[str]
) -> Mapping[str, StoredItem]:
    """The result of `Store.items`."""
    keys = {rows.key(name): name for name in ids}
    if not keys:
        return {}
    async with database.reading() as connection:
        found = await _read(connection, items, _of_responses(owner), keys)
        others = keys.keys() - {row.item_id for row in found}
        found += await _read(connection, conversation_items, _of_conversations(owner), others)
    decoded = await rows.stored_items(found)
    return {keys[row.item_id]: each for row, each in zip(found, decoded, strict=True)}


def _of_responses(owner: str) -> Select[Any]:
    """The places of items in responses: of those with one id an output item, or else the earliest.

    An item that a client repeats in each request is stored once for each of them.
    """
    output = func.min(items.c.place).filter(items.c.side == OUTPUT)
    return (
        select(func.coalesce(output, func.min(items.c.place)))
        .where(rows.in_owned(items.c.response_id, responses, owner, ~responses.c.deleted))
        .group_by(items.c.item_id)
    )


def _of_conversations(owner: str) -> Select[Any]:
    """The places of items in conversations: of those with one id the earliest."""
    columns = conversation_items.c
    return (
        select(func.min(columns.place))
        .where(rows.in_owned(columns.conversation_id, conversations, owner))
        .group_by(columns.item_id)
    )


async def _read(
    connection: AsyncConnection, table: Table, places: Select[Any], keys: Iterable[str]
) -> list[Any]:
    found: list[Any] = []
    for batch in rows.in_batches(keys):
        wanted = places.where(table.c.item_id.in_(batch))
        found += await rows.read(connection, select(table).where(table.c.place.in_(wanted)))
    return found
