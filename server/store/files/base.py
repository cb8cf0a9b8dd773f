"""The protocol for uploaded files, and their stored form. Their content is in a folder."""

from dataclasses import dataclass
from typing import Any, Protocol

from server.store.lists import ListQuery, Page


@dataclass(frozen=True, slots=True)
class StoredFile:
    """An uploaded file without its content.

    owner: the digest of an API key. size: bytes. created_at, expires_at: Unix seconds; None for a
    file that expires with `--store-ttl` only.
    """

    owner: str
    id: str
    filename: str
    purpose: str
    size: int
    created_at: int
    expires_at: int | None = None

    def to_api(self) -> dict[str, Any]:
        """Return the API's object."""
        expiry = {} if self.expires_at is None else {"expires_at": self.expires_at}
        return {
            "id": self.id,
            "object": "file",
            "bytes": self.size,
            "created_at": self.created_at,
            **expiry,
            "filename": self.filename,
            "purpose": self.purpose,
            "status": "processed",
            "status_details": None,
        }


@dataclass(frozen=True, slots=True)
class FileUsage:
    """How many files an owner has, and their bytes together."""

    count: int
    size: int


class FileStore(Protocol):
    """Stores files for their owners. Other owners do not find them.

    Times are Unix seconds. All methods raise StoreUnavailable.
    """

    async def put(self, file: StoredFile) -> None:
        """Store a file under its new id."""
        ...

    async def get(self, owner: str, file_id: str, now: float) -> StoredFile | None:
        """Return the owner's file; None if there is none, or if it has expired at `now`."""
        ...

    async def list(
        self, owner: str, query: ListQuery, now: float, *, purpose: str | None = None
    ) -> Page[StoredFile]:
        """Return a page of the owner's files that have not expired at `now`.

        `query.after` may be deleted: see `read_rows`. purpose: None for any.
        """
        ...

    async def delete(self, owner: str, file_id: str) -> bool:
        """Delete the owner's file; False if there is none."""
        ...

    async def usage(self, owner: str, now: float) -> FileUsage:
        """Return what the owner's files take that have not expired at `now`."""
        ...

    async def expired(
        self, now: float, created_before: float, *, after: str = ""
    ) -> tuple[StoredFile, ...]:
        """Return some files that have expired at `now` or are older, by id.

        after: the last id of an earlier call. Empty if no more follow.
        """
        ...
