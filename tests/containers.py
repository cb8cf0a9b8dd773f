"""Containers on a sandbox for tests, with a clock that tests set."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from server.store.containers.memory import MemoryContainers
from server.store.files.folder import FileFolder
from server.store.files.library import FileInfo, FileLibrary, FileLimits
from server.store.files.memory import MemoryFiles
from server.tools.python.containers import ContainerLimits, ContainerService
from tests.sandboxes import BareSandbox

START = 1_700_000_000.0


class World:
    """A service, its parts, and the time in it."""

    def __init__(self, folder: Path, *, containers: int = 100) -> None:
        self.time = START
        self.sandbox = BareSandbox(folder / "sessions")
        self.store = MemoryContainers()
        self.library = FileLibrary(
            MemoryFiles(),
            FileFolder(folder / "files"),
            FileLimits(1000, 10_000),
            now=lambda: self.time,
        )
        self.service = ContainerService(
            self.store,
            self.library,
            self.sandbox,
            ContainerLimits(containers),
            now=lambda: self.time,
        )

    async def upload(self, content: bytes, name: str = "x.csv", owner: str = "a") -> str:
        """Store a file, and return its id."""
        async with self.library.staging(owner) as staging:
            await staging.write(content)
            return (await self.library.add(staging, FileInfo(name, "user_data"))).id


@asynccontextmanager
async def new_world(folder: Path) -> AsyncIterator[World]:
    """A world whose service is started, and stopped after the block."""
    made = World(folder)
    await made.service.start()
    yield made
    await made.service.stop()
