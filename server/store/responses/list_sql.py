"""The list of an owner's responses in a database."""

from sqlalchemy import ColumnElement, select

from server import threads
from server.store import codec
from server.store.database import Database
from server.store.lists import ListEntry, ListPage, ListQuery, Page
from server.store.pages import BY_TIME, read_bodies, read_first_items
from server.store.tables import INPUT, items, responses


async def list_responses(database: Database, owner: str, query: ListQuery) -> ListPage:
    """The page of `Store.list`, without output."""
    size, is_input = database.size_of(responses.c.body), items.c.side == INPUT
    async with database.reading() as connection:
        page = await read_bodies(
            connection, responses, owner, query, *_listed(), size=size, by=BY_TIME
        )
        ids = [response_id for response_id, _ in page.entries]
        texts = await read_first_items(connection, items.c.response_id, ids, is_input)

    def entries() -> list[ListEntry]:
        first = {response_id: codec.load(text) for response_id, text in texts.items()}
        return [ListEntry(codec.load(body), first.get(each)) for each, body in page.entries]

    return Page(await threads.run(entries, threads.Size.MEDIUM), page.has_more)


def _listed() -> tuple[ColumnElement[bool], ...]:
    columns, later = responses.c, responses.alias()
    continued = select(later.c.id).where(later.c.previous_id == columns.id, ~later.c.deleted)
    return (~columns.deleted, columns.conversation_id.is_(None), ~continued.exists())
