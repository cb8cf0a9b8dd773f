"""Changes of many rows in short transactions, between which others write."""

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Any

from sqlalchemy import Delete, Select, Update

from server.store.database import Database

PAUSE_SECONDS = 0.02
"""The pause between two transactions, in which other writers run."""

_FOUND_AT_ONCE = 10_000
_CHANGED_AT_ONCE = 50
"""The most objects that one transaction changes."""

_LONG_SECONDS = 0.05
"""A transaction that takes longer is followed by a smaller one. An object may have 65,536 items in
other tables, or megabytes."""


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
    total, at_once = 0, 1
    while True:
        async with database.reading() as connection:
            keys = (await connection.execute(find.limit(_FOUND_AT_ONCE))).scalars().all()
        changed = first = 0
        while batch := keys[first : first + at_once]:
            first += len(batch)
            statement = change(batch)
            async with database.writing() as connection:
                began = time.perf_counter()
                changed += (await connection.execute(statement)).rowcount
            at_once = _next_size(at_once, time.perf_counter() - began)
            await asyncio.sleep(PAUSE_SECONDS)
        if not changed:
            return total
        total += changed


def _next_size(size: int, seconds: float) -> int:
    """How many objects the next transaction changes, after one with `size` that took so long."""
    return max(size // 2, 1) if seconds > _LONG_SECONDS else min(2 * size, _CHANGED_AT_ONCE)
