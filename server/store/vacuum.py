"""Gives free pages of a SQLite file back to the file system. PostgreSQL does so by itself."""

import asyncio
import logging
import os
import shutil

import aiosqlite

from server.store.database import Database
from server.store.responses.base import StoreUnavailable

logger = logging.getLogger(__name__)

STEP_PAGES = 256
"""How many pages (of 4 KiB) are given back in one transaction, for which other writers wait."""

PAUSE_SECONDS = 0.02
"""Between two of them, so that those who wait get their turn."""

MOST_AT_ONCE = 256 * 1024 * 1024
"""The largest file, in bytes, that is written anew at the start."""


async def shrink(database: Database) -> None:
    """Remove the free pages from the file, in short transactions.

    Nothing where the file cannot shrink (`allow` has said so), or is no SQLite file. Raises
    StoreUnavailable.
    """
    if not database.is_sqlite:
        return
    async with database.outside_of_transactions() as connection:
        free = before = await _number(connection, "freelist_count")
        while free:
            # As a script: SQLite steps through the pages, and sqlite3 alone stops at the first.
            await connection.executescript(f"PRAGMA incremental_vacuum({STEP_PAGES})")
            left = await _number(connection, "freelist_count")
            if left >= free:  # It cannot shrink, or others free pages as fast.
                break
            free = left
            await asyncio.sleep(PAUSE_SECONDS)
        if free < before:
            # Only a checkpoint makes the file shorter. This kind waits for nobody.
            await connection.execute_fetchall("PRAGMA wal_checkpoint(PASSIVE)")
            logger.info("the store's file has %d free pages less", before - free)


async def allow(database: Database) -> None:
    """Let the file of an earlier version shrink, which takes writing it anew: only a small one."""
    if not database.is_sqlite:
        return
    async with database.outside_of_transactions() as connection:
        if await _number(connection, "auto_vacuum"):
            return
    path = database.url.database or ""
    try:
        size = os.stat(path).st_size
        has_room = shutil.disk_usage(os.path.dirname(path) or ".").free > 3 * size
    except OSError:  # a name that only SQLite can read
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
