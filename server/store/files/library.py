"""Uploaded files with their content: rows of the store, contents of a folder, and their limits."""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import BinaryIO
from weakref import WeakValueDictionary

from adapters.completion import completed
from server.errors import BodyTooLarge, NotFound, Unavailable
from server.ids import new_id
from server.store.files.base import FileStore, StoredFile
from server.store.files.folder import FileFolder, StagedFile
from server.store.lists import ListQuery, Page

logger = logging.getLogger(__name__)

MOST_FILES = 10_000
"""Files of one owner."""


@dataclass(frozen=True, slots=True)
class FileLimits:
    """file: bytes of one file. total: bytes of all files of one owner. files: their number."""

    file: int
    total: int
    files: int = MOST_FILES


@dataclass(frozen=True, slots=True)
class FileInfo:
    """What a client says of a file. lifetime: seconds, None for no limit of its own."""

    filename: str
    purpose: str
    lifetime: int | None = None


class FileLibrary:
    """The files of all owners.

    now: Unix seconds. The store raises StoreUnavailable from every method that uses it. Where the
    disk is full or fails, methods that need a content raise Unavailable.
    """

    def __init__(
        self,
        store: FileStore,
        folder: FileFolder,
        limits: FileLimits,
        *,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.limits = limits
        self._store = store
        self._folder = folder
        self._now = now
        # Each lives as long as an upload of its owner's.
        self._accounts: WeakValueDictionary[str, _Account] = WeakValueDictionary()

    @asynccontextmanager
    async def staging(self, owner: str) -> AsyncGenerator["Staging"]:
        """A place for an upload of the owner's. It is deleted unless `add` keeps it.

        Raises BodyTooLarge if the owner has as many files as allowed.
        """
        account = self._accounts.setdefault(owner, _Account())

        async def count() -> None:
            async with account.lock:
                await self._count(owner, account)

        await count()
        async with self._staged(owner, account, count) as staging:
            yield staging

    @asynccontextmanager
    async def temporary(self, owner: str) -> AsyncGenerator["Staging"]:
        """A place for an upload that does not become one of the owner's files.

        Their number and size do not limit it; the owner's uploads in progress do.
        """
        account = self._accounts.setdefault(owner, _Account())
        async with self._staged(owner, account, None) as staging:
            yield staging

    @asynccontextmanager
    async def _staged(
        self, owner: str, account: "_Account", count: Callable[[], Awaitable[None]] | None
    ) -> AsyncGenerator["Staging"]:
        with _disk():
            file = await asyncio.to_thread(self._folder.stage)
        staging = Staging(owner, file, self.limits, account, count)
        try:
            yield staging
        finally:
            staging.release()
            await file.discard()

    async def add(self, staging: "Staging", info: FileInfo) -> StoredFile:
        """Keep a staged upload as a file.

        Raises BodyTooLarge if the owner's other files have left no room for it since it began, and
        Unavailable where the disk or the store fails. No file is left where the disk fails.
        """
        now = int(self._now())
        expires_at = None if info.lifetime is None else now + info.lifetime
        size = staging.file.size
        stored = StoredFile(
            staging.owner,
            # OpenAI's ids of files have a hyphen.
            new_id("file").replace("_", "-"),
            info.filename,
            info.purpose,
            size,
            now,
            expires_at,
        )
        async with staging.account.lock:
            await self._count(staging.owner, staging.account)
            if staging.account.stored + size > self.limits.total:
                raise _too_many_bytes(self.limits)
            try:
                # The row comes first: a crash then leaves no content that nobody knows of.
                await completed(self._store.put(stored))
                with _disk():
                    await completed(staging.file.keep(stored.id))
            except BaseException:
                # The row may be there although its acknowledgement was lost.
                await completed(self._forget(stored))
                raise
            staging.account.stored += size
            staging.release()
        return stored

    async def get(self, owner: str, file_id: str, *, param: str = "file_id") -> StoredFile:
        """The owner's file. Raises NotFound for `param`."""
        file = await self._store.get(owner, file_id, self._now())
        if file is None:
            raise _not_found(file_id, param)
        return file

    async def open(self, owner: str, file_id: str) -> BinaryIO:
        """The content of the owner's file, which stays readable if the file is deleted meanwhile.

        The caller closes it. Raises NotFound, and Unavailable where the disk fails.
        """
        file = await self.get(owner, file_id)
        with _disk():
            content = await asyncio.to_thread(self._folder.open, file.id)
        if content is None:
            logger.warning("the content of %s is missing in the folder of files", file.id)
            raise _not_found(file_id, "file_id")
        return content

    async def list(
        self, owner: str, query: ListQuery, *, purpose: str | None = None
    ) -> Page[StoredFile]:
        """A page of the owner's files. purpose: None for any."""
        return await self._store.list(owner, query, self._now(), purpose=purpose)

    async def delete(self, owner: str, file_id: str) -> None:
        """Delete the owner's file and its content.

        Raises NotFound, and Unavailable where the disk fails.
        """
        file = await self.get(owner, file_id)
        with _disk():
            await self._delete(file)

    async def sweep(self, age: float) -> int:
        """Delete files that have expired or are older than `age` seconds; return their number.

        A file that cannot be deleted stays until a later call.
        """
        deleted = 0
        now = self._now()
        last = ""
        while expired := await self._store.expired(now, now - age, after=last):
            for file in expired:
                try:
                    await self._delete(file)
                    deleted += 1
                except OSError as error:
                    logger.error("%s cannot be deleted: %s", file.id, error.strerror)
            last = expired[-1].id
        await asyncio.to_thread(self._folder.sweep)
        return deleted

    def close(self) -> None:
        """Delete contents that end with the process."""
        self._folder.close()

    async def _count(self, owner: str, account: "_Account") -> None:
        usage = await self._store.usage(owner, self._now())
        account.stored = usage.size
        if usage.count >= self.limits.files:
            raise _storage_full(f"You have {usage.count} files, which is the limit.")

    async def _forget(self, file: StoredFile) -> None:
        """Delete a file that could not be kept. The error that it had is more than a second one."""
        try:
            await self._delete(file)
        except (Unavailable, OSError) as error:
            logger.error("%s may be left without content: %s", file.id, type(error).__name__)

    async def _delete(self, file: StoredFile) -> None:
        # The content goes first: a crash then leaves a row, which can be deleted again.
        await asyncio.to_thread(self._folder.delete, file.id)
        await self._store.delete(file.owner, file.id)


class _Account:
    """What an owner's files and uploads take.

    lock: held while files are counted and added, so that no count is out of date; never while
    bytes of an upload are awaited. stored: bytes of the files, as last counted. staged: bytes of
    uploads in progress in this process; those of other gateways are not known.
    """

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.stored = 0
        self.staged = 0


class Staging:
    """An upload in progress, within the limits of its owner.

    count: counts the owner's files again, since some may have been deleted; None if they do not
    limit the upload.
    """

    def __init__(
        self,
        owner: str,
        file: StagedFile,
        limits: FileLimits,
        account: _Account,
        count: Callable[[], Awaitable[None]] | None,
    ) -> None:
        self.owner = owner
        self.file = file
        self.account = account
        self._limits = limits
        self._count = count
        self._staged = 0

    @property
    def limit(self) -> int:
        """The most bytes of the file."""
        return self._limits.file

    async def write(self, data: bytes) -> None:
        """Append bytes.

        Raises BodyTooLarge, Unavailable where the disk fails, and StoreUnavailable.
        """
        if self.file.size + len(data) > self._limits.file:
            raise BodyTooLarge(
                f"The file is larger than {self._limits.file} bytes.",
                param="file",
                code="file_too_large",
            )
        if self._exceeds(len(data)) and self._count is not None:
            await self._count()
        if self._exceeds(len(data)):
            raise _too_many_bytes(self._limits)
        self.account.staged += len(data)
        self._staged += len(data)
        with _disk():
            await self.file.write(data)

    async def read(self) -> AsyncIterator[bytes]:
        """The content so far, in pieces. Raises Unavailable where the disk fails."""
        with _disk():
            async for piece in self.file.read():
                yield piece

    def _exceeds(self, size: int) -> bool:
        stored = 0 if self._count is None else self.account.stored
        return stored + self.account.staged + size > self._limits.total

    def release(self) -> None:
        """The upload has ended: its bytes are stored, or deleted. Safe to call twice."""
        self.account.staged -= self._staged
        self._staged = 0


@contextmanager
def _disk() -> Iterator[None]:
    """Turn errors of the file system into an error for clients."""
    try:
        yield
    except OSError as error:
        logger.error("the folder of files fails: %s", error.strerror)
        raise Unavailable(
            "The server cannot write, read or delete files now.", code="file_storage_unavailable"
        ) from error


def _too_many_bytes(limits: FileLimits) -> BodyTooLarge:
    return _storage_full(f"Your files would take more than {limits.total} bytes.")


def _storage_full(reason: str) -> BodyTooLarge:
    return BodyTooLarge(f"{reason} Delete some.", param="file", code="storage_full")


def _not_found(file_id: str, param: str) -> NotFound:
    return NotFound(f"No such File object: {file_id}", param=param)
