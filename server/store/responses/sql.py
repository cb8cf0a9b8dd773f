"""The store in a database: a SQLite file, or PostgreSQL."""

import os
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol

from sqlalchemy import Column, ColumnElement, ScalarSelect, delete, func, insert, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection

from server.ids import new_id
from server.store import chains, codec, rows, vacuum
from server.store.approvals.sql import SqlAnsweredRequests
from server.store.change_signal import ChangeSignal, ChangeSignals
from server.store.chat_completions.sql import SqlChatCompletions
from server.store.containers.sql import SqlContainers
from server.store.conversations.sql import SqlConversations
from server.store.database import Database
from server.store.errors import PreviousNotFound, RunLost
from server.store.filelocks import FileLocks
from server.store.files.sql import SqlFiles
from server.store.item_pages import read_page
from server.store.items import Item, StoredItem
from server.store.lists import ListPage, ListQuery, Page
from server.store.postgres_listener import GATEWAY, PostgresListener
from server.store.postgres_privileges import check_privileges
from server.store.responses.base import CANCELS, Event, Ledger, StoredResponse
from server.store.responses.items_sql import read_items
from server.store.responses.list_sql import list_responses
from server.store.responses.sweep_sql import sweep_responses
from server.store.responses.turns_sql import read_turns
from server.store.sqlalchemy_engine import CONNECTIONS
from server.store.tables import INPUT, OUTPUT, SEAL, events, items, responses, runs, secrets

_SQLITE_POLL_SECONDS = 0.2
_POSTGRES_POLL_SECONDS = 10.0

_CHECK = "check of writes"
"""The name of the row that shows whether the database can be written."""

_CHECK_BYTES = 256 * 1024
"""Its size after a failure: a row of a few bytes may still fit where requests do not."""

Row = dict[str, Any]


class Peers(Protocol):
    """Knows which gateways of the store are alive: each holds a lock that ends with its process."""

    async def start(self) -> None:
        """Acquire this gateway's lock."""
        ...

    async def stop(self) -> None:
        """Release it."""
        ...

    async def ended(self) -> frozenset[str]:
        """Return the ids of gateways that ended without `stop` and may have runs."""
        ...

    def forget(self, gateway: str) -> None:
        """Remove an ended gateway whose runs were taken over."""
        ...


