"""Conversations in a database."""

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Select,
    and_,
    delete,
    false,
    func,
    insert,
    or_,
    select,
    update,
)
from sqlalchemy.ext.asyncio import AsyncConnection

from server.store import codec, rows
from server.store.batches import change_in_batches
from server.store.conversations.base import Conversation, ConversationSize, ConversationSnapshot
from server.store.database import Database
from server.store.item_pages import Located, read_page
from server.store.items import Item, StoredItem, ToolState
from server.store.lists import ListEntry, ListPage, ListQuery, Page
from server.store.pages import BY_TIME, read_first_items, read_rows
from server.store.tables import conversation_items, conversations

_COLUMNS = [column for column in conversations.c if column is not conversations.c.tool_state]
"""Those of `_conversation`. The state of tools may be large."""


class SqlConversations:
    """The conversations of all gateways that share the database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def create(self, conversation: Conversation, items: Sequence[StoredItem]) -> None:
        """Insert the conversation and its items."""
        row = {
            "id": conversation.id,
            "owner": conversation.owner,
            "created_at": conversation.created_at,
            "touched_at": self._database.clock,
            "start_date": conversation.start_date,
            "metadata": codec.dump(dict(conversation.metadata)),
        }
        item_rows = await rows.conversation_items(conversation.id, items)
        async with self._database.writing() as connection:
            await connection.execute(insert(conversations).values(row))
            await rows.insert_all(connection, conversation_items, item_rows)

    async def get(self, owner: str, conversation_id: str) -> Conversation | None:
        """Read the conversation's row."""
        row = await self._database.first(_one(owner, conversation_id))
        return None if row is None else _conversation(row)

    async def read(self, owner: str, conversation_id: str) -> ConversationSnapshot | None:
        """Read the conversation and its items in one transaction."""
        async with self._database.reading() as connection:
            whole = _one(owner, conversation_id).add_columns(conversations.c.tool_state)
            row = (await connection.execute(whole)).first()
            if row is None:
                return None
            columns = conversation_items.c
            query = select(conversation_items).where(columns.conversation_id == row.id)
            found = await rows.read(connection, query.order_by(columns.place))
        position = found[-1].place if found else 0
        items = await rows.stored_items(found)
        tool_state = rows.load_tool_state(row.tool_state)
        return ConversationSnapshot(_conversation(row), items, position, tool_state)

    async def size(self, owner: str, conversation_id: str) -> ConversationSize | None:
        """Measure the items where they are."""
        size = self._database.size_of(conversation_items.c.item)
        total = select(func.count(conversation_items.c.place), func.coalesce(func.sum(size), 0))
        found = await self._database.first(
            total.select_from(conversations)
            .outerjoin(conversation_items)
            .where(_is(owner, conversation_id))
            .group_by(conversations.c.id)
        )
        return None if found is None else ConversationSize(found[0], int(found[1]))

    async def find(
        self, owner: str, conversation_id: str, ids: Collection[str], call_ids: Collection[str]
    ) -> Sequence[StoredItem] | None:
        """Read the items in which the text of a call id occurs, and those with one of the ids."""
        columns = conversation_items.c
        texts = (f'"call_id":{codec.dump(call_id)}' for call_id in call_ids)
        contains = partial(self._database.contains, columns.item)
        # Most items have no call id, and are searched once then, not for each id.
        is_of_call = and_(contains('"call_id":'), or_(false(), *map(contains, texts)))
        wanted = or_(columns.item_id.in_(map(rows.key, ids)), is_of_call)
        query = select(conversation_items).where(
            columns.conversation_id == rows.key(conversation_id), wanted
        )
        async with self._database.reading() as connection:
            if (await connection.execute(_one(owner, conversation_id))).first() is None:
                return None
            found = await rows.read(connection, query.order_by(columns.place))
        return await rows.stored_items(found)

    async def page_of_items(
        self, owner: str, conversation_id: str, query: ListQuery
    ) -> Page[Item] | None:
        """Read the ids of all items, and the items of the page."""
        columns = conversation_items.c
        places = select(columns.place, columns.item_id).order_by(columns.place)
        async with self._database.reading() as connection:
            if (await connection.execute(_one(owner, conversation_id))).first() is None:
                return None
            statement = places.where(columns.conversation_id == rows.key(conversation_id))
            found = await rows.read(connection, statement)
        located = [Located(conversation_items, *row) for row in found]
        return await read_page(self._database, located, query)

    async def item(self, owner: str, conversation_id: str, item_id: str) -> Item | None:
        """Read the item's row."""
        columns = conversation_items.c
        row = await self._database.first(
            select(columns.item)
            .join(conversations, conversations.c.id == columns.conversation_id)
            .where(_is(owner, conversation_id), columns.item_id == rows.key(item_id))
            .order_by(columns.place)
            .limit(1)
        )
        return None if row is None else (await codec.load_all([row.item]))[0]

    async def list(self, owner: str, query: ListQuery) -> ListPage:
        """Read the rows of the page, and the first items."""
        async with self._database.reading() as connection:
            page = await read_rows(
                connection, conversations, owner, query, columns=_COLUMNS, by=BY_TIME
            )
            ids = [row.id for row in page.entries]
            texts = await read_first_items(connection, conversation_items.c.conversation_id, ids)
        items = {name: codec.load(text) for name, text in texts.items()}
        entries = [
            ListEntry(_conversation(row).to_api(), items.get(row.id)) for row in page.entries
        ]
        return Page(entries, page.has_more)

    async def annotate(
        self, owner: str, conversation_id: str, metadata: Mapping[str, str]
    ) -> Conversation | None:
        """Replace the metadata."""
        changed = update(conversations).where(_is(owner, conversation_id))
        values = {"metadata": codec.dump(dict(metadata))}
        async with self._database.writing() as connection:
            statement = changed.values(values).returning(*_COLUMNS)
            row = (await connection.execute(statement)).first()
        return None if row is None else _conversation(row)

    async def add(self, owner: str, conversation_id: str, items: Sequence[StoredItem]) -> bool:
        """Append the items."""
        item_rows = await rows.conversation_items(conversation_id, items)
        async with self._database.writing() as connection:
            return await self.add_within(connection, owner, conversation_id, item_rows)

    async def add_within(
        self,
        connection: AsyncConnection,
        owner: str,
        conversation_id: str,
        item_rows: Sequence[Mapping[str, Any]],
        tool_state: ToolState | None = None,
    ) -> bool:
        """Append the items in the caller's transaction; False if there is no conversation.

        item_rows: of `rows.conversation_items`, which are built before the transaction.
        tool_state: replaces the conversation's; None leaves that as it is.
        The conversation's row is locked until the transaction ends, so that the items of one
        transaction have adjacent places.
        """
        values: dict[str, Any] = {"touched_at": self._database.clock}
        if tool_state is not None:
            values["tool_state"] = rows.tool_state(tool_state)
        touched = await connection.execute(
            update(conversations).where(_is(owner, conversation_id)).values(values)
        )
        if touched.rowcount == 0:
            return False
        await rows.insert_all(connection, conversation_items, item_rows)
        return True

    async def remove(self, owner: str, conversation_id: str, item_id: str) -> bool:
        """Delete the item's row."""
        columns = conversation_items.c
        own = select(conversations.c.id).where(_is(owner, conversation_id))
        statement = delete(conversation_items).where(
            columns.conversation_id.in_(own), columns.item_id == rows.key(item_id)
        )
        return await self._database.change(statement) > 0

    async def delete(self, owner: str, conversation_id: str) -> bool:
        """Delete the conversation; its items go by cascade."""
        statement = delete(conversations).where(_is(owner, conversation_id))
        return await self._database.change(statement) > 0

    async def sweep(self, age: float) -> int:
        """Delete conversations without an addition for `age` seconds; return their number."""
        columns = conversations.c
        old = columns.touched_at < self._database.clock - age
        return await change_in_batches(
            self._database,
            select(columns.id).where(old),
            lambda ids: delete(conversations).where(columns.id.in_(ids), old),
        )


def _is(owner: str, conversation_id: str) -> ColumnElement[bool]:
    return rows.is_of(conversations, owner, conversation_id)


def _one(owner: str, conversation_id: str) -> Select[Any]:
    return select(*_COLUMNS).where(_is(owner, conversation_id))


def _conversation(row: Any) -> Conversation:
    metadata: dict[str, Any] = codec.load(row.metadata)
    return Conversation(row.owner, row.id, int(row.created_at), row.start_date, metadata)
