"""Containers and their files, in memory and in databases alike."""

from dataclasses import asdict, replace

import pytest

from server.store.containers.base import Container, ContainerFile
from server.store.lists import ListQuery
from server.store.responses.base import Store
from server.store.tables import container_files
from tests.server.store.conftest import Database, until_blocked

START = 1_700_000_000
END = START + 20 * 60
BOX = Container("a", "cntr_1", "é", START, START, 20, "1g")
FILE = ContainerFile("cfile_1", "cntr_1", "x.csv", 5, "user", START, 1_700_000_000_123_456_789)


async def three(store: Store) -> None:
    for number in (1, 2, 3):
        await store.containers.create(replace(BOX, id=f"cntr_{number}", name=f"n{number}"))


async def ids(
    store: Store, query: ListQuery, now: float = START, name: str | None = None
) -> tuple[list[str], bool]:
    page = await store.containers.list("a", query, now, name=name)
    return [each.id for each in page.entries], page.has_more


async def test_what_is_created_is_found(store: Store) -> None:
    await store.containers.create(BOX)
    assert await store.containers.get("a", "cntr_1") == BOX
    assert await store.containers.get("a", "cntr_2") is None


async def test_another_owner_finds_none(store: Store) -> None:
    await store.containers.create(BOX)
    assert await store.containers.get("b", "cntr_1") is None
    assert not (await store.containers.list("b", ListQuery(9, "asc"), START)).entries
    assert not await store.containers.delete("b", "cntr_1")
    assert await store.containers.count("b", START) == 0


async def test_containers_are_listed_page_by_page(store: Store) -> None:
    await three(store)
    assert await ids(store, ListQuery(2, "desc")) == (["cntr_3", "cntr_2"], True)
    assert await ids(store, ListQuery(2, "desc", "cntr_2")) == (["cntr_1"], False)
    assert await ids(store, ListQuery(9, "asc", "cntr_1")) == (
        ["cntr_2", "cntr_3"],
        False,
    )
    assert await ids(store, ListQuery(9, "desc", "x")) == ([], False)
    assert await ids(store, ListQuery(9, "desc"), name="n2") == (["cntr_2"], False)


async def test_the_running_ones_among_many_are_found(store: Store) -> None:
    await three(store)
    await store.containers.touch("cntr_2", END - 1)
    given = ["cntr_1", "cntr_2", "cntr_9"]
    assert await store.containers.running(given, START) == {"cntr_1", "cntr_2"}
    assert await store.containers.running(given, END) == {"cntr_2"}


async def test_activity_prolongs_the_life(store: Store) -> None:
    await store.containers.create(BOX)
    assert await store.containers.touch("cntr_1", END - 1)
    assert await store.containers.idle(END) == ()
    assert await store.containers.count("a", END) == 1
    assert await store.containers.get("a", "cntr_1") == replace(BOX, last_active_at=END - 1)


async def test_a_container_that_is_over_is_listed_nowhere_and_cannot_be_touched(
    store: Store,
) -> None:
    await store.containers.create(BOX)
    assert not await store.containers.touch("cntr_1", END)
    assert not await store.containers.touch("cntr_9", END)
    assert await ids(store, ListQuery(9, "desc"), END) == ([], False)
    assert await store.containers.count("a", END) == 0
    assert await store.containers.idle(END) == (BOX,)


async def test_an_expired_container_has_no_files_and_is_purged_later(store: Store) -> None:
    await store.containers.create(BOX)
    await store.containers.change_files("cntr_1", [FILE])
    assert not await store.containers.expire("cntr_1", END - 1)
    assert await store.containers.files("cntr_1") == (FILE,)
    assert await store.containers.expire("cntr_1", END)
    assert not await store.containers.expire("cntr_9", END)
    assert await store.containers.get("a", "cntr_1") == replace(BOX, expired=True)
    assert await store.containers.files("cntr_1") == ()
    assert await store.containers.idle(END) == ()
    assert await store.containers.purge(START) == 0
    assert await store.containers.purge(START + 1) == 1
    assert await store.containers.get("a", "cntr_1") is None


