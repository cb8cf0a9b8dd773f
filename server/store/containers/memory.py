"""Containers in this process's memory."""

from collections.abc import Collection, Sequence
from dataclasses import replace

from server.store.containers.base import Container, ContainerFile
from server.store.lists import ListQuery, Page, page_in_memory


class MemoryContainers:
    """Stores containers until the process ends. The container service limits their number."""

    outlives_process = False

    def __init__(self) -> None:
        self._containers: dict[str, Container] = {}
        self._files: dict[str, dict[str, ContainerFile]] = {}

    async def create(self, container: Container) -> None:
        """Store it."""
        self._containers[container.id] = container
        self._files[container.id] = {}

    async def get(self, owner: str, container_id: str) -> Container | None:
        """Look it up."""
        container = self._containers.get(container_id)
        return container if container is not None and container.owner == owner else None

    async def list(
        self, owner: str, query: ListQuery, now: float, *, name: str | None = None
    ) -> Page[Container]:
        """List in the order of insertion."""
        return page_in_memory(
            [each for each in self._containers.values() if each.owner == owner],
            query,
            lambda each: each.id,
            lambda each: name in (None, each.name) and not each.is_over(now),
        )

    async def count(self, owner: str, now: float) -> int:
        """Count the owner's."""
        return sum(
            each.owner == owner and not each.is_over(now) for each in self._containers.values()
        )

    async def touch(self, container_id: str, now: float) -> bool:
        """Replace the time."""
        container = self._containers.get(container_id)
        if container is None or container.is_over(now):
            return False
        self._containers[container_id] = replace(container, last_active_at=int(now))
        return True

    async def running(self, container_ids: Collection[str], now: float) -> frozenset[str]:
        """Look them up."""
        found = (self._containers.get(each) for each in container_ids)
        return frozenset(each.id for each in found if each is not None and not each.is_over(now))

    async def delete(self, owner: str, container_id: str) -> bool:
        """Delete it and its files."""
        if await self.get(owner, container_id) is None:
            return False
        del self._containers[container_id]
        del self._files[container_id]
        return True

    async def idle(self, now: float) -> tuple[Container, ...]:
        """Return all of them."""
        return tuple(
            each for each in self._containers.values() if each.is_over(now) and not each.expired
        )

    async def expire(self, container_id: str, now: float) -> bool:
        """Mark it, and delete its files."""
        container = self._containers.get(container_id)
        if container is None or not container.is_over(now):
            return False
        self._containers[container_id] = replace(container, expired=True)
        self._files[container_id] = {}
        return True

    async def purge(self, active_before: float) -> int:
        """Delete the marked ones."""
        old = [
            each.id
            for each in self._containers.values()
            if each.expired and each.last_active_at < active_before
        ]
        for container_id in old:
            del self._containers[container_id]
            del self._files[container_id]
        return len(old)

    async def files(self, container_id: str) -> tuple[ContainerFile, ...]:
        """List in the order of insertion."""
        return tuple(self._files.get(container_id, {}).values())

    async def file(self, container_id: str, file_id: str) -> ContainerFile | None:
        """Look it up."""
        return self._files.get(container_id, {}).get(file_id)

    async def change_files(
        self, container_id: str, put: Sequence[ContainerFile], removed: Collection[str] = ()
    ) -> Sequence[ContainerFile]:
        """Change them; one that keeps its id keeps its place."""
        files = self._files.get(container_id)
        if files is None:
            return put
        for file_id in removed:
            files.pop(file_id, None)
        before = {file.path: file for file in files.values()}
        recorded = [file.recorded_after(before.get(file.path)) for file in put]
        for file in recorded:
            if (other := before.get(file.path)) and other.id != file.id:
                files.pop(other.id, None)
            files[file.id] = file
        return recorded
