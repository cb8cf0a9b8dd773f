"""The list of an owner's responses in a database."""

from typing import Any

from sqlalchemy import ColumnElement, Select, func, select

from server import threads
from server.store import codec
from server.store.database import Database
from server.store.lists import MAX_FIRST_ITEM, ListEntry, ListPage, ListQuery, Page
from server.store.pages import BY_TIME, select_page
from server.store.tables import INPUT, items, responses


async def list_responses(database: Database, owner: str, query: ListQuery) -> ListPage:
    """The page of `Store.list`, without output."""
    async with database.reading() as connection:
        page = await select_page(connection, responses, owner, query, *_listed(), by=BY_TIME)
        page = page.with_only_columns(responses.c.id, responses.c.body)
        found = (await connection.execute(page)).all()
        ids = [row.id for row in found[: query.limit]]
        first = (await connection.execute(_first_items(ids))).all()
    texts = {row.response_id: row.item for row in first}

    def entries() -> list[ListEntry]:
        return [_entry(row, texts.get(row.id)) for row in found[: query.limit]]

    # A body may have large tools and instructions.
    return Page(await threads.run(entries, threads.Size.MEDIUM), len(found) > query.limit)


def _listed() -> tuple[ColumnElement[bool], ...]:
    columns, later = responses.c, responses.alias()
    continued = select(later.c.id).where(later.c.previous_id == columns.id, ~later.c.deleted)
    return (~columns.deleted, columns.conversation_id.is_(None), ~continued.exists())


def _first_items(ids: list[str]) -> Select[Any]:
    places = (
        select(func.min(items.c.place))
        .where(items.c.response_id.in_(ids), items.c.side == INPUT)
        .group_by(items.c.response_id)
    )
    return select(items.c.response_id, items.c.item).where(
        items.c.place.in_(places), func.length(items.c.item) <= MAX_FIRST_ITEM
    )


def _entry(row: Any, first: str | None) -> ListEntry:
    return ListEntry(codec.load(row.body), None if first is None else codec.load(first))
