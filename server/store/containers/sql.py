"""Containers in a database."""

from collections.abc import Collection, Sequence
from dataclasses import asdict
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Executable,
    and_,
    delete,
    func,
    insert,
    not_,
    or_,
    select,
    update,
)

from server.store import rows
from server.store.containers.base import Container, ContainerFile
from server.store.database import Database
from server.store.lists import ListQuery, Page
from server.store.pages import read_rows
from server.store.tables import container_files, containers

_AT_ONCE = 100


class SqlContainers:
    """The containers of all gateways that share the database."""

    outlives_process = True

    def __init__(self, database: Database) -> None:
        self._database = database

    async def create(self, container: Container) -> None:
        """Insert the container's row."""
        await self._database.change(insert(containers).values(asdict(container)))

    async def get(self, owner: str, container_id: str) -> Container | None:
        """Read the container's row."""
        query = select(containers).where(rows.is_of(containers, owner, container_id))
        row = await self._database.first(query)
        return None if row is None else _container(row)

    async def list(
        self, owner: str, query: ListQuery, now: float, *, name: str | None = None
    ) -> Page[Container]:
        """List in the order of insertion."""
        has_name = [] if name is None else [containers.c.name == name]
        conditions = (not_(_is_over(now)), *has_name)
        async with self._database.reading() as connection:
            page = await read_rows(connection, containers, owner, query, *conditions)
        return Page([*map(_container, page.entries)], page.has_more)

    async def count(self, owner: str, now: float) -> int:
        """Count the owner's rows."""
        statement = (
            select(func.count())
            .select_from(containers)
            .where(containers.c.owner == owner, not_(_is_over(now)))
        )
        (count,) = await self._database.first(statement)
        return int(count)

    async def touch(self, container_id: str, now: float) -> bool:
        """Replace the time."""
        statement = (
            update(containers)
            .where(containers.c.id == rows.key(container_id), not_(_is_over(now)))
            .values(last_active_at=int(now))
        )
        return await self._database.change(statement) > 0

    async def running(self, container_ids: Collection[str], now: float) -> frozenset[str]:
        """Read their ids."""
        query = select(containers.c.id).where(not_(_is_over(now)))
        async with self._database.reading() as connection:
            found = await rows.read_among(connection, query, containers.c.id, container_ids)
        return frozenset(row.id for row in found)

    async def delete(self, owner: str, container_id: str) -> bool:
        """Delete the container; its files go by cascade."""
        statement = delete(containers).where(rows.is_of(containers, owner, container_id))
        return await self._database.change(statement) > 0

    async def idle(self, now: float) -> tuple[Container, ...]:
        """Return up to 100 of them."""
        statement = (
            select(containers).where(_is_over(now), not_(containers.c.expired)).limit(_AT_ONCE)
        )
        async with self._database.reading() as connection:
            return tuple(map(_container, (await connection.execute(statement)).all()))

    async def expire(self, container_id: str, now: float) -> bool:
        """Mark it, and delete its files, in one transaction."""
        async with self._database.writing() as connection:
            marked = await connection.execute(
                update(containers)
                .where(containers.c.id == container_id, _is_over(now))
                .values(expired=True)
            )
            if marked.rowcount:
                await connection.execute(
                    delete(container_files).where(container_files.c.container_id == container_id)
                )
        return marked.rowcount > 0

    async def purge(self, active_before: float) -> int:
        """Delete the marked rows."""
        old = and_(containers.c.expired, containers.c.last_active_at < active_before)
        return await self._database.change(delete(containers).where(old))

    async def files(self, container_id: str) -> tuple[ContainerFile, ...]:
        """List in the order of insertion."""
        statement = (
            select(container_files)
            .where(container_files.c.container_id == rows.key(container_id))
            .order_by(container_files.c.place)
        )
        async with self._database.reading() as connection:
            return tuple(map(_file, (await connection.execute(statement)).all()))

    async def file(self, container_id: str, file_id: str) -> ContainerFile | None:
        """Read the file's row."""
        columns = container_files.c
        query = select(container_files).where(
            columns.id == rows.key(file_id), columns.container_id == rows.key(container_id)
        )
        row = await self._database.first(query)
        return None if row is None else _file(row)

    async def change_files(
        self, container_id: str, put: Sequence[ContainerFile], removed: Collection[str] = ()
    ) -> Sequence[ContainerFile]:
        """Change the rows in one transaction."""
        # The lock keeps the container from being deleted before the insert, and other gateways from
        # changing the files meanwhile.
        exists = (
            select(containers.c.id)
            .where(containers.c.id == container_id)
            .with_for_update(key_share=True)
        )
        async with self._database.writing() as connection:
            if (await connection.execute(exists)).first() is None:
                return put
            columns = container_files.c
            is_own = columns.container_id == container_id
            own = delete(container_files).where(is_own)
            for batch in rows.in_batches(removed):
                await connection.execute(own.where(columns.id.in_(batch)))
            paths = [file.path for file in put]
            found = await rows.read_among(
                connection, select(container_files).where(is_own), columns.path, paths
            )
            before = {row.path: _file(row) for row in found}
            recorded = [file.recorded_after(before.get(file.path)) for file in put]
            # A file with another id comes last, and does not take the place of the one before it.
            others = own.where(columns.id.not_in([file.id for file in recorded]))
            for batch in rows.in_batches(paths):
                await connection.execute(others.where(columns.path.in_(batch)))
            for file in recorded:
                await connection.execute(self._upsert(file))
        return recorded

    def _upsert(self, file: ContainerFile) -> Executable:
        new = self._database.insert(container_files).values(asdict(file))
        # Another gateway's file of the path may have come since the delete; it has another id.
        changed = ("id", "size", "source", "created_at", "modified", "origin")
        return new.on_conflict_do_update(
            index_elements=[container_files.c.container_id, container_files.c.path],
            set_={name: new.excluded[name] for name in changed},
        )


def _is_over(now: float) -> ColumnElement[bool]:
    columns = containers.c
    return or_(columns.expired, columns.last_active_at + 60 * columns.idle_minutes <= now)


def _container(row: Any) -> Container:
    return Container(
        row.owner,
        row.id,
        row.name,
        int(row.created_at),
        int(row.last_active_at),
        row.idle_minutes,
        row.memory_limit,
        row.expired,
    )


def _file(row: Any) -> ContainerFile:
    return ContainerFile(
        row.id,
        row.container_id,
        row.path,
        row.size,
        row.source,
        int(row.created_at),
        row.modified,
        row.origin,
    )
