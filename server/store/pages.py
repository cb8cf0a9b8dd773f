"""Pages of an owner's rows, by the order of insertion or by the time of creation."""

from typing import Any, Literal, Protocol

from sqlalchemy import ColumnElement, Select, Table, select, tuple_

from server.store import rows


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
    table: Table, owner: str, query: PageQuery, *conditions: ColumnElement[bool]
) -> Select[Any]:
    """Return the statement for a page and one row more, which tells whether more rows follow.

    table: has the columns `place`, `id` and `owner`. The page is empty if `after` is unknown.
    """
    place = table.c.place
    ascending = query.order == "asc"
    statement = select(table).where(table.c.owner == owner, *conditions)
    if query.after is not None:
        other = table.alias()
        is_after = (other.c.id == rows.key(query.after)) & (other.c.owner == owner)
        after = select(other.c.place).where(is_after).scalar_subquery()
        statement = statement.where(place > after if ascending else place < after)
    return statement.order_by(place.asc() if ascending else place.desc()).limit(query.limit + 1)


def select_page_by_time(
    table: Table, owner: str, query: PageQuery, *conditions: ColumnElement[bool]
) -> Select[Any]:
    """As `select_page`, for a table with `created_at`. The id decides between equal times."""
    row = tuple_(table.c.created_at, table.c.id)
    ascending = query.order == "asc"
    statement = select(table).where(table.c.owner == owner, *conditions)
    if query.after is not None:
        other = table.alias()
        is_after = (other.c.id == rows.key(query.after)) & (other.c.owner == owner)
        time = select(other.c.created_at).where(is_after).scalar_subquery()
        after = tuple_(time, rows.key(query.after))
        statement = statement.where(row > after if ascending else row < after)
    ordered = (
        column if ascending else column.desc() for column in (table.c.created_at, table.c.id)
    )
    return statement.order_by(*ordered).limit(query.limit + 1)
