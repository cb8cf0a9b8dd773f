"""Files with their content: limits, lifetimes, and what a crash leaves."""

import asyncio
import os
import time
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from server.errors import BodyTooLarge, NotFound, Unavailable
from server.store.errors import StoreUnavailable
from server.store.files.base import FileStore, StoredFile
from server.store.files.folder import FileFolder, StagedFile
from server.store.files.library import FileInfo, FileLibrary, FileLimits
from server.store.files.memory import MemoryFiles
from server.store.lists import ListQuery
from server.store.responses.base import Store
from server.threads import CHUNK, read

INFO = FileInfo("x.csv", "user_data")
START = 1_700_000_000.0


class Library(FileLibrary):
    """With a clock that tests set."""

    def __init__(self, folder: Path | None, store: FileStore | None = None, **limits: int) -> None:
        self.time = START
        self.folder = FileFolder(folder)
        values = FileLimits(**({"file": 1 << 30, "total": 1 << 30} | limits))
        super().__init__(store or MemoryFiles(), self.folder, values, now=lambda: self.time)


class Stalled(MemoryFiles):
    """Stores no file of the owner "stalled" until the event is set."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting, self.released = asyncio.Event(), asyncio.Event()

    async def put(self, file: StoredFile) -> None:
        if file.owner == "stalled":
            self.waiting.set()
            await self.released.wait()
        await super().put(file)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "new" / "files"


def names(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


def mode(folder: Path) -> int:
    return folder.stat().st_mode & 0o777


async def add(
    library: FileLibrary, content: bytes, info: FileInfo = INFO, owner: str = "a"
) -> StoredFile:
    async with library.staging(owner) as staging:
        await staging.write(content)
        return await library.add(staging, info)


async def whole(library: FileLibrary, file: StoredFile) -> bytes:
    with await library.open(file.owner, file.id) as content:
        return content.read()


async def test_a_content_that_is_open_can_be_read_after_the_file_is_deleted(folder: Path) -> None:
    library = Library(folder)
    file = await add(library, b"abc")
    with await library.open("a", file.id) as content:
        await library.delete("a", file.id)
        assert names(folder) == []
        assert content.read() == b"abc"


async def test_a_file_of_several_pieces_is_read_as_it_was_written(folder: Path) -> None:
    library = Library(folder)
    content = os.urandom(2 * CHUNK + 1)
    async with library.staging("a") as staging:
        for first in range(0, len(content), 100_000):
            await staging.write(content[first : first + 100_000])
        assert b"".join([piece async for piece in staging.file.read()]) == content
        file = await library.add(staging, INFO)
    assert file.size == len(content)
    with await library.open("a", file.id) as opened:
        pieces = [piece async for piece in read(opened)]
    assert b"".join(pieces) == content
    assert max(map(len, pieces)) <= CHUNK


async def test_the_folder_is_private(folder: Path) -> None:
    file = await add(Library(folder), b"x")
    assert mode(folder) == 0o700
    assert names(folder) == [file.id]


async def test_a_content_is_private_in_a_folder_that_is_not(tmp_path: Path) -> None:
    os.chmod(tmp_path, 0o755)
    file = await add(Library(tmp_path), b"x")
    assert mode(tmp_path / file.id) == 0o600


async def test_what_is_not_added_is_deleted(folder: Path) -> None:
    library = Library(folder)

    async def fail() -> None:
        async with library.staging("a") as staging:
            await staging.write(b"x")
            raise RuntimeError("the client left")

    with pytest.raises(RuntimeError, match="the client left"):
        await fail()
    assert names(folder) == []


async def test_a_disk_that_fails_is_no_defect(folder: Path) -> None:
    folder.parent.touch()
    with pytest.raises(Unavailable) as caught:
        await add(Library(folder), b"x")
    assert caught.value.code == "file_storage_unavailable"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
@pytest.mark.parametrize("size", [CHUNK, 1], ids=["while it is written", "when it is read"])
async def test_a_full_disk_is_no_defect(folder: Path, size: int) -> None:
    library = Library(folder)

    async def fill() -> None:
        async with library.temporary("a") as staging:
            assert staging.file._file is not None
            full = os.open("/dev/full", os.O_WRONLY)
            os.dup2(full, staging.file._file.fileno())
            os.close(full)
            await staging.write(bytes(size))
            async for _ in staging.read():
                raise AssertionError("nothing was written")

    with pytest.raises(Unavailable):
        await fill()
    assert names(folder) == []


async def test_a_file_that_cannot_be_kept_leaves_no_row(
    folder: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(staged: StagedFile, path: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(StagedFile, "_keep", fail)
    library = Library(folder, store.files, total=10)
    async with library.staging("a") as other:
        with pytest.raises(Unavailable):
            await add(library, b"123456")
        assert (await store.files.usage("a", START)).count == 0
        # Its bytes are free again.
        await other.write(b"1234567890")


async def test_a_file_whose_client_leaves_while_it_is_kept_is_forgotten(
    folder: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    began, goes_on = asyncio.Event(), asyncio.Event()
    plain = StagedFile.keep

    async def keep(staged: StagedFile, file_id: str) -> None:
        began.set()
        await goes_on.wait()
        await plain(staged, file_id)

    monkeypatch.setattr(StagedFile, "keep", keep)
    adding = asyncio.create_task(add(Library(folder, store.files), b"x"))
    await began.wait()
    adding.cancel()
    goes_on.set()
    with pytest.raises(asyncio.CancelledError):
        await adding
    assert (await store.files.usage("a", START)).count == 0
    assert names(folder) == []


async def test_a_row_that_cannot_be_deleted_hides_no_failure_of_the_disk(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(staged: StagedFile, path: Path) -> None:
        raise OSError(28, "No space left on device")

    async def delete(owner: str, file_id: str) -> bool:
        raise StoreUnavailable("the store is away")

    store = MemoryFiles()
    monkeypatch.setattr(StagedFile, "_keep", fail)
    monkeypatch.setattr(store, "delete", delete)
    with pytest.raises(Unavailable) as caught:
        await add(Library(folder, store), b"x")
    assert caught.value.code == "file_storage_unavailable"
    assert "may be left without content: StoreUnavailable" in caplog.text


async def test_a_row_whose_acknowledgement_is_lost_is_deleted_again(folder: Path) -> None:
    class Unacknowledged(MemoryFiles):
        async def put(self, file: StoredFile) -> None:
            await super().put(file)
            raise StoreUnavailable("the store is away")

    store = Unacknowledged()
    with pytest.raises(StoreUnavailable):
        await add(Library(folder, store), b"x")
    assert (await store.usage("a", START)).count == 0
    assert names(folder) == []


async def test_a_file_whose_client_leaves_while_its_row_is_stored_is_forgotten(
    folder: Path,
) -> None:
    class Acknowledging(Stalled):
        async def put(self, file: StoredFile) -> None:
            await MemoryFiles.put(self, file)
            await super().put(file)

    store = Acknowledging()
    adding = asyncio.create_task(add(Library(folder, store), b"x", owner="stalled"))
    await store.waiting.wait()
    adding.cancel()
    store.released.set()
    with pytest.raises(asyncio.CancelledError):
        await adding
    assert (await store.usage("stalled", START)).count == 0
    assert names(folder) == []


async def test_uploads_in_progress_count(folder: Path) -> None:
    library = Library(folder, total=10)
    async with library.staging("a") as first, library.staging("a") as second:
        await first.write(b"123456")
        with pytest.raises(BodyTooLarge) as caught:
            await second.write(b"12345")
        assert caught.value.code == "storage_full"
        await second.write(b"1234")
    async with library.staging("a") as third:
        await third.write(b"1234567890")


async def test_a_file_counts_for_uploads_that_began_before_it(folder: Path, store: Store) -> None:
    library = Library(folder, store.files, total=10)
    async with library.staging("a") as early:
        await add(library, b"123456")
        with pytest.raises(BodyTooLarge) as caught:
            await early.write(b"12345")
        assert caught.value.code == "storage_full"
        await early.write(b"1234")
        await library.add(early, INFO)
    assert (await store.files.usage("a", START)).size == 10


async def test_a_file_of_another_gateway_counts_when_an_upload_ends(
    folder: Path, store: Store
) -> None:
    here, there = (Library(folder, store.files, total=10) for _ in range(2))
    async with here.staging("a") as staging:
        await staging.write(b"12345")
        file = await add(there, b"123456")
        with pytest.raises(BodyTooLarge) as caught:
            await here.add(staging, INFO)
    assert caught.value.code == "storage_full"
    assert names(folder) == [file.id]


async def test_an_upload_in_progress_gets_the_room_of_a_deleted_file(folder: Path) -> None:
    library = Library(folder, total=10)
    file = await add(library, b"123456")
    async with library.staging("a") as staging:
        await staging.write(b"1234")
        await library.delete("a", file.id)
        await staging.write(b"567890")
        await library.add(staging, INFO)
    assert (await library.list("a", ListQuery(9, "desc"))).entries[0].size == 10


async def test_files_do_not_limit_uploads_that_become_none(folder: Path) -> None:
    library = Library(folder, total=10, files=1)
    await add(library, b"1234567890")
    async with library.temporary("a") as staging:
        await staging.write(b"1234567890")
        async with library.temporary("a") as other:
            with pytest.raises(BodyTooLarge):
                await other.write(b"1")


async def test_a_refused_upload_makes_room_for_others(folder: Path) -> None:
    library = Library(folder, total=10)
    async with library.staging("a") as other:
        async with library.staging("a") as refused:
            await refused.write(b"123456")
            with pytest.raises(BodyTooLarge):
                await refused.write(b"12345")
        await other.write(b"1234567890")


async def test_uploads_that_end_together_are_not_more_files_than_allowed(
    folder: Path, store: Store
) -> None:
    library = Library(folder, store.files, files=2)
    async with AsyncExitStack() as stack:
        uploads = [await stack.enter_async_context(library.staging("a")) for _ in range(5)]
        ended = await asyncio.gather(
            *(library.add(upload, INFO) for upload in uploads), return_exceptions=True
        )
    refused = [error.code for error in ended if isinstance(error, BodyTooLarge)]
    assert refused == ["storage_full"] * 3
    assert (await store.files.usage("a", START)).count == 2


async def test_owners_do_not_wait_for_each_other(folder: Path) -> None:
    store = Stalled()
    library = Library(folder, store)
    stalled = asyncio.create_task(add(library, b"x", owner="stalled"))
    await store.waiting.wait()
    file = await add(library, b"y")
    assert not stalled.done()
    store.released.set()
    assert {file.id, (await stalled).id} == set(names(folder))


async def test_a_key_has_so_many_files(folder: Path) -> None:
    library = Library(folder, files=1)
    await add(library, b"")
    with pytest.raises(BodyTooLarge) as caught:
        await add(library, b"")
    assert caught.value.code == "storage_full"


async def test_an_upload_that_would_be_one_file_too_many_does_not_begin(folder: Path) -> None:
    library = Library(folder, files=1)
    await add(library, b"")
    with pytest.raises(BodyTooLarge) as caught:
        await library.staging("a").__aenter__()
    assert caught.value.code == "storage_full"


async def test_an_upload_is_refused_where_earlier_files_leave_no_room_for_its_bytes(
    folder: Path,
) -> None:
    store = MemoryFiles()
    await add(Library(folder, store), b"123456")
    library = Library(folder, store, total=10)
    async with library.staging("a") as staging:
        await staging.write(b"1234")
        with pytest.raises(BodyTooLarge) as caught:
            await staging.write(b"5")
    assert caught.value.code == "storage_full"


async def test_a_file_has_so_many_bytes(folder: Path) -> None:
    library = Library(folder, file=3)
    await add(library, b"123")
    with pytest.raises(BodyTooLarge) as caught:
        await add(library, b"1234")
    assert caught.value.code == "file_too_large"


async def test_expired_and_old_files_are_swept_with_their_content(folder: Path) -> None:
    library = Library(folder)
    await add(library, b"x")
    library.time += 1000
    expiring = await add(library, b"y", FileInfo("y", "batch", 3600))
    staying = await add(library, b"z")
    assert await library.sweep(999) == 1
    library.time += 3600
    with pytest.raises(NotFound):
        await library.get("a", expiring.id)
    assert await library.sweep(float("inf")) == 1
    assert names(folder) == [staying.id]


class Undeletable(FileFolder):
    """Contents that are none of this user's."""

    def delete(self, file_id: str) -> None:
        raise PermissionError(1, "Operation not permitted")

    def open(self, file_id: str) -> None:
        raise PermissionError(13, "Permission denied")


