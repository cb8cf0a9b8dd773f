"""Files with their content: limits, lifetimes, and what a crash leaves."""

import asyncio
import os
import time
from pathlib import Path

import pytest

from server.errors import BodyTooLarge, NotFound, Unavailable
from server.store.files.base import StoredFile
from server.store.files.folder import CHUNK, FileFolder, read
from server.store.files.library import FileInfo, FileLibrary, FileLimits
from server.store.files.memory import MemoryFiles

INFO = FileInfo("x.csv", "user_data")
START = 1_700_000_000.0


class Library(FileLibrary):
    """With a clock that tests set."""

    def __init__(self, folder: Path | None, **limits: int) -> None:
        self.time = START
        self.folder = FileFolder(folder)
        values = FileLimits(**({"file": 1 << 30, "total": 1 << 30} | limits))
        super().__init__(MemoryFiles(), self.folder, values, now=lambda: self.time)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "new" / "files"


def names(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


def mode(folder: Path) -> int:
    return folder.stat().st_mode & 0o777


async def add(library: FileLibrary, content: bytes, info: FileInfo = INFO) -> StoredFile:
    async with library.staging("a") as staging:
        await staging.write(content)
        return await library.add(staging, info)


async def test_a_file_of_several_pieces_is_read_as_it_was_written(folder: Path) -> None:
    library = Library(folder)
    content = os.urandom(2 * CHUNK + 1)
    async with library.staging("a") as staging:
        for first in range(0, len(content), 100_000):
            await staging.write(content[first : first + 100_000])
        assert b"".join([piece async for piece in staging.file.read()]) == content
        file = await library.add(staging, INFO)
    assert file.size == len(content)
    pieces = [piece async for piece in read(await library.content("a", file.id))]
    assert b"".join(pieces) == content
    assert max(map(len, pieces)) <= CHUNK


async def test_the_folder_is_private(folder: Path) -> None:
    file = await add(Library(folder), b"x")
    assert mode(folder) == 0o700
    assert names(folder) == [file.id]


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
async def test_a_full_disk_is_no_defect(folder: Path) -> None:
    library = Library(folder)

    async def fill() -> None:
        async with library.staging("a") as staging:
            assert staging.file._file is not None
            full = os.open("/dev/full", os.O_WRONLY)
            os.dup2(full, staging.file._file.fileno())
            os.close(full)
            await staging.write(bytes(CHUNK))

    with pytest.raises(Unavailable):
        await fill()
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


async def test_a_key_has_so_many_files(folder: Path) -> None:
    library = Library(folder, files=1)
    await add(library, b"")
    with pytest.raises(BodyTooLarge) as caught:
        await add(library, b"")
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
    path = await library.content("a", file.id)
    assert mode(path.parent) == 0o700
    library.close()
    library.close()
    assert not path.parent.exists()


async def test_concurrent_uploads_do_not_mix(folder: Path) -> None:
    library = Library(folder)
    contents = [bytes([number]) * 300_000 for number in range(8)]
    files = await asyncio.gather(*(add(library, content) for content in contents))
    for file, content in zip(files, contents, strict=True):
        assert (await library.content("a", file.id)).read_bytes() == content
