"""Pages of stored items in a database.

The ids of all items are read, and then the items of the page only.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from sqlalchemy import Table, select
from sqlalchemy.ext.asyncio import AsyncConnection

from server import threads
from server.store import codec, rows
from server.store.items import Item
from server.store.lists import ListQuery, Page, page_in_memory
from server.store.tables import conversation_items, items

_MOST_SMALL = 500  # items among which a page is found in half a millisecond


class Located(NamedTuple):
    """Where an item is: the table that has it, and its place there. item_id: the stored form."""

    table: Table
    place: int
    item_id: str


async def read_page(
    connection: AsyncConnection, located: Sequence[Located], query: ListQuery
) -> Page[Item]:
    """The page of the items, of which the oldest is the first."""
    if query.after is not None:
        query = replace(query, after=rows.key(query.after))
    find = partial(page_in_memory, located, query, lambda each: each.item_id)
    page = await threads.run(find, small=len(located) <= _MOST_SMALL)
    texts: dict[tuple[str, int], str] = {}
    for table in (conversation_items, items):
        places = [each.place for each in page.entries if each.table is table]
        statement = select(table.c.place, table.c.item).where(table.c.place.in_(places))
        for row in await connection.execute(statement) if places else ():
            texts[table.name, row.place] = row.item
    found = await codec.load_all([texts[each.table.name, each.place] for each in page.entries])
    return Page(found, page.has_more)