@pytest.fixture
def undeletable(monkeypatch: pytest.MonkeyPatch, folder: Path) -> Library:
    library = Library(folder)
    for name in ("open", "delete"):
        monkeypatch.setattr(library.folder, name, getattr(Undeletable(folder), name))
    return library


async def test_a_file_that_cannot_be_deleted_or_opened_is_no_defect(undeletable: Library) -> None:
    file = await add(undeletable, b"x")
    for attempt in (undeletable.delete("a", file.id), undeletable.open("a", file.id)):
        with pytest.raises(Unavailable) as caught:
            await attempt
        assert caught.value.code == "file_storage_unavailable"
    assert await undeletable.get("a", file.id) == file


async def test_a_sweep_goes_on_after_files_that_cannot_be_deleted(
    folder: Path, store: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("server.store.files.sql._AT_ONCE", 1)
    library = Library(folder, store.files)
    files = [await add(library, b"x") for _ in range(3)]
    library.time += 1000
    delete = library.folder.delete

    def refuse(file_id: str) -> None:
        if file_id == files[0].id:
            raise PermissionError(1, "Operation not permitted")
        delete(file_id)

    monkeypatch.setattr(library.folder, "delete", refuse)
    assert await library.sweep(999) == 2
    assert names(folder) == [files[0].id]
    assert f"{files[0].id} cannot be deleted: Operation not permitted" in caplog.text
    monkeypatch.undo()
    assert await library.sweep(999) == 1


async def test_a_part_that_cannot_be_deleted_does_not_keep_others(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.makedirs(folder)
    for name in ("one", "two"):
        (folder / f".partial-{name}").touch()
        os.utime(folder / f".partial-{name}", (0, 0))
    unlink = Path.unlink

    def refuse(path: Path) -> None:
        if path.name.endswith("one"):
            raise PermissionError(1, "Operation not permitted")
        unlink(path)

    monkeypatch.setattr(Path, "unlink", refuse)
    await Library(folder).sweep(1)
    assert names(folder) == [".partial-one"]


async def test_old_parts_of_uploads_are_swept(folder: Path) -> None:
    library = Library(folder)
    await library.sweep(1)
    os.makedirs(folder)
    for name in ("old", "new"):
        (folder / f".partial-{name}").touch()
    day = time.time() - 2 * 86_400
    os.utime(folder / ".partial-old", (day, day))
    await library.sweep(1)
    assert names(folder) == [".partial-new"]


async def test_a_temporary_folder_ends_with_the_library() -> None:
    library = Library(None)
    await library.sweep(1)
    assert library.folder.path("file-1") is None
    file = await add(library, b"x")
    path = library.folder.path(file.id)
    assert path is not None
    assert mode(path.parent) == 0o700
    library.close()
    library.close()
    assert not path.parent.exists()


async def test_concurrent_uploads_do_not_mix(folder: Path) -> None:
    library = Library(folder)
    contents = [bytes([number]) * 300_000 for number in range(8)]
    files = await asyncio.gather(*(add(library, content) for content in contents))
    for file, content in zip(files, contents, strict=True):
        assert await whole(library, file) == content


async def test_uploads_that_begin_together_share_a_temporary_folder() -> None:
    for _ in range(20):
        library = Library(None)
        files = await asyncio.gather(*(add(library, bytes([number])) for number in range(8)))
        assert [await whole(library, file) for file in files] == [bytes([n]) for n in range(8)]
        library.close()
