"""The protocol for containers and their files, and their stored form.

A container is a Python session with a folder. The session is the sandbox's; the store has what the
API shows of it.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

from server.store.lists import ListQuery, Page

FOLDER = "/mnt/data"
"""The container's folder, as the model knows it."""

Source = Literal["user", "assistant"]


@dataclass(frozen=True, slots=True)
class Container:
    """A container without its files.

    owner: the digest of an API key. created_at, last_active_at: Unix seconds. idle_minutes: minutes
    without activity after which it expires, >= 1. memory_limit: such as `1g`. expired: whether it
    has ended, with its variables and files.
    """

    owner: str
    id: str
    name: str
    created_at: int
    last_active_at: int
    idle_minutes: int
    memory_limit: str
    expired: bool = False

    def is_over(self, now: float) -> bool:
        """Return whether it has expired at `now`, in Unix seconds."""
        return self.expired or self.last_active_at + 60 * self.idle_minutes <= now

    def to_api(self) -> dict[str, Any]:
        """Return the API's object."""
        return {
            "id": self.id,
            "object": "container",
            "created_at": self.created_at,
            "status": "expired" if self.expired else "running",
            "expires_after": {"anchor": "last_active_at", "minutes": self.idle_minutes},
            "last_active_at": self.last_active_at,
            "memory_limit": self.memory_limit,
            "name": self.name,
            "network_policy": {"type": "disabled"},
        }


@dataclass(frozen=True, slots=True)
class ContainerFile:
    """A file of a container.

    path: relative to the container's folder; unique in it. size: bytes. modified: the sandbox's
    time of the last change, in Unix nanoseconds. origin: the id of the uploaded file that it was
    copied from, None for any other.
    """

    id: str
    container_id: str
    path: str
    size: int
    source: Source
    created_at: int
    modified: int
    origin: str | None = None

    @property
    def full_path(self) -> str:
        """The path as the model knows it."""
        return f"{FOLDER}/{self.path}"

    def recorded_after(self, before: "ContainerFile | None") -> "ContainerFile":
        """Return what is stored where `before` is stored for the path already.

        Two gateways may record the same content: the one that it was uploaded to, and one that
        finds it in the folder after a cell. It then keeps the id that a client may know, and is
        the user's if one of them says so.
        """
        if before is None or (before.size, before.modified) != (self.size, self.modified):
            return self
        if self.source == "assistant":
            return before
        return replace(self, id=before.id) if before.source == "assistant" else self

    def to_api(self) -> dict[str, Any]:
        """Return the API's object."""
        return {
            "id": self.id,
            "object": "container.file",
            "bytes": self.size,
            "container_id": self.container_id,
            "created_at": self.created_at,
            "path": self.full_path,
            "source": self.source,
        }


class ContainerStore(Protocol):
    """Stores containers for their owners. Other owners do not find them.

    Times are Unix seconds. All methods raise StoreUnavailable.
    """

    @property
    def outlives_process(self) -> bool:
        """Whether containers are found after a restart."""
        ...

    async def create(self, container: Container) -> None:
        """Store a new container."""
        ...

    async def get(self, owner: str, container_id: str) -> Container | None:
        """Return the owner's container, expired or not; None if there is none."""
        ...

    async def list(
        self, owner: str, query: ListQuery, now: float, *, name: str | None = None
    ) -> Page[Container]:
        """Return a page of the owner's containers that have not expired at `now`.

        `query.after` may be deleted: see `read_rows`. name: None for any.
        """
        ...

    async def count(self, owner: str, now: float) -> int:
        """Return how many of the owner's containers have not expired at `now`."""
        ...

    async def touch(self, container_id: str, now: float) -> bool:
        """Record activity at `now`; False if the container has expired or there is none."""
        ...

    async def running(self, container_ids: Collection[str], now: float) -> frozenset[str]:
        """Return those of the containers that exist and are not over at `now`."""
        ...

    async def delete(self, owner: str, container_id: str) -> bool:
        """Delete the owner's container and its files; False if there is none."""
        ...

    async def idle(self, now: float) -> tuple[Container, ...]:
        """Return some containers that are over at `now` and not yet marked as expired."""
        ...

    async def expire(self, container_id: str, now: float) -> bool:
        """Mark a container that is over at `now` as expired, and delete its files.

        False if it is not over any more, or there is none.
        """
        ...

    async def purge(self, active_before: float) -> int:
        """Delete expired containers that were last active before; return their number."""
        ...

    async def files(self, container_id: str) -> tuple[ContainerFile, ...]:
        """Return the container's files, the oldest first."""
        ...

    async def file(self, container_id: str, file_id: str) -> ContainerFile | None:
        """Return a file of the container; None if there is none."""
        ...

    async def change_files(
        self, container_id: str, put: Sequence[ContainerFile], removed: Collection[str] = ()
    ) -> Sequence[ContainerFile]:
        """Store files, each in place of one with the same path, and delete those with these ids.

        Return the files as they are stored; see `ContainerFile.recorded_after`. Nothing happens if
        there is no such container.
        """
        ...
