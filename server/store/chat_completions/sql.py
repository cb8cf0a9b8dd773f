"""Chat completions in a database."""

from collections.abc import Collection, Mapping
from typing import Any

from sqlalchemy import ColumnElement, Select, delete, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from server.store import codec, rows
from server.store.chat_completions.base import ListFilter, ListPage, StoredChatCompletion
from server.store.database import Database
from server.store.items import SampledMessages
from server.store.tables import chat_calls, chat_completions, chat_metadata


class SqlChatCompletions:
    """Chat completions of all gateways that share the database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def put(self, stored: StoredChatCompletion) -> None:
        """Keep a completion, what finds it, and what its calls were led up to by."""
        row = {
            "id": stored.id,
            "owner": stored.owner,
            "created_at": self._database.clock,
            "model": stored.completion["model"],
            "body": codec.dump(stored.completion),
            "messages": await codec.pack(stored.messages),
        }
        async with self._database.writing() as connection:
            kept = self._database.insert(chat_completions).values(row)
            if (await connection.execute(kept.on_conflict_do_nothing())).rowcount == 0:
                return  # An earlier call was committed, though nobody knew.
            await _label(connection, stored.id, stored.completion["metadata"])
            if calls := _calls(stored):
                await connection.execute(insert(chat_calls), calls)

    async def get(self, owner: str, completion_id: str) -> StoredChatCompletion | None:
        """The completion and its messages; what was said is found by its calls alone."""
        async with self._database.reading() as connection:
            row = (await connection.execute(_one(owner, completion_id))).first()
        return None if row is None else await _stored(row)

    async def list(self, owner: str, wanted: ListFilter) -> ListPage:
        """In the order in which they were put."""
        place = chat_completions.c.place
        page = (
            select(chat_completions.c.body)
            .where(_is_wanted(owner, wanted))
            .order_by(place.asc() if wanted.order == "asc" else place.desc())
            .limit(wanted.limit + 1)
        )
        async with self._database.reading() as connection:
            bodies = (await connection.execute(page)).scalars().all()
        completions = [codec.load(body) for body in bodies[: wanted.limit]]
        return ListPage(completions, has_more=len(bodies) > wanted.limit)

    async def annotate(
        self, owner: str, completion_id: str, metadata: Mapping[str, str]
    ) -> StoredChatCompletion | None:
        """Put other labels in place of those there are."""
        async with self._database.writing() as connection:
            row = (await connection.execute(_one(owner, completion_id))).first()
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
            await _label(connection, row.id, metadata)
        return StoredChatCompletion(owner, changed, stored.messages)

    async def delete(self, owner: str, completion_id: str) -> bool:
        """Forget it, its labels and its calls."""
        its = delete(chat_completions).where(_is(owner, completion_id))
        async with self._database.writing() as connection:
            return (await connection.execute(its)).rowcount > 0

    async def messages_up_to_call(
        self, owner: str, call_ids: Collection[str]
    ) -> Mapping[str, SampledMessages]:
        """What was said up to the owner's calls."""
        keys = {rows.key(name): name for name in call_ids}
        theirs = (
            select(chat_calls)
            .join(chat_completions, chat_completions.c.id == chat_calls.c.completion_id)
            .where(chat_completions.c.owner == owner)
            .order_by(chat_calls.c.call_id, chat_calls.c.position)
        )
        said: dict[str, SampledMessages] = {}
        async with self._database.reading() as connection:
            for some in rows.in_batches(keys):
                for row in await connection.execute(theirs.where(chat_calls.c.call_id.in_(some))):
                    message = codec.load_message(row.message, row.tokens)
                    assert message is not None
                    name = keys[row.call_id]
                    said[name] = (*said.get(name, ()), message)
        return said

    async def sweep(self, age: float) -> int:
        """Forget completions that are older than `age` seconds; how many."""
        old = chat_completions.c.created_at < self._database.clock - age
        async with self._database.writing() as connection:
            return (await connection.execute(delete(chat_completions).where(old))).rowcount


async def _label(
    connection: AsyncConnection, completion_id: str, metadata: Mapping[str, str]
) -> None:
    labels = [
        {"completion_id": completion_id, "key": key, "value": value}
        for key, value in metadata.items()
    ]
    if labels:
        await connection.execute(insert(chat_metadata), labels)


def _calls(stored: StoredChatCompletion) -> list[dict[str, Any]]:
    return [
        {
            "call_id": call_id,
            "position": position,
            "completion_id": stored.id,
            "message": codec.dump_message(message),
            "tokens": codec.pack_tokens(message.tokens),
        }
        for call_id, said in stored.messages_by_call_id.items()
        for position, message in enumerate(said)
    ]


def _is(owner: str, completion_id: str) -> ColumnElement[bool]:
    columns = chat_completions.c
    return (columns.id == rows.key(completion_id)) & (columns.owner == owner)


def _one(owner: str, completion_id: str) -> Select[Any]:
    return select(chat_completions).where(_is(owner, completion_id))


def _is_wanted(owner: str, wanted: ListFilter) -> ColumnElement[bool]:
    columns = chat_completions.c
    found = columns.owner == owner
    if wanted.model is not None:
        found &= columns.model == wanted.model
    for key, value in wanted.metadata.items():
        label = select(chat_metadata.c.key).where(
            chat_metadata.c.completion_id == columns.id,
            chat_metadata.c.key == key,
            chat_metadata.c.value == value,
        )
        found &= label.exists()
    if wanted.after is not None:
        other = chat_completions.alias()
        its = (other.c.id == rows.key(wanted.after)) & (other.c.owner == owner)
        after = select(other.c.place).where(its).scalar_subquery()
        found &= columns.place > after if wanted.order == "asc" else columns.place < after
    return found


async def _stored(row: Any) -> StoredChatCompletion:
    messages = await codec.unpack([row.messages])
    return StoredChatCompletion(row.owner, codec.load(row.body), tuple(messages))
