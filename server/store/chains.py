"""Chains of responses: each row references the response that it continues, to store items once."""

from typing import Any

from sqlalchemy import delete, exists, literal, select
from sqlalchemy.ext.asyncio import AsyncConnection

from server.store import codec, rows
from server.store.responses.base import StoredItem, StoredResponse
from server.store.tables import INPUT, conversation_items, items, responses, runs


async def load(connection: AsyncConnection, row: Any) -> StoredResponse:
    """Return the response of a row of `responses`, with its whole history."""
    history: list[StoredItem] = []
    inputs: list[StoredItem] = []
    outputs: list[StoredItem] = []
    chain = (await connection.execute(_chain_with_items(row.id))).all()
    for item in chain:
        if item.item is None:
            continue
        side = history if item.depth else inputs if item.side == INPUT else outputs
        side.append(rows.stored_item(item))
    before = await _of_conversation(connection, chain[0] if chain else row)
    body = codec.load(row.body)
    return StoredResponse(
        owner=row.owner,
        response=body | {"output": [stored.item for stored in outputs]},
        start_date=row.start_date,
        history=(*before, *history),
        input=tuple(inputs),
        output=tuple(outputs),
        read_position=row.seen,
        detached=row.previous_id is None and body.get("previous_response_id") is not None,
        tool_state=rows.load_tool_state(row.tool_state),
    )


async def prune(connection: AsyncConnection, response_id: str) -> None:
    """Remove a deleted response without continuations, and then its deleted predecessors."""
    link: str | None = response_id
    while link is not None:
        # PostgreSQL waits here for those who continue it now, so that the next statement sees what
        # they insert. Otherwise it would delete the row, and fail at the reference to it.
        locked = select(responses.c.id).where(responses.c.id == link, responses.c.deleted)
        if (await connection.execute(locked.with_for_update())).first() is None:
            return
        removed = await connection.execute(
            delete(responses)
            .where(responses.c.id == link, *_is_prunable())
            .returning(responses.c.previous_id)
        )
        row = removed.first()
        link = None if row is None else row.previous_id


async def prune_some(connection: AsyncConnection, most: int) -> int:
    """Remove up to `most` deleted responses without continuations; return their number."""
    prunable = select(responses.c.id).where(*_is_prunable()).limit(most)
    return (
        await connection.execute(delete(responses).where(responses.c.id.in_(prunable)))
    ).rowcount


def _is_prunable() -> tuple[Any, ...]:
    later = responses.alias()
    return (
        responses.c.deleted,
        ~exists().where(later.c.previous_id == responses.c.id).correlate(responses),
        ~exists().where(runs.c.response_id == responses.c.id).correlate(responses),
    )


def _links(response_id: str) -> Any:
    link = responses.c
    columns = (link.id, link.previous_id, link.conversation_id, link.seen)
    chain = (
        select(*columns, literal(0).label("depth"))
        .where(link.id == response_id)
        .cte("chain", recursive=True)
    )
    return chain.union_all(
        select(*columns, chain.c.depth + 1).join(chain, link.id == chain.c.previous_id)
    )


def _chain_with_items(response_id: str) -> Any:
    """The chain's items, from its first response on. A response without items has one row, too."""
    chain = _links(response_id)
    return (
        select(items, chain.c.depth, chain.c.conversation_id, chain.c.seen)
        .select_from(chain.outerjoin(items, items.c.response_id == chain.c.id))
        .order_by(chain.c.depth.desc(), items.c.place)
    )


async def _of_conversation(connection: AsyncConnection, first: Any) -> list[StoredItem]:
    """The items of its conversation that a chain's first response had read; empty without one."""
    if first.conversation_id is None or first.seen is None:
        return []
    read = (
        select(conversation_items)
        .where(
            conversation_items.c.conversation_id == first.conversation_id,
            conversation_items.c.place <= first.seen,
        )
        .order_by(conversation_items.c.place)
    )
    return [rows.stored_item(row) for row in await connection.execute(read)]
