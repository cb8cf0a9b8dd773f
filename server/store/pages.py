"""Pages of an owner's rows."""

from typing import Any, Literal, Protocol

from sqlalchemy import ColumnElement, Select, Table, func, select, tuple_

from server.ids import created
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


def select_page(
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
    ascending = query.order == "asc"
    columns = [table.c[name] for name in by]
    statement = select(table).where(table.c.owner == owner, *conditions)
    if query.after is not None:
        row, after = tuple_(*columns), _after(table, owner, query.after, by, ascending=ascending)
        statement = statement.where(row > after if ascending else row < after)
    order = columns if ascending else [column.desc() for column in columns]
    return statement.order_by(*order).limit(query.limit + 1)


def _after(
    table: Table, owner: str, cursor: str, by: tuple[str, ...], *, ascending: bool
) -> ColumnElement[Any]:
    """The values of the columns `by` in the row of the cursor, or where this row was."""
    other = table.alias()
    is_cursor = (other.c.id == rows.key(cursor)) & (other.c.owner == owner)
    values: list[Any] = [select(other.c[name]).where(is_cursor).scalar_subquery() for name in by]
    moment = created(cursor)
    if moment is None:
        return tuple_(*values)
    if by == BY_TIME:
        instead: list[Any] = [float(moment // 1_000_000), cursor]
    else:
        # Between the last row before it and the first one after it.
        place, same = other.c.place, other.c.owner == owner
        nearest = (
            select(func.min(place) - 1).where(same, other.c.id > cursor)
            if ascending
            else select(func.max(place) + 1).where(same, other.c.id < cursor)
        )
        instead = [nearest.scalar_subquery()]
    return tuple_(*(func.coalesce(*pair) for pair in zip(values, instead, strict=True)))
