"""Stored chat completions in a database."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from sqlalchemy import ColumnElement, Select, delete, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from server.store import codec, rows
from server.store.chat_completions.base import ListFilter, ListPage, StoredChatCompletion
from server.store.database import Database
from server.store.items import SampledMessages
from server.store.pages import select_page
from server.store.tables import chat_calls, chat_completions, chat_messages, chat_metadata


class SqlChatCompletions:
    """The chat completions of all gateways that share the database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def put(self, stored: StoredChatCompletion) -> None:
        """Insert the completion, its metadata and the messages up to its calls."""
        row = {
            "id": stored.id,
            "owner": stored.owner,
            "created_at": self._database.clock,
            "model": stored.completion["model"],
            "body": codec.dump(stored.completion),
            "messages": await codec.pack(stored.messages),
        }
        messages, calls = await rows.turns(stored.id, stored.turns)
        async with self._database.writing() as connection:
            new = self._database.insert(chat_completions).values(row)
            if (await connection.execute(new.on_conflict_do_nothing())).rowcount == 0:
                return  # An earlier attempt was committed, but its acknowledgement was lost.
            await _insert_metadata(connection, stored.id, stored.completion["metadata"])
            await rows.insert_all(connection, chat_messages, messages)
            await rows.insert_all(connection, chat_calls, calls)

    async def get(self, owner: str, completion_id: str) -> StoredChatCompletion | None:
        """Read the completion and its messages, without `turns`."""
        async with self._database.reading() as connection:
            row = (await connection.execute(_one(owner, completion_id))).first()
        return None if row is None else await _stored(row)

    async def list(self, owner: str, query: ListFilter) -> ListPage:
        """List in the order of insertion."""
        async with self._database.reading() as connection:
            page = await select_page(connection, chat_completions, owner, query, *_matches(query))
            page = page.with_only_columns(chat_completions.c.body)
            bodies = (await connection.execute(page)).scalars().all()
        completions = await codec.load_all(bodies[: query.limit])
        return ListPage(completions, has_more=len(bodies) > query.limit)

    async def annotate(
        self, owner: str, completion_id: str, metadata: Mapping[str, str]
    ) -> StoredChatCompletion | None:
        """Replace the metadata, in the body and in its table."""
        async with self._database.writing() as connection:
            # Locked, so that nobody deletes it before its new metadata is there.
            one = _one(owner, completion_id).with_for_update()
            row = (await connection.execute(one)).first()
            if row is None:
                return None
            stored = await _stored(row)
            changed = {**stored.completion, "metadata": dict(metadata)}
            await connection.execute(
                update(chat_completions)
                .where(chat_completions.c.place == row.place)
                .values(body=codec.dump(changed))
            )
            old = delete(chat_metadata).where(chat_metadata.c.completion_id == row.id)
            await connection.execute(old)
            await _insert_metadata(connection, row.id, metadata)
        return StoredChatCompletion(owner, changed, stored.messages)

    async def delete(self, owner: str, completion_id: str) -> bool:
        """Delete it; its metadata and calls go by cascade."""
        statement = delete(chat_completions).where(_is(owner, completion_id))
        async with self._database.writing() as connection:
            return (await connection.execute(statement)).rowcount > 0

    async def messages_up_to_call(
        self, owner: str, call_ids: Collection[str]
    ) -> Mapping[str, SampledMessages]:
        """Read the messages of each turn once, whatever its calls."""
        keys = {rows.key(name): name for name in call_ids}
        of_owner = (
            select(chat_calls.c.call_id, chat_calls.c.turn, chat_calls.c.length)
            .join(chat_completions, chat_completions.c.id == chat_calls.c.completion_id)
            .where(chat_completions.c.owner == owner)
        )
        order = (chat_messages.c.turn, chat_messages.c.position)
        calls: list[Any] = []
        found: list[Any] = []
        async with self._database.reading() as connection:
            for batch in rows.in_batches(keys):
                named = of_owner.where(chat_calls.c.call_id.in_(batch))
                calls += await rows.read(connection, named)
            for batch in rows.in_batches({call.turn for call in calls}):
                of_turns = select(chat_messages).where(chat_messages.c.turn.in_(batch))
                found += await rows.read(connection, of_turns.order_by(*order))
        turns = await rows.messages_by_turn(found)
        return {keys[call.call_id]: turns[call.turn][: call.length] for call in calls}

    async def sweep(self, age: float) -> int:
        """Delete completions older than `age` seconds; return their number."""
        old = chat_completions.c.created_at < self._database.clock - age
        async with self._database.writing() as connection:
            return (await connection.execute(delete(chat_completions).where(old))).rowcount


async def _insert_metadata(
    connection: AsyncConnection, completion_id: str, metadata: Mapping[str, str]
) -> None:
    labels = [
        {"completion_id": completion_id, "key": key, "value": value}
        for key, value in metadata.items()
    ]
    if labels:
        await connection.execute(insert(chat_metadata), labels)


def _is(owner: str, completion_id: str) -> ColumnElement[bool]:
    columns = chat_completions.c
    return (columns.id == rows.key(completion_id)) & (columns.owner == owner)


def _one(owner: str, completion_id: str) -> Select[Any]:
    return select(chat_completions).where(_is(owner, completion_id))


def _matches(query: ListFilter) -> Iterator[ColumnElement[bool]]:
    columns = chat_completions.c
    if query.model is not None:
        yield columns.model == query.model
    for key, value in query.metadata.items():
        label = select(chat_metadata.c.key).where(
            chat_metadata.c.completion_id == columns.id,
            chat_metadata.c.key == key,
            chat_metadata.c.value == value,
        )
        yield label.exists()


async def _stored(row: Any) -> StoredChatCompletion:
    messages = await codec.unpack([row.messages])
    (completion,) = await codec.load_all([row.body])
    return StoredChatCompletion(row.owner, completion, tuple(messages))
