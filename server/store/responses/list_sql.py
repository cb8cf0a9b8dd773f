"""The list of an owner's responses in a database."""

from typing import Any

from sqlalchemy import ColumnElement, select

from server import threads
from server.store import codec
from server.store.database import Database
from server.store.lists import ListEntry, ListPage, ListQuery, Page
from server.store.pages import BY_TIME, read_first_items, read_rows
from server.store.tables import INPUT, items, responses


async def list_responses(database: Database, owner: str, query: ListQuery) -> ListPage:
    """The page of `Store.list`, without output."""
    columns = (responses.c.id, responses.c.body)
    is_input = items.c.side == INPUT
    async with database.reading() as connection:
        page = await read_rows(
            connection, responses, owner, query, *_listed(), columns=columns, by=BY_TIME
        )
        ids = [row.id for row in page.entries]
        texts = await read_first_items(connection, items.c.response_id, ids, is_input)

    def entries() -> list[ListEntry]:
        return [_entry(row, texts.get(row.id)) for row in page.entries]

    # A body may have large tools and instructions.
    return Page(await threads.run(entries, threads.Size.MEDIUM), page.has_more)


def _listed() -> tuple[ColumnElement[bool], ...]:
    columns, later = responses.c, responses.alias()
    continued = select(later.c.id).where(later.c.previous_id == columns.id, ~later.c.deleted)
    return (~columns.deleted, columns.conversation_id.is_(None), ~continued.exists())


def _entry(row: Any, first: str | None) -> ListEntry:
    return ListEntry(codec.load(row.body), None if first is None else codec.load(first))