async def test_an_expired_container_stays_over_for_a_clock_that_is_late(store: Store) -> None:
    await store.containers.create(BOX)
    assert await store.containers.expire("cntr_1", END)
    assert not await store.containers.touch("cntr_1", START)
    assert await store.containers.running(["cntr_1"], START) == frozenset()
    assert await store.containers.count("a", START) == 0
    assert await ids(store, ListQuery(9, "desc")) == ([], False)


async def test_a_deleted_container_takes_its_files_with_it(store: Store) -> None:
    await store.containers.create(BOX)
    await store.containers.change_files("cntr_1", [FILE])
    assert await store.containers.delete("a", "cntr_1")
    assert await store.containers.file("cntr_1", "cfile_1") is None
    assert await store.containers.files("cntr_1") == ()


async def test_files_are_found_and_deleted(store: Store) -> None:
    await store.containers.create(BOX)
    copied = replace(FILE, id="cfile_2", path="y.csv", origin="file-1")
    await store.containers.change_files("cntr_1", [FILE, copied])
    assert await store.containers.files("cntr_1") == (FILE, copied)
    assert await store.containers.file("cntr_1", "cfile_2") == copied
    assert await store.containers.file("cntr_2", "cfile_2") is None
    await store.containers.change_files("cntr_2", [], ["cfile_1"])
    await store.containers.change_files("cntr_1", [], ["cfile_1", "cfile_9"])
    assert await store.containers.files("cntr_1") == (copied,)


async def test_a_file_replaces_the_one_at_its_path(store: Store) -> None:
    await store.containers.create(BOX)
    await store.containers.change_files("cntr_1", [FILE])
    changed = replace(FILE, size=7, source="assistant")
    await store.containers.change_files("cntr_1", [changed])
    assert await store.containers.files("cntr_1") == (changed,)
    other = replace(FILE, id="cfile_9")
    await store.containers.change_files("cntr_1", [other])
    assert await store.containers.files("cntr_1") == (other,)


async def test_a_file_in_place_of_another_is_the_newest(store: Store) -> None:
    await store.containers.create(BOX)
    other = replace(FILE, id="cfile_2", path="y.csv")
    await store.containers.change_files("cntr_1", [FILE, other])
    again = replace(FILE, id="cfile_3")
    await store.containers.change_files("cntr_1", [again])
    assert await store.containers.files("cntr_1") == (other, again)


@pytest.mark.parametrize("first", ["user", "assistant"])
async def test_a_content_that_two_gateways_record_keeps_its_id(store: Store, first: str) -> None:
    """One got it as an upload, the other found it in the folder after a cell."""
    await store.containers.create(BOX)
    found = replace(FILE, source="assistant", origin=None)
    uploaded = replace(FILE, origin="file-1")
    both = [uploaded, found] if first == "user" else [found, uploaded]
    await store.containers.change_files("cntr_1", both[:1])
    recorded = await store.containers.change_files("cntr_1", [replace(both[1], id="cfile_2")])
    assert [*recorded] == [uploaded]
    assert await store.containers.files("cntr_1") == (uploaded,)


async def test_of_two_gateways_that_write_one_path_the_last_ones_file_stays(
    on_postgres: Database,
) -> None:
    store, other = await on_postgres.open(), await on_postgres.open()
    await store.containers.create(BOX)
    last = replace(FILE, id="cfile_2", size=7)
    async with store.database.writing() as connection:
        insert_first = store.database.insert(container_files).values(asdict(FILE))
        await connection.execute(insert_first)
        writing = await until_blocked(store, other.containers.change_files("cntr_1", [last]))
    await writing
    assert await store.containers.files("cntr_1") == (last,)


async def test_a_file_of_no_container_is_dropped(store: Store) -> None:
    await store.containers.change_files("cntr_1", [FILE])
    assert await store.containers.file("cntr_1", "cfile_1") is None
