"""Chains of responses: each row names the one that it continues, so that none is kept twice."""

from typing import Any

from sqlalchemy import delete, exists, literal, select
from sqlalchemy.ext.asyncio import AsyncConnection

from server.store import codec, rows
from server.store.responses.base import StoredItem, StoredResponse
from server.store.tables import INPUT, conversation_items, items, responses, runs


async def load(connection: AsyncConnection, row: Any) -> StoredResponse:
    """The response of a row of `responses`, with all that came before it."""
    history: list[StoredItem] = []
    given: list[StoredItem] = []
    made: list[StoredItem] = []
    chained = (await connection.execute(_items_of_chain(row.id))).all()
    for found in chained:
        side = history if found.depth else given if found.side == INPUT else made
        side.append(rows.stored_item(found))
    before = await _of_conversation(connection, chained[0] if chained else row)
    body = codec.load(row.body)
    return StoredResponse(
        owner=row.owner,
        response=body | {"output": [stored.item for stored in made]},
        start_date=row.start_date,
        history=(*before, *history),
        input=tuple(given),
        output=tuple(made),
        read_position=row.seen,
        detached=row.previous_id is None and body.get("previous_response_id") is not None,
    )


async def prune(connection: AsyncConnection, response_id: str) -> None:
    """Remove a deleted response on which nothing hangs, and what hung on nothing but it."""
    link: str | None = response_id
    while link is not None:
        removed = await connection.execute(
            delete(responses)
            .where(responses.c.id == link, *_loose())
            .returning(responses.c.previous_id)
        )
        row = removed.first()
        link = None if row is None else row.previous_id


async def prune_some(connection: AsyncConnection, most: int) -> int:
    """Remove up to `most` deleted responses on which nothing hangs; how many there were."""
    loose = select(responses.c.id).where(*_loose()).limit(most)
    return (await connection.execute(delete(responses).where(responses.c.id.in_(loose)))).rowcount


def _loose() -> tuple[Any, ...]:
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


def _items_of_chain(response_id: str) -> Any:
    chain = _links(response_id)
    return (
        select(items, chain.c.depth, chain.c.conversation_id, chain.c.seen)
        .join(chain, items.c.response_id == chain.c.id)
        .order_by(chain.c.depth.desc(), items.c.place)
    )


async def _of_conversation(connection: AsyncConnection, first: Any) -> list[StoredItem]:
    """What a chain's first response had read of its conversation, where it belongs to one."""
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
