"""The store in a database: a SQLite file, or PostgreSQL."""

import logging
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from sqlalchemy import ColumnElement, ScalarSelect, delete, func, insert, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection

from server.ids import new_id
from server.store import chains, codec, rows, vacuum
from server.store.change_signal import ChangeSignal, ChangeSignals
from server.store.chat_completions.sql import SqlChatCompletions
from server.store.conversations.sql import SqlConversations
from server.store.database import Database
from server.store.filelocks import FileLocks
from server.store.postgres_listener import GATEWAY, PostgresListener
from server.store.responses.base import (
    CANCELS,
    Event,
    Ledger,
    PreviousNotFound,
    RunLost,
    StoredItem,
    StoredResponse,
)
from server.store.tables import INPUT, OUTPUT, SEAL, events, items, responses, runs, secrets

logger = logging.getLogger(__name__)

_POLL_SECONDS = 0.2
_PATIENCE_SECONDS = 10.0
_AT_ONCE = 500


Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class _LastRows:
    """What a response ends with. It is made before a transaction, which keeps others waiting."""

    output: list[Row]
    batches: list[Row]


class Peers(Protocol):
    """Knows which gateways of the store live: each holds a lock that ends with its process."""

    async def start(self) -> None:
        """Hold this gateway's lock."""
        ...

    async def stop(self) -> None:
        """Let go of it."""
        ...

    async def ended(self) -> frozenset[str]:
        """Ids of gateways that ended without `stop` and may have left runs."""
        ...

    def forget(self, gateway: str) -> None:
        """A gateway that has ended has no runs any more."""
        ...


