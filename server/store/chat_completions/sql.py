"""Stored chat completions in a database."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import Column, ColumnElement, Select, delete, func, insert, select, tuple_, update
from sqlalchemy.ext.asyncio import AsyncConnection

from server.store import codec, rows
from server.store.batches import change_in_batches
from server.store.chat_completions.base import (
    NO_METADATA,
    Completion,
    Message,
    StoredChatCompletion,
)
from server.store.database import Database
from server.store.items import SampledTurn, UpToCalls
from server.store.lists import ListQuery, Page
from server.store.pages import read_bodies
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
            "body": await codec.dump_large(stored.completion),
            "messages": await codec.pack(stored.messages),
        }
        messages, calls = await rows.turns(stored.id, stored.turns)
        async with self._database.writing() as connection:
            new = self._database.insert(chat_completions).values(row)
            new = new.on_conflict_do_nothing()
            place = await connection.scalar(new.returning(chat_completions.c.place))
            if place is None:
                return  # An earlier attempt was committed, but its acknowledgement was lost.
            labelled = {"completion_id": stored.id, "owner": stored.owner, "place": place}
            await _insert_metadata(connection, labelled, stored.completion["metadata"])
            await rows.insert_all(connection, chat_messages, messages)
            await rows.insert_all(connection, chat_calls, calls)

    async def get(self, owner: str, completion_id: str) -> Completion | None:
        """Read the completion alone."""
        row = await self._database.first(_one(owner, completion_id, chat_completions.c.body))
        return None if row is None else (await codec.load_all([row.body]))[0]

    async def messages(self, owner: str, completion_id: str) -> Sequence[Message] | None:
        """Read the messages alone."""
        row = await self._database.first(_one(owner, completion_id, chat_completions.c.messages))
        return None if row is None else await codec.unpack([row.messages])

    async def list(
        self,
        owner: str,
        query: ListQuery,
        *,
        model: str | None = None,
        metadata: Mapping[str, str] = NO_METADATA,
    ) -> Page[Completion]:
        """List in the order of insertion."""
        matches, size = _matches(model, metadata), self._database.size_of(chat_completions.c.body)
        through = chat_metadata if metadata else None
        async with self._database.reading() as connection:
            page = await read_bodies(
                connection, chat_completions, owner, query, *matches, size=size, through=through
            )
        completions = await codec.load_all([body for _, body in page.entries])
        return Page(completions, page.has_more)

    async def annotate(
        self, owner: str, completion_id: str, metadata: Mapping[str, str]
    ) -> Completion | None:
        """Replace the metadata, in the body and in its table.

        The body is made before the transaction, which others wait for. If it is another one then,
        it is made again.
        """
        columns = chat_completions.c
        query = _one(owner, completion_id, columns.place, columns.id, columns.body)
        while (row := await self._database.first(query)) is not None:
            (completion,) = await codec.load_all([row.body])
            changed = {**completion, "metadata": dict(metadata)}
            body = await codec.dump_large(changed)
            unchanged = (columns.place == row.place) & (columns.body == row.body)
            async with self._database.writing() as connection:
                new = update(chat_completions).where(unchanged).values(body=body)
                if (await connection.execute(new)).rowcount == 0:
                    continue
                old = delete(chat_metadata).where(chat_metadata.c.completion_id == row.id)
                await connection.execute(old)
                labelled = {"completion_id": row.id, "owner": owner, "place": row.place}
                await _insert_metadata(connection, labelled, metadata)
            return changed
        return None

    async def delete(self, owner: str, completion_id: str) -> bool:
        """Delete it; its metadata and calls go by cascade."""
        is_it = rows.is_of(chat_completions, owner, completion_id)
        return await self._database.change(delete(chat_completions).where(is_it)) > 0

    async def messages_up_to_call(self, owner: str, call_ids: Collection[str]) -> UpToCalls:
        """Read the messages of each turn once, whatever its calls."""
        keys = {rows.key(name): name for name in call_ids}
        columns = chat_calls.c
        of_owner = select(columns.call_id, columns.turn, columns.length).where(
            rows.in_owned(columns.completion_id, chat_completions, owner)
        )
        turn = chat_messages.c.turn
        messages = select(chat_messages).order_by(turn, chat_messages.c.position)
        async with self._database.reading() as connection:
            calls = await rows.read_among(connection, of_owner, columns.call_id, keys)
            found = await rows.read_among(connection, messages, turn, {call.turn for call in calls})
        turns = await rows.messages_by_turn(found)
        named = ((keys[call.call_id], call) for call in calls)
        return UpToCalls(
            {name: SampledTurn(turns[call.turn], {name: call.length}) for name, call in named}
        )

    async def sweep(self, age: float) -> int:
        """Delete completions older than `age` seconds; return their number."""
        columns = chat_completions.c
        return await change_in_batches(
            self._database,
            select(columns.place).where(columns.created_at < self._database.clock - age),
            lambda places: delete(chat_completions).where(columns.place.in_(places)),
        )


async def _insert_metadata(
    connection: AsyncConnection, completion: Mapping[str, Any], metadata: Mapping[str, str]
) -> None:
    labels = [{**completion, "key": key, "value": value} for key, value in metadata.items()]
    if labels:
        await connection.execute(insert(chat_metadata), labels)


def _one(owner: str, completion_id: str, *columns: Column[Any]) -> Select[Any]:
    return select(*columns).where(rows.is_of(chat_completions, owner, completion_id))


def _matches(model: str | None, metadata: Mapping[str, str]) -> Iterator[ColumnElement[bool]]:
    columns = chat_completions.c
    if model is not None:
        yield columns.model == model
    if metadata:
        # The index finds completions with one label; a long one is likely to be rare.
        key = max(metadata, key=lambda name: len(metadata[name]))
        yield chat_metadata.c.key == key
        yield chat_metadata.c.value == metadata[key]
        yield chat_metadata.c.place == columns.place
    if len(metadata) > 1:
        # One subquery for all labels: one for each of 16 takes PostgreSQL 0.2 s to plan.
        labels = chat_metadata.alias()
        count = select(func.count()).where(
            labels.c.completion_id == chat_metadata.c.completion_id,
            tuple_(labels.c.key, labels.c.value).in_(metadata.items()),
        )
        yield count.correlate(chat_metadata).scalar_subquery() == len(metadata)
