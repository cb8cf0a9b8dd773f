"""Pages of stored items in a database.

The ids of all items are read, and then the items of the page only.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from sqlalchemy import Column, ColumnElement, Table, select
from sqlalchemy.ext.asyncio import AsyncConnection

from server import threads
from server.store import codec, rows
from server.store.database import Database
from server.store.items import Item
from server.store.lists import ListQuery, Page, fitting, page_in_memory
from server.store.tables import conversation_items, items

_MOST_SMALL = 500  # items among which a page is found in half a millisecond


class Located(NamedTuple):
    """Where an item is: the table that has it, and its place there. item_id: the stored form."""

    table: Table
    place: int
    item_id: str


async def read_page(database: Database, located: Sequence[Located], query: ListQuery) -> Page[Item]:
    """The page of the items, of which the oldest is the first. Items that are gone are left out."""
    if query.after is not None:
        query = replace(query, after=rows.key(query.after))
    find = partial(page_in_memory, located, query, lambda each: each.item_id, mixed=True)
    page = await threads.run(find, threads.counted(len(located), _MOST_SMALL))
    async with database.reading() as connection:
        sizes = await _values(connection, page.entries, lambda item: database.size_of(item))
        there = [each for each in page.entries if each in sizes]
        page = fitting(Page(there, page.has_more), lambda each: sizes[each])
        texts = await _values(connection, page.entries, lambda item: item)
    return Page(await codec.load_all([texts[each] for each in page.entries]), page.has_more)


async def _values(
    connection: AsyncConnection,
    wanted: Sequence[Located],
    value: Callable[[Column[str]], ColumnElement[Any]],
) -> dict[Located, Any]:
    """A value of the column `item` of each of the items that are there."""
    found: dict[Located, Any] = {}
    for table in (conversation_items, items):
        by_place = {each.place: each for each in wanted if each.table is table}
        of_items = select(table.c.place, value(table.c.item)).where(table.c.place.in_(by_place))
        for place, each in await connection.execute(of_items) if by_place else ():
            found[by_place[place]] = each
    return found
