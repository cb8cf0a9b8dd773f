"""Returns free pages of a SQLite file to the file system."""

import asyncio
import logging
import os
import shutil

import aiosqlite

from server.store.batches import PAUSE_SECONDS
from server.store.database import Database
from server.store.errors import StoreUnavailable

logger = logging.getLogger(__name__)

STEP_PAGES = 256
"""The number of pages (of 4 KiB) that one transaction frees. Other writers wait for it."""

MOST_AT_ONCE = 256 * 1024 * 1024
"""The largest file, in bytes, that is rewritten at the start."""


async def shrink(database: Database) -> None:
    """Remove the free pages from the file, in short transactions. Raises StoreUnavailable.

    Does nothing on PostgreSQL, and for a file that cannot shrink, for which `allow` logs a warning.
    """
    if not database.is_sqlite:
        return
    async with database.outside_of_transactions() as connection:
        free = before = await _number(connection, "freelist_count")
    while free:
        async with database.outside_of_transactions() as connection:
            # As a script: sqlite3 would step the statement once, which frees one page.
            await connection.executescript(f"PRAGMA incremental_vacuum({STEP_PAGES})")
            remaining = await _number(connection, "freelist_count")
        if remaining >= free:  # It cannot shrink, or others free pages as fast.
            break
        free = remaining
        await asyncio.sleep(PAUSE_SECONDS)
    if free < before:
        async with database.outside_of_transactions() as connection:
            # Only a checkpoint truncates the file. A passive one does not wait for others.
            await connection.execute_fetchall("PRAGMA wal_checkpoint(PASSIVE)")
    if before - free >= STEP_PAGES:  # A new file has a few, of the tables that migrations rewrite.
        logger.info("freed %d pages of the store's file", before - free)


async def allow(database: Database) -> None:
    """Rewrite a small file of an earlier version, so that it can shrink from now on."""
    if not database.is_sqlite:
        return
    async with database.outside_of_transactions() as connection:
        if await _number(connection, "auto_vacuum"):
            return
    path = database.url.database or ""
    try:
        size = os.stat(path).st_size
        has_room = shutil.disk_usage(os.path.dirname(path) or ".").free > 3 * size
    except OSError:  # a `uri` that only SQLite understands
        return
    if size > MOST_AT_ONCE or not has_room:
        logger.warning(
            "the store's file %s cannot shrink. To let it, stop every server that uses it and run: "
            "sqlite3 %s 'PRAGMA auto_vacuum=INCREMENTAL; VACUUM'",
            path,
            path,
        )
        return
    try:
        async with database.outside_of_transactions() as connection:
            await connection.execute_fetchall("PRAGMA auto_vacuum=INCREMENTAL")
            await connection.execute_fetchall("VACUUM")
    except StoreUnavailable:
        logger.warning("the store's file %s cannot shrink until a server starts alone", path)


async def _number(connection: aiosqlite.Connection, pragma: str) -> int:
    ((value,),) = await connection.execute_fetchall(f"PRAGMA {pragma}")
    return int(value)
