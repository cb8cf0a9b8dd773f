"""Chains of responses: each row references the response that it continues, to store items once."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from sqlalchemy import Select, delete, exists, literal, select, text
from sqlalchemy.ext.asyncio import AsyncConnection

from server import threads
from server.store import codec, rows
from server.store.item_pages import Located
from server.store.items import StoredItem
from server.store.responses.base import StoredResponse
from server.store.tables import INPUT, conversation_items, items, responses, runs

_MOST_SMALL = 500  # rows that are looked through in half a millisecond
_MOST_PRUNED = 50  # responses that one transaction removes, each in a millisecond

_Items = tuple[StoredItem, ...]


@dataclass(frozen=True, slots=True)
class Chain:
    """Rows, read but not yet decoded: that of a response, of the items of its conversation that
    come before its chain, and of the chain, from its first response on."""

    response: Any
    before: Sequence[Any]
    links: Sequence[Any]


async def read(connection: AsyncConnection, row: Any) -> Chain:
    """Read the whole history of a row of `responses`. `decode` needs no connection."""
    links = await rows.read(connection, _chain_with_items(row.id, items))
    return Chain(row, await _of_conversation(connection, links[0], conversation_items), links)


async def decode(chain: Chain) -> StoredResponse:
    """Return the response of a chain, with its whole history."""
    work = partial(_history_input_output, chain)
    size = rows.size_of([*chain.before, *chain.links])
    history, inputs, output = await threads.run(work, size)
    row = chain.response
    (body,) = await codec.load_all([row.body])
    return StoredResponse(
        owner=row.owner,
        response=body | {"output": [stored.item for stored in output]},
        start_date=row.start_date,
        history=history,
        input=inputs,
        output=output,
        read_position=row.seen,
        detached=row.previous_id is None and body.get("previous_response_id") is not None,
        tool_state=rows.load_tool_state(row.tool_state),
    )


async def read_places(connection: AsyncConnection, row: Any) -> Chain:
    """Read as `read` does, but of each item only its place, its id and its side."""
    columns = (items.c.place, items.c.item_id, items.c.side)
    links = await rows.read(connection, _chain_with_items(row.id, *columns))
    of_conversation = (conversation_items.c.place, conversation_items.c.item_id)
    return Chain(row, await _of_conversation(connection, links[0], *of_conversation), links)


async def locate_input(chain: Chain) -> list[Located]:
    """Where the items of a response's input are, and of its whole history; the oldest first."""

    def locate() -> list[Located]:
        located = [Located(conversation_items, *each) for each in chain.before]
        for place, item_id, side, depth, *_ in chain.links:
            if place is not None and (depth or side == INPUT):
                located.append(Located(items, place, item_id))
        return located

    count = len(chain.before) + len(chain.links)
    return await threads.run(locate, threads.counted(count, _MOST_SMALL))


def _history_input_output(chain: Chain) -> tuple[_Items, ...]:
    """The items of the rows of a chain."""
    history = [rows.stored_item(row) for row in chain.before]
    inputs: list[StoredItem] = []
    outputs: list[StoredItem] = []
    for row in chain.links:
        if row.item is not None:
            side = history if row.depth else inputs if row.side == INPUT else outputs
            side.append(rows.stored_item(row))
    return tuple(history), tuple(inputs), tuple(outputs)


async def prune(connection: AsyncConnection, response_id: str) -> None:
    """Remove a deleted response without continuations, and then its deleted predecessors.

    Of many predecessors the earliest are left to the sweep: other writers wait for this one.
    """
    link = response_id
    for _ in range(_MOST_PRUNED):
        # PostgreSQL waits here for those who continue it now, so that the next statement sees what
        # they insert. Otherwise it would delete the row, and fail at the reference to it.
        locked = select(responses.c.id).where(responses.c.id == link, responses.c.deleted)
        if (await connection.execute(locked.with_for_update())).first() is None:
            return
        removed = await connection.execute(
            delete(responses)
            .where(responses.c.id == link, *is_prunable())
            .returning(responses.c.previous_id)
        )
        row = removed.first()
        if row is None or row.previous_id is None:
            return
        link = row.previous_id


def is_prunable() -> tuple[Any, ...]:
    """The conditions on a row of `responses` under which it can be removed."""
    later = responses.alias()
    return (
        # Spelled as in the index of deleted rows. SQLite does not know that `deleted = 1`, which
        # SQLAlchemy writes for a boolean, means the same, and would read the whole table.
        text("responses.deleted"),
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


def _chain_with_items(response_id: str, *columns: Any) -> Select[Any]:
    """The columns of the chain's items, from its first response on.

    A response without items has one row, too.
    """
    chain = _links(response_id)
    return (
        select(*columns, chain.c.depth, chain.c.conversation_id, chain.c.seen)
        .select_from(chain.outerjoin(items, items.c.response_id == chain.c.id))
        .order_by(chain.c.depth.desc(), items.c.place)
    )


async def _of_conversation(connection: AsyncConnection, first: Any, *columns: Any) -> list[Any]:
    """The columns of its conversation's items that a chain's first response had read.

    Empty without a conversation.
    """
    if first.conversation_id is None or first.seen is None:
        return []
    read = (
        select(*columns)
        .where(
            conversation_items.c.conversation_id == first.conversation_id,
            conversation_items.c.place <= first.seen,
        )
        .order_by(conversation_items.c.place)
    )
    return await rows.read(connection, read)
