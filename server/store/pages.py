"""Pages of an owner's rows."""

from typing import Any, Literal, Protocol

from sqlalchemy import ColumnElement, Select, Table, select, tuple_

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

    table: has the columns `id` and `owner`, and those of `by`, which order it. The page is empty if
    `after` is unknown.
    """
    ascending = query.order == "asc"
    columns = [table.c[name] for name in by]
    statement = select(table).where(table.c.owner == owner, *conditions)
    if query.after is not None:
        other = table.alias()
        is_after = (other.c.id == rows.key(query.after)) & (other.c.owner == owner)
        after = tuple_(*(select(other.c[name]).where(is_after).scalar_subquery() for name in by))
        row = tuple_(*columns)
        statement = statement.where(row > after if ascending else row < after)
    order = columns if ascending else [column.desc() for column in columns]
    return statement.order_by(*order).limit(query.limit + 1)
