"""Pages of an owner's rows."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from sqlalchemy import Column, ColumnElement, Select, Table, false, select, tuple_
from sqlalchemy.ext.asyncio import AsyncConnection

from server.ids import bounds
from server.store import rows

BY_INSERTION = ("place",)
"""The columns of the order of insertion."""
BY_TIME = ("created_at", "id")
"""The columns of the order of creation: the id decides between equal times."""


class PageQuery(Protocol):
    """What selects a page: see `ListFilter`, `FileFilter` and `ContainerFilter`."""

    @property
    def limit(self) -> int:
        """The most rows, >= 1."""

    @property
    def order(self) -> Literal["asc", "desc"]:
        """The order by time of creation."""

    @property
    def after(self) -> str | None:
        """The id of the row before the page."""


async def select_page(
    connection: AsyncConnection,
    table: Table,
    owner: str,
    query: PageQuery,
    *conditions: ColumnElement[bool],
    by: tuple[str, ...] = BY_INSERTION,
) -> Select[Any]:
    """Return the statement for a page and one row more, which tells whether more rows follow.

    table: has the columns `id` and `owner`, and those of `by`, which order it. `after` may be an id
    of `new_id` that has been deleted; the page is empty for other ids that are unknown.
    """
    columns = [table.c[name] for name in by]
    statement = select(table).where(table.c.owner == owner, *conditions)
    if query.after is not None:
        cursor = _Cursor(connection, table, owner, query.after, columns)
        ascending = query.order == "asc"
        statement = statement.where(await cursor.rows_after(ascending=ascending))
    order = columns if query.order == "asc" else [column.desc() for column in columns]
    return statement.order_by(*order).limit(query.limit + 1)


@dataclass(frozen=True, slots=True)
class _Cursor:
    """The id before a page, in the order of the columns."""

    connection: AsyncConnection
    table: Table
    owner: str
    id: str
    columns: Sequence[Column[Any]]

    async def rows_after(self, *, ascending: bool) -> ColumnElement[bool]:
        """The condition for the rows after the cursor's, or after the place where it was."""
        row, column = tuple_(*self.columns), self.table.c.id
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
