"""Reads pages of an owner's rows, and the first items of conversations and responses."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Column, ColumnElement, Table, false, func, select, tuple_
from sqlalchemy.ext.asyncio import AsyncConnection

from server.ids import bounds
from server.store import rows
from server.store.lists import MAX_FIRST_ITEM, ListQuery, Page, fitting

BY_INSERTION = ("place",)
"""The columns of the order of insertion."""
BY_TIME = ("created_at", "id")
"""The columns of the order of creation: the id decides between equal times."""


async def read_rows(
    connection: AsyncConnection,
    table: Table,
    owner: str,
    query: ListQuery,
    *conditions: ColumnElement[bool],
    columns: Sequence[ColumnElement[Any]] | None = None,
    by: tuple[str, ...] = BY_INSERTION,
    through: Table | None = None,
) -> Page[Any]:
    """Read the page of the owner's rows that meet the conditions.

    table: has the columns `id` and `owner`, and those of `by`, which order it. columns: what is
    read of each row; None for all. through: another table with copies of `owner` and `by`, which a
    condition joins, and whose index finds the rows in their order. `query.after` may be an id of
    `new_id` that has been deleted; the page is empty for other ids that are unknown.
    """
    listed = table if through is None else through
    places = [listed.c[name] for name in by]
    statement = select(*(table.c if columns is None else columns))
    statement = statement.where(listed.c.owner == owner, *conditions)
    if query.after is not None:
        cursor = _Cursor(connection, table, owner, query.after, [table.c[name] for name in by])
        ascending = query.order == "asc"
        statement = statement.where(await cursor.rows_after(tuple_(*places), ascending=ascending))
    order = places if query.order == "asc" else [place.desc() for place in places]
    # One row more than the page has tells whether more follow.
    statement = statement.order_by(*order).limit(query.limit + 1)
    found = await rows.read(connection, statement)
    return Page(found[: query.limit], len(found) > query.limit)


async def read_bodies(
    connection: AsyncConnection,
    table: Table,
    owner: str,
    query: ListQuery,
    *conditions: ColumnElement[bool],
    size: ColumnElement[int],
    by: tuple[str, ...] = BY_INSERTION,
    through: Table | None = None,
) -> Page[tuple[str, str]]:
    """Read the ids and bodies of a page, which may end early: see `fitting`.

    size: the bytes of the table's column `body`. The other parameters are those of `read_rows`.
    """
    columns = table.c.id, size
    found = await read_rows(
        connection, table, owner, query, *conditions, columns=columns, by=by, through=through
    )
    page = fitting(found, lambda row: int(row[1]))
    ids = [row.id for row in page.entries]
    bodies = select(table.c.id, table.c.body).where(table.c.id.in_(ids))
    texts = {row.id: row.body for row in await connection.execute(bodies)}
    return Page([(each, texts[each]) for each in ids], page.has_more)


async def read_first_items(
    connection: AsyncConnection,
    parent: Column[str],
    ids: Collection[str],
    *conditions: ColumnElement[bool],
) -> dict[str, str]:
    """Read the JSON of the first item of each conversation or response, by its id.

    parent: the column of a table of items that refers to this id. conditions: those that the items
    meet. Items over MAX_FIRST_ITEM are left out.
    """
    columns = parent.table.c
    (reference,) = parent.foreign_keys
    own = reference.column
    # One look-up for each id, which does not read its other items, thousands perhaps.
    first = select(func.min(columns.place)).where(parent == own, *conditions)
    places = select(first.correlate(own.table).scalar_subquery()).where(own.in_(ids))
    statement = select(parent, columns.item).where(
        columns.place.in_(places), func.length(columns.item) <= MAX_FIRST_ITEM
    )
    return {row[0]: row.item for row in await connection.execute(statement)}


@dataclass(frozen=True, slots=True)
class _Cursor:
    """The id before a page, in the order of the columns."""

    connection: AsyncConnection
    table: Table
    owner: str
    id: str
    columns: Sequence[Column[Any]]

    async def rows_after(self, row: ColumnElement[Any], *, ascending: bool) -> ColumnElement[bool]:
        """The condition for rows after the cursor's, or after the place where it was.

        row: the columns in a row of the list, which may be copies of the table's.
        """
        column = self.table.c.id
        place = await self._first(column == rows.key(self.id))
        if place is not None:
            return row > place if ascending else row < place
        if (ids := bounds(self.id)) is None:
            return false()
        lower, upper = ids
        newer = await self._first(column > self.id, column < upper)
        if newer is not None:
            return row >= newer if ascending else row < newer
        older = await self._first(column < self.id, column > lower, last=True)
        return false() if ascending or older is None else row <= older

    async def _first(
        self, *conditions: ColumnElement[bool], last: bool = False
    ) -> ColumnElement[Any] | None:
        """The values of the columns in the first or last of the owner's rows; None without one."""
        statement = select(*self.columns).where(self.table.c.owner == self.owner, *conditions)
        order = [column.desc() if last else column for column in self.columns]
        found = (await self.connection.execute(statement.order_by(*order).limit(1))).first()
        types = [column.type for column in self.columns]
        return None if found is None else tuple_(*found, types=types)
