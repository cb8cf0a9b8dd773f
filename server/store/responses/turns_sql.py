"""The turns of stored responses that end in calls, in a database."""

from collections.abc import Collection, Mapping, Sequence
from itertools import groupby

from sqlalchemy import select

from server.store import rows
from server.store.database import Database
from server.store.items import StoredItem, turns_up_to_calls
from server.store.tables import OUTPUT, items, responses


async def read_turns(
    database: Database, owner: str, call_ids: Collection[str]
) -> Mapping[str, Sequence[StoredItem]]:
    """The result of `Store.turns_up_to_calls`. Each output is read once, whatever its calls."""
    keys = {rows.key(call_id): call_id for call_id in call_ids}
    if not keys:
        return {}
    is_own = rows.in_owned(items.c.response_id, responses, owner, ~responses.c.deleted)
    with_call = select(items.c.response_id).where(items.c.side == OUTPUT, is_own).distinct()
    # The places of a response's items are in their order.
    output = (
        select(items).where(items.c.side == OUTPUT).order_by(items.c.response_id, items.c.place)
    )
    async with database.reading() as connection:
        named = await rows.read_among(connection, with_call, items.c.call_id, keys)
        names = {row.response_id for row in named}
        found = await rows.read_among(connection, output, items.c.response_id, names)
    decoded = await rows.stored_items(found)
    outputs = groupby(zip(found, decoded, strict=True), key=lambda each: each[0].response_id)
    return {
        call_id: turn
        for _, each in outputs
        for call_id, turn in turns_up_to_calls([stored for _, stored in each])
        if rows.key(call_id) in keys
    }
