"""Answered requests for approval in a database."""

from sqlalchemy import delete, select

from server.store.approvals.base import KEEP_SECONDS, digest
from server.store.database import Database
from server.store.tables import answered_approvals


class SqlAnsweredRequests:
    """The answers that all gateways of the database have received."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def answered(self, owner: str, request_id: str) -> bool:
        """Read the row."""
        columns = answered_approvals.c
        row = select(columns.owner).where(
            columns.owner == owner, columns.request == digest(request_id)
        )
        return await self._database.first(row) is not None

    async def claim(self, owner: str, request_id: str) -> bool:
        """Insert the row, unless there is one."""
        row = {
            "owner": owner,
            "request": digest(request_id),
            "answered_at": self._database.clock,
        }
        statement = self._database.insert(answered_approvals).values(row).on_conflict_do_nothing()
        return await self._database.change(statement) == 1

    async def sweep(self, age: float) -> None:
        """Delete rows older than `age` seconds, and than sealed requests can be."""
        old = self._database.clock - max(age, KEEP_SECONDS)
        is_old = answered_approvals.c.answered_at < old
        await self._database.change(delete(answered_approvals).where(is_old))
