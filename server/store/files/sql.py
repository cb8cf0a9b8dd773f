"""Uploaded files in a database, without their content."""

from dataclasses import asdict
from typing import Any

from sqlalchemy import ColumnElement, delete, func, insert, or_, select

from server import threads
from server.store import rows
from server.store.database import Database
from server.store.files.base import FileUsage, StoredFile
from server.store.lists import ListQuery, Page
from server.store.pages import read_rows
from server.store.tables import files

_AT_ONCE = 500
"""Files that are made of their rows in a millisecond."""


class SqlFiles:
    """The files of all gateways that share the database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def put(self, file: StoredFile) -> None:
        """Insert the file's row."""
        await self._database.change(insert(files).values(asdict(file)))

    async def get(self, owner: str, file_id: str, now: float) -> StoredFile | None:
        """Read the file's row."""
        query = select(files).where(rows.is_of(files, owner, file_id), _is_current(now))
        row = await self._database.first(query)
        return None if row is None else _stored(row)

    async def list(
        self, owner: str, query: ListQuery, now: float, *, purpose: str | None = None
    ) -> Page[StoredFile]:
        """List in the order of insertion."""
        has_purpose = [] if purpose is None else [files.c.purpose == purpose]
        conditions = (_is_current(now), *has_purpose)
        async with self._database.reading() as connection:
            page = await read_rows(connection, files, owner, query, *conditions)
        size = threads.counted(len(page.entries), _AT_ONCE)
        entries = await threads.run(lambda: [*map(_stored, page.entries)], size)
        return Page(entries, page.has_more)

    async def delete(self, owner: str, file_id: str) -> bool:
        """Delete the file's row."""
        statement = delete(files).where(rows.is_of(files, owner, file_id))
        return await self._database.change(statement) > 0

    async def usage(self, owner: str, now: float) -> FileUsage:
        """Add up the owner's rows."""
        total = func.coalesce(func.sum(files.c.size), 0)
        is_counted = (files.c.owner == owner) & _is_current(now)
        count, size = await self._database.first(select(func.count(), total).where(is_counted))
        return FileUsage(count, int(size))

    async def expired(
        self, now: float, created_before: float, *, after: str = ""
    ) -> tuple[StoredFile, ...]:
        """Return up to 500 of them."""
        is_old = or_(files.c.expires_at <= now, files.c.created_at < created_before)
        statement = (
            select(files).where(is_old, files.c.id > after).order_by(files.c.id).limit(_AT_ONCE)
        )
        async with self._database.reading() as connection:
            return tuple(map(_stored, (await connection.execute(statement)).all()))


def _is_current(now: float) -> ColumnElement[bool]:
    return or_(files.c.expires_at.is_(None), files.c.expires_at > now)


def _stored(row: Any) -> StoredFile:
    expires_at = None if row.expires_at is None else int(row.expires_at)
    return StoredFile(
        row.owner, row.id, row.filename, row.purpose, row.size, int(row.created_at), expires_at
    )