class SqlStore:
    """One gateway's connections to a database that it may share.

    url: `sqlite:///FILE` or `postgresql://…`. Raises ValueError for any other. connections: the
    most that requests use at once. Each store object has a gateway id of its own. All times are
    those of the database's clock.
    """

    def __init__(self, url: str, connections: int = CONNECTIONS) -> None:
        self.database = database = Database(url, connections)
        self.chat_completions = SqlChatCompletions(database)
        self.conversations = SqlConversations(database)
        self.files = SqlFiles(database)
        self.containers = SqlContainers(database)
        self.approvals = SqlAnsweredRequests(database)
        self._replace = _replacing(database)
        self.sealing_key: str | None = None
        # By how much the database's clock is ahead of this process's monotonic one.
        self._ahead = time.time() - time.monotonic()
        self._gateway = new_id(GATEWAY)
        # The runs that `take_over_orphans` has found late, with the time of their last heartbeat.
        self._late: frozenset[tuple[Any, ...]] = frozenset()
        # SQLite does not notify other processes: readers of their runs poll.
        self._signals = ChangeSignals(
            _SQLITE_POLL_SECONDS if database.is_sqlite else _POSTGRES_POLL_SECONDS
        )
        self._peers: Peers = (
            FileLocks(_locks_of(database), self._gateway)
            if database.is_sqlite
            else PostgresListener(database.url, self._signals, self._gateway)
        )

    async def start(self) -> None:
        """Connect, and upgrade the schema."""
        await self.database.migrate()
        # A file that can only be read has passed so far, if its schema is the newest one. The
        # connection of heartbeats opens the files now: later they may have been replaced.
        await self._check_writes(heartbeat=True)
        await vacuum.allow(self.database)
        seal = select(secrets.c.value, self.database.clock).where(secrets.c.name == SEAL)
        self.sealing_key, now = await self.database.first(seal)
        self._ahead = now - time.monotonic()
        await self._peers.start()

    async def stop(self) -> None:
        """Close all connections."""
        await self._peers.stop()
        await self.database.close()

    def now(self) -> float:
        """Return the database's time as of the last heartbeat, and the seconds since then."""
        return time.monotonic() + self._ahead

    async def check(self) -> None:
        """Read a row; or write one if a write failed and none of these has succeeded since."""
        self.database.check()
        if self.database.writes_fail:
            await self._check_writes()
        else:
            await self.database.first(select(secrets.c.name).where(secrets.c.name == SEAL))

    async def _check_writes(self, *, heartbeat: bool = False) -> None:
        """Write a row and delete it; after a failure, which only this ends, a large one.

        In two transactions, because SQLite writes nothing of a row that comes and goes in one.
        """
        size = _CHECK_BYTES if self.database.writes_fail else 0
        row = {"name": _CHECK, "value": os.urandom(size // 2).hex()}
        written = self.database.insert(secrets).values(row)
        async with self.database.writing(heartbeat=heartbeat) as connection:
            if not self.database.is_sqlite:
                await check_privileges(connection)
            await connection.execute(
                written.on_conflict_do_update(index_elements=["name"], set_={"value": row["value"]})
            )
        async with self.database.writing(heartbeat=heartbeat) as connection:
            await connection.execute(delete(secrets).where(secrets.c.name == _CHECK))
        self.database.writes_succeed()

    async def begin(self, stored: StoredResponse) -> None:
        """Insert the response, its input, and the run with this gateway's id.

        Not into a store that is known to be full: these rows may fit, and the answer would be
        sampled, and wait for the store until it fails.
        """
        if self.database.writes_fail:
            await self._check_writes()
        input_rows = await rows.items(stored.id, INPUT, stored.input)
        async with self.database.writing() as connection:
            await self._insert(connection, stored, input_rows)
            run = {
                "response_id": stored.id,
                "gateway": self._gateway,
                "beat_at": self.database.clock,
            }
            await connection.execute(insert(runs).values(run))

    async def append(self, response_id: str, ledger: Sequence[Event]) -> None:
        """Insert a batch of events, if the run's row still names this gateway."""
        batch = await rows.batch(response_id, ledger)
        async with self.database.writing() as connection:
            own_run = (
                update(runs).where(self._is_mine(response_id)).values(beat_at=self.database.clock)
            )
            if (await connection.execute(own_run)).rowcount != 1:
                raise RunLost(response_id)
            await connection.execute(self._replace, batch)
            await self._notify(connection, response_id)
        self._signals.notify(response_id)

    async def end(self, stored: StoredResponse, ledger: Sequence[Event]) -> None:
        """Store the response and its output, and replace its events by fewer, larger batches.

        Of one that was deleted while it was made nothing is left.
        """
        # Rows are built before the transaction, which blocks other writers.
        body = await codec.dump_large(rows.body(stored))
        output = await rows.items(stored.id, OUTPUT, stored.output)
        batches = await rows.batches(stored.id, ledger)
        conversation = stored.conversation_id
        added = stored.conversation_items if conversation else ()
        added_rows = await rows.conversation_items(conversation or "", added)
        values = {"body": body, "tool_state": rows.tool_state(stored.tool_state)}
        async with self.database.writing() as connection:
            own_run = delete(runs).where(self._is_mine(stored.id))
            if (await connection.execute(own_run)).rowcount != 1:
                if await self._has_ended(connection, stored.id, body):
                    return
                raise RunLost(stored.id)
            own = (responses.c.id == stored.id) & ~responses.c.deleted
            if (await connection.execute(update(responses).where(own).values(values))).rowcount:
                await connection.execute(delete(events).where(events.c.response_id == stored.id))
                await rows.insert_all(connection, items, output)
                await rows.insert_all(connection, events, batches)
            else:
                await chains.prune(connection, stored.id)
            if conversation and added_rows:
                await self.conversations.add_within(
                    connection, stored.owner, conversation, added_rows, stored.tool_state
                )
            await self._notify(connection, stored.id)
        self._signals.notify(stored.id)

    async def get(self, owner: str, response_id: str) -> StoredResponse | None:
        """Read the response, with the chain of those that it continues."""
        async with self.database.reading() as connection:
            row = await _row(connection, owner, response_id, *responses.c)
            if row is None:
                return None
            chain = await chains.read(connection, row)
        return await chains.decode(chain)

    async def input_items(
        self, owner: str, response_id: str, query: ListQuery
    ) -> Page[Item] | None:
        """Read the ids of all items, and the items of the page."""
        async with self.database.reading() as connection:
            columns = responses.c.id, responses.c.conversation_id, responses.c.seen
            row = await _row(connection, owner, response_id, *columns)
            if row is None:
                return None
            places = await chains.read_places(connection, row)
        return await read_page(self.database, await chains.locate_input(places), query)

    async def show(self, owner: str, response_id: str) -> dict[str, Any] | None:
        """Read the API's object."""
        async with self.database.reading() as connection:
            row = await _row(connection, owner, response_id, responses.c.id, responses.c.body)
            if row is None:
                return None
            is_output = (items.c.response_id == row.id) & (items.c.side == OUTPUT)
            # Not joined with the body, which may be large, and would come with each item.
            query = select(items.c.item).where(is_output).order_by(items.c.place)
            texts = (await connection.execute(query)).scalars().all()
        body, *output = await codec.load_all([row.body, *texts])
        return body | {"output": output}

    async def list(self, owner: str, query: ListQuery) -> ListPage:
        """Read the rows of the page, and the first items."""
        return await list_responses(self.database, owner, query)

    async def ledger(
        self, owner: str, response_id: str, start: int = 0, *, most: int | None = None
    ) -> Ledger | None:
        """Read events, in one statement: if the response has ended, none is missing.

        Rows are read whole, so that there may be somewhat more events than `most`.
        """
        later = (events.c.response_id == responses.c.id) & (events.c.first + events.c.count > start)
        if most is not None:
            later &= events.c.first < start + most
        query = (
            select(
                runs.c.gateway, events.c.first, events.c.body, _event_count().label("event_count")
            )
            .select_from(responses)
            .outerjoin(runs, runs.c.response_id == responses.c.id)
            .outerjoin(events, later)
            .where(_is(owner, response_id))
            .order_by(events.c.first)
        )
        async with self.database.reading() as connection:
            found = (await connection.execute(query)).all()
        if not found:
            return None
        batches = [row for row in found if row.body is not None]
        unpacked = await codec.unpack([row.body for row in batches])
        skipped = max(start - batches[0].first, 0) if batches else 0
        later_events = tuple(unpacked[skipped:])
        more = most is not None and start + len(later_events) < (found[0].event_count or 0)
        return Ledger(later_events, ended=found[0].gateway is None and not more, more=more)

    async def delete(self, owner: str, response_id: str) -> bool:
        """Mark the response as deleted; its items stay while others continue it."""
        found = select(responses.c.id).where(_is(owner, response_id))
        async with self.database.writing() as connection:
            # The run before the response, as at its end: else each could wait for the other.
            await self._cancel(connection, runs.c.response_id.in_(found))
            marked = await connection.execute(
                update(responses).where(_is(owner, response_id)).values(deleted=True)
            )
            if marked.rowcount == 0:
                return False
            await chains.prune(connection, response_id)
        self._signals.notify(CANCELS)
        return True

    async def items(self, owner: str, ids: Collection[str]) -> Mapping[str, StoredItem]:
        """Read items of responses, and the others of conversations."""
        return await read_items(self.database, owner, ids)

    async def turns_up_to_calls(
        self, owner: str, call_ids: Collection[str]
    ) -> Mapping[str, Sequence[StoredItem]]:
        """Read the output of each response with one of the calls once."""
        return await read_turns(self.database, owner, call_ids)

    async def cancel(self, response_id: str) -> None:
        """Mark the run, of whichever gateway, and notify."""
        async with self.database.writing() as connection:
            await self._cancel(connection, runs.c.response_id == rows.key(response_id))
        self._signals.notify(CANCELS)

    async def heartbeat(self, running: Collection[str]) -> frozenset[str]:
        """Update the runs' heartbeat times, and return the marked ones."""
        if self.database.writes_fail:
            self.database.check()
        async with self.database.writing(heartbeat=True) as connection:
            renewed = await connection.execute(
                update(runs)
                .where(runs.c.response_id.in_(running), runs.c.gateway == self._gateway)
                .values(beat_at=self.database.clock)
                .returning(runs.c.response_id, runs.c.cancelled)
            )
            marked = frozenset(name for name, cancelled in renewed if cancelled)
            (now,) = (await connection.execute(select(self.database.clock))).one()
            self._ahead = now - time.monotonic()
        if self.database.writes_fail:
            # Without runs, the update wrote nothing, and succeeded on a full disk.
            await self._check_writes(heartbeat=True)
        return marked

    async def cancelled(self) -> frozenset[str]:
        """Read this gateway's marked runs."""
        marked = select(runs.c.response_id).where(runs.c.gateway == self._gateway, runs.c.cancelled)
        async with self.database.reading() as connection:
            return frozenset((await connection.execute(marked)).scalars())

    async def take_over_orphans(
        self, silent: float, running: Collection[str] = ()
    ) -> Sequence[str]:
        """Assign the runs to this gateway. Of gateways that try concurrently, one succeeds."""
        is_late = runs.c.beat_at < self.database.clock - silent
        late = select(runs.c.response_id, runs.c.beat_at)
        async with self.database.reading() as connection:
            found = await connection.execute(
                late.where(is_late, runs.c.response_id.not_in(running))
            )
            before, self._late = self._late, frozenset(tuple(row) for row in found)
        unchanged = {response_id for response_id, _ in before & self._late}
        if not unchanged:
            return []
        return await self._take_over(is_late & runs.c.response_id.in_(unchanged))

    async def take_over_from_ended(self) -> Sequence[str]:
        """Assign the runs of gateways whose lock is free to this one."""
        ended = await self._peers.ended()
        taken_over = await self._take_over(runs.c.gateway.in_(ended)) if ended else []
        for gateway in ended:
            self._peers.forget(gateway)
        return taken_over

    async def taken_over(self, response_id: str) -> StoredResponse:
        """Read the response, which may be deleted, and its input."""
        async with self.database.reading() as connection:
            found = await connection.execute(select(responses).where(responses.c.id == response_id))
            row = found.first()
            if row is None:  # Another gateway has ended and deleted it.
                raise RunLost(response_id)
            own = select(items).where(items.c.response_id == response_id).order_by(items.c.place)
            inputs = await rows.read(connection, own)
        (body,) = await codec.load_all([row.body])
        return StoredResponse(
            owner=row.owner,
            response=body | {"output": []},
            start_date=row.start_date,
            history=(),
            input=await rows.stored_items(inputs),
            output=(),
            read_position=row.seen,
            tool_state=rows.load_tool_state(row.tool_state),
        )

    async def _take_over(self, condition: ColumnElement[bool]) -> Sequence[str]:
        # Read first: a write transaction would block other gateways for nothing.
        found = select(runs.c.response_id).where(condition).limit(1)
        if await self.database.first(found) is None:
            return []
        async with self.database.writing() as connection:
            updated = await connection.execute(
                update(runs)
                .where(condition)
                .values(gateway=self._gateway, beat_at=self.database.clock)
                .returning(runs.c.response_id)
            )
            return [response_id for (response_id,) in updated]

    async def sweep(self, age: float) -> int:
        """Delete old objects in batches, so that other writers are not blocked for long."""
        deleted = await sweep_responses(self.database, age)
        deleted += await self.conversations.sweep(age)
        deleted += await self.chat_completions.sweep(age)
        await self.approvals.sweep(age)
        await vacuum.shrink(self.database)
        return deleted

    def listen(self, topic: str) -> AbstractContextManager[ChangeSignal]:
        """Return a signal that also covers other gateways: immediately, or polled on SQLite."""
        return self._signals.listen(topic)

    async def _insert(
        self, connection: AsyncConnection, stored: StoredResponse, input_rows: Sequence[Row]
    ) -> None:
        row = rows.response(stored) | {"created_at": self.database.clock}
        try:
            await connection.execute(insert(responses).values(row))
        except IntegrityError as error:
            if row["previous_id"] is None:
                raise
            raise PreviousNotFound(row["previous_id"]) from error
        await rows.insert_all(connection, items, input_rows)

    async def _cancel(self, connection: AsyncConnection, which: ColumnElement[bool]) -> None:
        marked = await connection.execute(update(runs).where(which).values(cancelled=True))
        if marked.rowcount:
            await self._notify(connection, CANCELS)

    async def _has_ended(self, connection: AsyncConnection, response_id: str, body: str) -> bool:
        """Whether an earlier call of `end` was committed, but its acknowledgement was lost."""
        running = select(runs.c.response_id).where(runs.c.response_id == response_id).exists()
        same = select(responses.c.id).where(
            responses.c.id == response_id, responses.c.body == body, ~running
        )
        return (await connection.execute(same)).first() is not None

    async def _notify(self, connection: AsyncConnection, topic: str) -> None:
        if not self.database.is_sqlite:
            await connection.execute(select(func.pg_notify(PostgresListener.CHANNEL, topic)))

    def _is_mine(self, response_id: str) -> ColumnElement[bool]:
        return (runs.c.response_id == response_id) & (runs.c.gateway == self._gateway)


def _event_count() -> ScalarSelect[int]:
    """The number of stored events of a response."""
    stored = events.alias()
    count = select(func.max(stored.c.first + stored.c.count))
    return (
        count.where(stored.c.response_id == responses.c.id).correlate(responses).scalar_subquery()
    )


def _locks_of(database: Database) -> Path | None:
    """The folder of the gateways' locks, beside the SQLite file; None for a `uri` URL."""
    url = database.url
    return None if "uri" in url.query else Path(f"{url.database}-gateways").absolute()


def _replacing(database: Database) -> Any:
    """A statement that inserts a batch of events, or replaces one from the same number on."""
    batch = database.insert(events)
    return batch.on_conflict_do_update(
        index_elements=[events.c.response_id, events.c.first],
        set_={name: batch.excluded[name] for name in ("count", "body")},
    )


async def _row(
    connection: AsyncConnection, owner: str, response_id: str, *columns: Column[Any]
) -> Any:
    """These columns of the owner's response; None if there is none."""
    return (await connection.execute(select(*columns).where(_is(owner, response_id)))).first()


def _is(owner: str, response_id: str) -> ColumnElement[bool]:
    return rows.is_of(responses, owner, response_id) & ~responses.c.deleted
