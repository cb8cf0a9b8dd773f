"""Uploaded files without their content, in memory and in databases alike."""

import threading
from dataclasses import asdict, replace
from typing import Any
from unittest.mock import Mock

import pytest

from server.store import rows
from server.store.files import sql
from server.store.files.base import FileUsage, StoredFile
from server.store.lists import ListQuery
from server.store.responses.base import Store
from server.store.tables import files
from tests.server.store.conftest import Database

NOW = 1_700_000_000.0
FILE = StoredFile("a", "file-1", "é.csv", "user_data", 5, 1_699_999_000)


async def three(store: Store) -> None:
    for name, purpose in (("file-1", "user_data"), ("file-2", "vision"), ("file-3", "user_data")):
        await store.files.put(replace(FILE, id=name, purpose=purpose))


async def ids(store: Store, query: ListQuery, purpose: str | None = None) -> tuple[list[str], bool]:
    page = await store.files.list("a", query, NOW, purpose=purpose)
    return [file.id for file in page.entries], page.has_more


async def test_what_is_stored_is_found(store: Store) -> None:
    await store.files.put(FILE)
    assert await store.files.get("a", "file-1", NOW) == FILE
    assert await store.files.get("a", "file-2", NOW) is None


async def test_another_owner_finds_none(store: Store) -> None:
    await store.files.put(FILE)
    assert await store.files.get("b", "file-1", NOW) is None
    assert not (await store.files.list("b", ListQuery(10, "asc"), NOW)).entries
    assert not await store.files.delete("b", "file-1")
    assert await store.files.usage("b", NOW) == FileUsage(0, 0)


async def test_files_are_listed_page_by_page(store: Store) -> None:
    await three(store)
    assert await ids(store, ListQuery(2, "desc")) == (["file-3", "file-2"], True)
    assert await ids(store, ListQuery(2, "desc", "file-2")) == (["file-1"], False)
    assert await ids(store, ListQuery(2, "asc", "file-1")) == (["file-2", "file-3"], False)
    assert await ids(store, ListQuery(2, "desc", "file-9")) == ([], False)


async def test_many_files_are_listed_beside_the_event_loop(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await database.open()
    many = [replace(FILE, id=f"file-{number}") for number in range(1001)]
    async with store.database.writing() as connection:
        await rows.insert_all(connection, files, [*map(asdict, many)])
    stored_file = sql._stored
    done_by: set[int] = set()

    def watched(row: Any) -> StoredFile:
        done_by.add(threading.get_ident())
        return stored_file(row)

    read = Mock(wraps=rows.read)
    monkeypatch.setattr(sql, "_stored", watched)
    monkeypatch.setattr(rows, "read", read)
    page = await store.files.list("a", ListQuery(1000, "asc"), NOW)
    assert (page.entries, page.has_more) == (many[:1000], True)
    assert read.call_count == 1  # in parts
    assert done_by
    assert threading.get_ident() not in done_by


async def test_files_are_filtered_by_purpose(store: Store) -> None:
    await three(store)
    assert await ids(store, ListQuery(9, "desc"), "vision") == (["file-2"], False)


async def test_a_deleted_file_is_gone(store: Store) -> None:
    await store.files.put(FILE)
    assert await store.files.delete("a", "file-1")
    assert not await store.files.delete("a", "file-1")
    assert await store.files.get("a", "file-1", NOW) is None


async def test_usage_adds_up(store: Store) -> None:
    await three(store)
    assert await store.files.usage("a", NOW) == FileUsage(3, 15)


async def test_an_expired_file_takes_nothing(store: Store) -> None:
    await store.files.put(replace(FILE, expires_at=int(NOW)))
    assert await store.files.usage("a", NOW - 1) == FileUsage(1, FILE.size)
    assert await store.files.usage("a", NOW) == FileUsage(0, 0)


async def test_an_expired_file_is_not_found_but_swept(store: Store) -> None:
    expiring = replace(FILE, id="file-2", expires_at=int(NOW))
    await store.files.put(FILE)
    await store.files.put(expiring)
    assert await store.files.get("a", "file-2", NOW - 1) == expiring
    assert await store.files.get("a", "file-2", NOW) is None
    assert await ids(store, ListQuery(9, "desc")) == (["file-1"], False)
    assert await store.files.expired(NOW, 0) == (expiring,)


async def test_old_files_are_swept(store: Store) -> None:
    await store.files.put(FILE)
    assert await store.files.expired(NOW, FILE.created_at) == ()
    assert await store.files.expired(NOW, FILE.created_at + 1) == (FILE,)