class SqlStore:
    """One gateway's connections to a database that it may share.

    url: `sqlite:///FILE` or `postgresql://…`. Raises ValueError for any other. A run's gateway is
    told apart by an id made here; times are the database's clock.
    """

    def __init__(self, url: str) -> None:
        self.database = database = Database(url)
        self.chat_completions = SqlChatCompletions(database)
        self.conversations = SqlConversations(database)
        self._replace = _replacing(database)
        self.sealing_key: str | None = None
        self._gateway = new_id(GATEWAY)
        # SQLite tells nobody of a change: readers of other gateways' runs look again.
        self._signals = ChangeSignals(_POLL_SECONDS if database.is_sqlite else _PATIENCE_SECONDS)
        self._peers: Peers = (
            FileLocks(_locks_of(database), self._gateway)
            if database.is_sqlite
            else PostgresListener(database.url, self._signals, self._gateway)
        )

    async def start(self) -> None:
        """Connect, and bring the schema up to date."""
        await self.database.migrate()
        await vacuum.allow(self.database)
        async with self.database.reading() as connection:
            kept = select(secrets.c.value).where(secrets.c.name == SEAL)
            self.sealing_key = (await connection.execute(kept)).scalar_one()
        await self._peers.start()

    async def stop(self) -> None:
        """Close all connections."""
        await self._peers.stop()
        await self.database.close()

    async def check(self) -> None:
        """Read; or write, where the last write failed: there may be room again."""
        self.database.check()
        is_seal = secrets.c.name == SEAL
        if self.database.writes_fail:
            async with self.database.writing() as connection:
                await connection.execute(
                    update(secrets).where(is_seal).values(value=secrets.c.value)
                )
        else:
            async with self.database.reading() as connection:
                await connection.execute(select(secrets.c.name).where(is_seal))

    async def put(self, stored: StoredResponse, ledger: Sequence[Event] = ()) -> None:
        """Keep a response that has ended."""
        given = await rows.items(stored.id, INPUT, stored.input)
        last = await _last_rows(stored, ledger)
        async with self.database.writing() as connection:
            await self._insert(connection, stored, given)
            await self._finish(connection, last)

    async def begin(self, stored: StoredResponse) -> None:
        """Keep a response in progress, and that this gateway makes it."""
        given = await rows.items(stored.id, INPUT, stored.input)
        async with self.database.writing() as connection:
            await self._insert(connection, stored, given)
            run = {
                "response_id": stored.id,
                "gateway": self._gateway,
                "beat_at": self.database.clock,
            }
            await connection.execute(insert(runs).values(run))

    async def append(self, response_id: str, ledger: Sequence[Event]) -> None:
        """Keep a batch of events. The run's row is its fence: it says whose the run is."""
        batch = await rows.batch(response_id, ledger)
        async with self.database.writing() as connection:
            mine = (
                update(runs).where(self._is_mine(response_id)).values(beat_at=self.database.clock)
            )
            if (await connection.execute(mine)).rowcount != 1:
                raise _lost(response_id)
            await connection.execute(self._replace, batch)
            await self._notify(connection, response_id)
        self._signals.notify(response_id)

    async def end(self, stored: StoredResponse, ledger: Sequence[Event]) -> None:
        """Keep the whole response; its batches of events become few."""
        last = await _last_rows(stored, ledger)
        async with self.database.writing() as connection:
            mine = delete(runs).where(self._is_mine(stored.id))
            body = codec.dump(rows.body(stored))
            if (await connection.execute(mine)).rowcount != 1:
                if await self._has_ended(connection, stored.id, body):
                    return
                raise _lost(stored.id)
            await connection.execute(
                update(responses).where(responses.c.id == stored.id).values(body=body)
            )
            await connection.execute(delete(events).where(events.c.response_id == stored.id))
            await self._finish(connection, last)
            if (conversation := stored.conversation_id) and stored.conversation_items:
                await self.conversations.add_within(
                    connection, stored.owner, conversation, stored.conversation_items
                )
            await self._notify(connection, stored.id)
        self._signals.notify(stored.id)

    async def get(self, owner: str, response_id: str) -> StoredResponse | None:
        """The owner's response, with the chain of those that it continues."""
        async with self.database.reading() as connection:
            row = await self._row(connection, owner, response_id)
            return None if row is None else await chains.load(connection, row)

    async def show(self, owner: str, response_id: str) -> dict[str, Any] | None:
        """The owner's response as the API shows it."""
        made = (items.c.response_id == responses.c.id) & (items.c.side == OUTPUT)
        query = (
            select(responses.c.body, items.c.item)
            .outerjoin(items, made)
            .where(_is(owner, response_id))
            .order_by(items.c.place)
        )
        async with self.database.reading() as connection:
            found = (await connection.execute(query)).all()
        if not found:
            return None
        output = [codec.load(row.item) for row in found if row.item is not None]
        return codec.load(found[0].body) | {"output": output}

    async def ledger(
        self, owner: str, response_id: str, start: int = 0, *, most: int | None = None
    ) -> Ledger | None:
        """The events that are kept. Read in one statement: none is missing where it has ended.

        most: rows are read whole, so that there may be some events more.
        """
        later = (events.c.response_id == responses.c.id) & (events.c.first + events.c.count > start)
        if most is not None:
            later &= events.c.first < start + most
        query = (
            select(runs.c.gateway, events.c.first, events.c.body, _known().label("known"))
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
        kept = await codec.unpack([row.body for row in batches])
        skipped = max(start - batches[0].first, 0) if batches else 0
        later_events = tuple(kept[skipped:])
        more = most is not None and start + len(later_events) < (found[0].known or 0)
        return Ledger(later_events, ended=found[0].gateway is None and not more, more=more)

    async def delete(self, owner: str, response_id: str) -> bool:
        """Forget a response; its items stay as long as others continue it."""
        async with self.database.writing() as connection:
            if await self._row(connection, owner, response_id) is None:
                return False
            await connection.execute(
                update(responses).where(responses.c.id == response_id).values(deleted=True)
            )
            await chains.prune(connection, response_id)
        await self.cancel(response_id)
        return True

    async def items(self, owner: str, ids: Collection[str]) -> Mapping[str, StoredItem]:
        """The owner's items among `ids`: what the model said wins, then what was given first."""
        keys = {rows.key(name): name for name in ids}
        if not keys:
            return {}
        # Who sends all that was said with each request has every item kept once for each of them.
        made = func.min(items.c.place).filter(items.c.side == OUTPUT)
        places = (
            select(func.coalesce(made, func.min(items.c.place)))
            .join(responses, responses.c.id == items.c.response_id)
            .where(responses.c.owner == owner, ~responses.c.deleted)
            .group_by(items.c.item_id)
        )
        async with self.database.reading() as connection:
            return {
                keys[row.item_id]: rows.stored_item(row)
                for some in rows.in_batches(keys)
                for row in await connection.execute(
                    select(items).where(items.c.place.in_(places.where(items.c.item_id.in_(some))))
                )
            }

    async def output_up_to_call(
        self, owner: str, call_ids: Collection[str]
    ) -> Mapping[str, Sequence[StoredItem]]:
        """Output up to calls; a response's items are numbered in their order."""
        keys = {rows.key(call_id): call_id for call_id in call_ids}
        if not keys:
            return {}
        call = items.alias()
        query = (
            select(items, call.c.call_id.label("asked"))
            .join(call, call.c.response_id == items.c.response_id)
            .join(responses, responses.c.id == items.c.response_id)
            .where(call.c.side == OUTPUT, items.c.side == OUTPUT)
            .where(items.c.place <= call.c.place, responses.c.owner == owner, ~responses.c.deleted)
            .order_by(items.c.place)
        )
        found: defaultdict[str, list[StoredItem]] = defaultdict(list)
        async with self.database.reading() as connection:
            for some in rows.in_batches(keys):
                for row in await connection.execute(query.where(call.c.call_id.in_(some))):
                    found[keys[row.asked]].append(rows.stored_item(row))
        return found

    async def cancel(self, response_id: str) -> None:
        """Mark the run, whoever's it is."""
        async with self.database.writing() as connection:
            marked = await connection.execute(
                update(runs)
                .where(runs.c.response_id == rows.key(response_id))
                .values(cancelled=True)
            )
            if marked.rowcount:
                await self._notify(connection, CANCELS)
        self._signals.notify(CANCELS)

    async def heartbeat(self, running: Collection[str]) -> frozenset[str]:
        """Renew the runs' time; those that are marked come back."""
        async with self.database.writing() as connection:
            beaten = await connection.execute(
                update(runs)
                .where(runs.c.response_id.in_(running), runs.c.gateway == self._gateway)
                .values(beat_at=self.database.clock)
                .returning(runs.c.response_id, runs.c.cancelled)
            )
            return frozenset(name for name, cancelled in beaten if cancelled)

    async def cancelled(self) -> frozenset[str]:
        """Read which of this gateway's runs are marked."""
        marked = select(runs.c.response_id).where(runs.c.gateway == self._gateway, runs.c.cancelled)
        async with self.database.reading() as connection:
            return frozenset((await connection.execute(marked)).scalars())

    async def take_over_orphans(
        self, silent: float, running: Collection[str] = ()
    ) -> Sequence[StoredResponse]:
        """Make silent gateways' runs this one's. Of gateways that try at once one succeeds."""
        is_late = runs.c.beat_at < self.database.clock - silent
        return await self._take_over(is_late & runs.c.response_id.not_in(running))

    async def take_over_from_ended(self) -> Sequence[StoredResponse]:
        """Make runs of gateways whose lock is free this one's."""
        ended = await self._peers.ended()
        adopted = await self._take_over(runs.c.gateway.in_(ended)) if ended else []
        for gateway in ended:
            self._peers.forget(gateway)
        return adopted

    async def _take_over(self, which: ColumnElement[bool]) -> Sequence[StoredResponse]:
        async with self.database.reading() as connection:
            found = await connection.execute(select(runs.c.response_id).where(which).limit(1))
            if found.first() is None:  # No other gateway has to wait for this one to write nothing.
                return []
        async with self.database.writing() as connection:
            adopted = await connection.execute(
                update(runs)
                .where(which)
                .values(gateway=self._gateway, beat_at=self.database.clock)
                .returning(runs.c.response_id)
            )
            ids = adopted.scalars().all()
            found = await connection.execute(select(responses).where(responses.c.id.in_(ids)))
            return [await chains.load(connection, row) for row in found.all()]

    async def sweep(self, age: float) -> int:
        """Forget what is old, a bounded number at a time so that others get their turn."""
        swept = 0
        old = responses.c.created_at < self.database.clock - age
        idle = ~select(runs.c.response_id).where(runs.c.response_id == responses.c.id).exists()
        batch = select(responses.c.id).where(old, ~responses.c.deleted, idle).limit(_AT_ONCE)
        while True:
            async with self.database.writing() as connection:
                marked = await connection.execute(
                    update(responses).where(responses.c.id.in_(batch)).values(deleted=True)
                )
            swept += marked.rowcount
            if marked.rowcount == 0:
                break
        while await self._prune_some():
            continue
        swept += await self.conversations.sweep(age)
        swept += await self.chat_completions.sweep(age)
        await vacuum.shrink(self.database)
        return swept

    def listen(self, topic: str) -> AbstractContextManager[ChangeSignal]:
        """A changes that other gateways' changes notify too: at once, or after a poll (SQLite)."""
        return self._signals.listen(topic)

    async def _prune_some(self) -> int:
        try:
            async with self.database.writing() as connection:
                return await chains.prune_some(connection, _AT_ONCE)
        except IntegrityError:
            logger.info("a response was continued while it was swept; it is left for later")
            return 0

    async def _insert(
        self, connection: AsyncConnection, stored: StoredResponse, given: Sequence[Row]
    ) -> None:
        row = rows.response(stored) | {"created_at": self.database.clock}
        try:
            await connection.execute(insert(responses).values(row))
        except IntegrityError as error:
            if row["previous_id"] is None:
                raise
            raise PreviousNotFound(row["previous_id"]) from error
        if given:
            await connection.execute(insert(items), given)

    async def _finish(self, connection: AsyncConnection, last: _LastRows) -> None:
        if last.output:
            await connection.execute(insert(items), last.output)
        if last.batches:
            await connection.execute(insert(events), last.batches)

    async def _has_ended(self, connection: AsyncConnection, response_id: str, body: str) -> bool:
        """Whether an earlier call of `end` was committed, though nobody knew."""
        running = select(runs.c.response_id).where(runs.c.response_id == response_id).exists()
        same = select(responses.c.id).where(
            responses.c.id == response_id, responses.c.body == body, ~running
        )
        return (await connection.execute(same)).first() is not None

    async def _row(self, connection: AsyncConnection, owner: str, response_id: str) -> Any:
        found = await connection.execute(select(responses).where(_is(owner, response_id)))
        return found.first()

    async def _notify(self, connection: AsyncConnection, topic: str) -> None:
        if not self.database.is_sqlite:
            await connection.execute(select(func.pg_notify(PostgresListener.CHANNEL, topic)))

    def _is_mine(self, response_id: str) -> ColumnElement[bool]:
        return (runs.c.response_id == response_id) & (runs.c.gateway == self._gateway)


def _known() -> ScalarSelect[int]:
    """How many events of a response are kept."""
    kept = events.alias()
    count = select(func.max(kept.c.first + kept.c.count))
    return count.where(kept.c.response_id == responses.c.id).correlate(responses).scalar_subquery()


def _locks_of(database: Database) -> Path | None:
    """The folder beside a SQLite file that has its gateways' locks; None where SQLite names it."""
    url = database.url
    return None if "uri" in url.query else Path(f"{url.database}-gateways").absolute()


def _replacing(database: Database) -> Any:
    """Inserts a batch of events, in place of a shorter one that was committed before."""
    batch = database.insert(events)
    return batch.on_conflict_do_update(
        index_elements=[events.c.response_id, events.c.first],
        set_={name: batch.excluded[name] for name in ("count", "body")},
    )


async def _last_rows(stored: StoredResponse, ledger: Sequence[Event]) -> _LastRows:
    output = await rows.items(stored.id, OUTPUT, stored.output)
    return _LastRows(output, await rows.batches(stored.id, ledger))


def _is(owner: str, response_id: str) -> ColumnElement[bool]:
    return (
        (responses.c.id == rows.key(response_id))
        & (responses.c.owner == owner)
        & ~responses.c.deleted
    )


def _lost(response_id: str) -> RunLost:
    return RunLost(f"The run of response '{response_id}' is not this server's any more.")
