"""Changes of many rows in short transactions, between which others write."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from sqlalchemy import Delete, Select, Update

from server.store.database import Database

PAUSE_SECONDS = 0.02
"""The pause between two transactions, in which other writers run."""

_FOUND_AT_ONCE = 10_000
_CHANGED_AT_ONCE = 50
"""Objects that one transaction changes. Each may have megabytes in other tables."""


async def change_in_batches(
    database: Database,
    find: Select[Any],
    change: Callable[[Sequence[Any]], Update | Delete],
) -> int:
    """Change all rows that `find` selects, and return their number. Raises StoreUnavailable.

    find: selects the keys of rows that are still to be changed, in the order of the changes. It
    runs again after them, outside of the transactions that write. change: the statement for some
    of the keys, after which `find` must not select them any more.
    """
    total = 0
    while True:
        async with database.reading() as connection:
            keys = (await connection.execute(find.limit(_FOUND_AT_ONCE))).scalars().all()
        changed = 0
        for first in range(0, len(keys), _CHANGED_AT_ONCE):
            statement = change(keys[first : first + _CHANGED_AT_ONCE])
            async with database.writing() as connection:
                changed += (await connection.execute(statement)).rowcount
            await asyncio.sleep(PAUSE_SECONDS)
        if not changed:
            return total
        total += changed
