"""Uploaded files in this process's memory, without their content."""

from server.store.files.base import FileUsage, StoredFile
from server.store.lists import ListQuery, Page, page_in_memory


class MemoryFiles:
    """Stores files until the process ends. `FileLibrary` limits their number."""

    def __init__(self) -> None:
        self._files: dict[str, StoredFile] = {}

    async def put(self, file: StoredFile) -> None:
        """Store it."""
        self._files[file.id] = file

    async def get(self, owner: str, file_id: str, now: float) -> StoredFile | None:
        """Look it up."""
        file = self._files.get(file_id)
        found = file is not None and file.owner == owner and not _is_expired(file, now)
        return file if found else None

    async def list(
        self, owner: str, query: ListQuery, now: float, *, purpose: str | None = None
    ) -> Page[StoredFile]:
        """List in the order of insertion."""
        return page_in_memory(
            [file for file in self._files.values() if file.owner == owner],
            query,
            lambda file: file.id,
            lambda file: purpose in (None, file.purpose) and not _is_expired(file, now),
        )

    async def delete(self, owner: str, file_id: str) -> bool:
        """Delete it."""
        file = self._files.get(file_id)
        if file is None or file.owner != owner:
            return False
        del self._files[file_id]
        return True

    async def usage(self, owner: str, now: float) -> FileUsage:
        """Add up the owner's files."""
        sizes = [
            file.size
            for file in self._files.values()
            if file.owner == owner and not _is_expired(file, now)
        ]
        return FileUsage(len(sizes), sum(sizes))

    async def expired(
        self, now: float, created_before: float, *, after: str = ""
    ) -> tuple[StoredFile, ...]:
        """Return all of them."""
        return tuple(
            file
            for file_id, file in sorted(self._files.items())
            if file_id > after and (_is_expired(file, now) or file.created_at < created_before)
        )


def _is_expired(file: StoredFile, now: float) -> bool:
    return file.expires_at is not None and file.expires_at <= now
