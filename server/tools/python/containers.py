"""Containers: Python sessions with files, which expire when they are idle.

The sandbox runs the sessions and has the content of their files. The store has what the API shows.
A container may be used by several answers and API requests; its cells run one after another.
"""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from weakref import WeakValueDictionary

from server import threads
from server.errors import NotFound, RateLimited, Unavailable
from server.ids import new_id
from server.store.containers.base import Container, ContainerFile, ContainerStore
from server.store.files.library import FileLibrary
from server.store.lists import ListQuery, Page
from server.threads import closed_on_a_thread, read
from server.tools.python.container_errors import (
    expired,
    file_not_found,
    not_found,
    translated,
)
from server.tools.python.container_options import MEMORY, ContainerOptions
from server.tools.python.paths import free_path
from server.tools.python.sandbox import (
    NoSuchFile,
    PythonSandbox,
    SandboxError,
    SandboxFile,
    SandboxLimits,
)
from server.tools.python.written_files import FEW_FILES, changes
from server.tools.registry import unavailable

logger = logging.getLogger(__name__)

SWEEP_SECONDS = 20.0
"""The interval of checks for idle containers; less than the shortest life, a minute."""
EXPIRED_SECONDS = 86_400.0
"""How long an expired container is known as such."""
RETRY_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class ContainerLimits:
    """containers: running ones of one owner. memory: the largest memory limit, such as `4g`.

    sandbox: the other limits of each session.
    """

    containers: int = 1024
    memory: str = "4g"
    sandbox: SandboxLimits = field(default_factory=SandboxLimits)


class ContainerService:
    """The containers of all owners.

    sandbox: None where there is none; then `reason` is the `problem`. now: Unix seconds. Methods
    that use the store raise StoreUnavailable; those that use the sandbox raise InvalidRequest
    where there is none, and Unavailable where it fails.
    """

    def __init__(
        self,
        store: ContainerStore,
        library: FileLibrary,
        sandbox: PythonSandbox | None,
        limits: ContainerLimits,
        *,
        reason: str = "it has no sandbox",
        now: Callable[[], float] = time.time,
    ) -> None:
        self.library = library
        self.limits = limits
        self._store = store
        self._sandbox = sandbox
        self._reason = reason
        self._now = now
        self._uses: dict[str, _Use] = {}
        # Held while an owner's containers are counted and one is added. Gateways that share the
        # store do not wait for each other.
        self._creating: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        # Held while files of a container and their rows are changed, or both are read: an upload
        # without a row would be taken for a file of code, and a row without its file for a removed
        # one.
        self._changing: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        # The containers whose sessions may be open, and the uploads that each was given.
        self._opened: dict[str, set[str]] = {}
        self._is_started = False
        self._sweeper: asyncio.Task[None] | None = None

    @property
    def problem(self) -> str | None:
        """Why no container can be used on this server; None if they can. Known after `start`."""
        if self._sandbox is None:
            return self._reason
        return self._sandbox.problem

    @property
    def sandbox(self) -> PythonSandbox:
        """The sandbox. Raises InvalidRequest with the reason if there is none."""
        if self._sandbox is None or self.problem is not None:
            raise unavailable("python", self.problem)
        return self._sandbox

    async def start(self) -> None:
        """Start the sandbox, and the checks for idle containers. Safe to call twice."""
        if self._sandbox is None or self._is_started:
            return
        self._is_started = True
        await self._sandbox.start()
        self._sweeper = asyncio.create_task(self._sweep_periodically())

    async def stop(self) -> None:
        """End all sessions. Safe to call twice."""
        if self._sandbox is None or not self._is_started:
            return
        self._is_started = False
        if self._sweeper is not None:
            self._sweeper.cancel()
            await asyncio.wait([self._sweeper])
            self._sweeper = None
        if not self._store.outlives_process:
            for container_id in tuple(self._opened):
                await self._close(container_id)
        await self._sandbox.stop()

    async def create(self, owner: str, options: ContainerOptions, *, param: str) -> Container:
        """A new container with its files. param: the field of its options.

        Raises RateLimited if the owner has too many, and NotFound for an unknown file.
        """
        await self.check_files(owner, options, param=param)
        container_id = new_id("cntr")
        self.use(container_id)
        try:
            container = await self._create(owner, container_id, options)
            try:
                await self._copy_files(owner, container_id, options)
            except BaseException:
                # Nobody learns its id. If it cannot be deleted now, it expires.
                with suppress(NotFound, Unavailable, OSError):
                    await self.delete(owner, container_id)
                raise
        finally:
            self._unuse(container_id)
        return container

    async def get(self, owner: str, container_id: str, *, param: str = "container_id") -> Container:
        """The owner's container; this counts as activity.

        Raises NotFound for `param`, with the code `container_expired` if it has expired.
        """
        now = self._now()
        container = self._checked(await self._store.get(owner, container_id), container_id, param)
        if not await self._store.touch(container.id, now):
            raise expired(container_id, param)
        return replace(container, last_active_at=int(now))

    async def running(
        self, owner: str, container_id: str, *, param: str = "container_id"
    ) -> Container:
        """As `get`, but a container that this sandbox does not have has expired, too."""
        container = await self.get(owner, container_id, param=param)
        # A sandbox that is away now may have it; the next call finds out.
        with suppress(Unavailable):
            await self._opened_session(container, param=param)
        return container

    async def find(self, owner: str, container_id: str) -> Container | None:
        """The owner's container, if it runs and this sandbox has it; this counts as activity."""
        with suppress(NotFound):
            return await self.running(owner, container_id)
        return None

    async def list(
        self, owner: str, query: ListQuery, *, name: str | None = None
    ) -> Page[Container]:
        """A page of the owner's containers that run. name: None for any."""
        return await self._store.list(owner, query, self._now(), name=name)

    async def delete(self, owner: str, container_id: str) -> None:
        """Delete the owner's container with its files, and end its session. Raises NotFound."""
        if not await self._store.delete(owner, container_id):
            raise not_found(container_id, "container_id")
        await self._close(container_id)

    # Files

    async def files(self, owner: str, container_id: str) -> tuple[ContainerFile, ...]:
        """The files of the owner's container, the oldest first. Raises NotFound."""
        return await self._store.files((await self.get(owner, container_id)).id)

    async def file(self, owner: str, container_id: str, file_id: str) -> ContainerFile:
        """A file of the owner's container. Raises NotFound."""
        return (await self._container_and_file(owner, container_id, file_id))[1]

    async def add_file(
        self, owner: str, container_id: str, filename: str, content: AsyncIterator[bytes]
    ) -> ContainerFile:
        """Write an uploaded file, in place of one with its name. Raises NotFound, BodyTooLarge."""
        container = await self.get(owner, container_id)
        await self._opened_session(container)
        return await self._write(container.id, free_path(filename, ()), content)

    async def copy_file(self, owner: str, container_id: str, file_id: str) -> ContainerFile:
        """Copy an uploaded file of the owner. Raises NotFound, and BodyTooLarge."""
        async with self.used(owner, container_id) as container:
            file = await self.library.get(owner, file_id)
            await self._opened_session(container)
            target = free_path(file.filename, ())
            with closed_on_a_thread(await self.library.open(owner, file_id)) as content:
                return await self._write(container.id, target, read(content), origin=file.id)

    async def content(
        self, owner: str, container_id: str, file_id: str
    ) -> AsyncGenerator[bytes, None]:
        """The content of a file, in pieces. Raises NotFound before the first one."""
        container, file = await self._container_and_file(owner, container_id, file_id)
        await self._opened_session(container)
        with translated():
            async for piece in self.sandbox.read(container.id, file.path):
                yield piece

    async def delete_file(self, owner: str, container_id: str, file_id: str) -> None:
        """Delete a file of the owner's container. Raises NotFound."""
        container, file = await self._container_and_file(owner, container_id, file_id)
        await self._opened_session(container)
        async with self._lock_of_files(container.id):
            with translated(), suppress(NoSuchFile):
                await self.sandbox.delete(container.id, file.path)
            await self._store.change_files(container.id, (), [file.id])

    async def _container_and_file(
        self, owner: str, container_id: str, file_id: str
    ) -> tuple[Container, ContainerFile]:
        container = await self.get(owner, container_id)
        file = await self._store.file(container.id, file_id)
        if file is None:
            raise file_not_found(file_id)
        return container, file

    async def check_files(self, owner: str, options: ContainerOptions, *, param: str) -> None:
        """Raise NotFound if the owner lacks one of the files to copy."""
        for index, file_id in enumerate(options.file_ids):
            await self.library.get(owner, file_id, param=f"{param}file_ids.{index}")

    # Cells

    def use(self, container_id: str) -> None:
        """Keep a container from expiring until `release`. It need not exist yet."""
        self._uses.setdefault(container_id, _Use()).count += 1

    async def release(self, container_id: str) -> None:
        """End one `use`; this counts as activity."""
        self._unuse(container_id)
        # A container in use was touched by the last check, if not now.
        with suppress(Unavailable):
            await self._store.touch(container_id, self._now())

    @asynccontextmanager
    async def used(self, owner: str, container_id: str) -> AsyncGenerator[Container]:
        """The owner's container, which does not expire during the block. Raises NotFound."""
        container = await self.get(owner, container_id)
        self.use(container_id)
        try:
            yield container
        finally:
            await self.release(container_id)

    def _unuse(self, container_id: str) -> None:
        use = self._uses[container_id]
        use.count -= 1
        if not use.count:
            del self._uses[container_id]

    @asynccontextmanager
    async def reserved(
        self, owner: str, container_id: str, options: ContainerOptions | None
    ) -> AsyncGenerator[None]:
        """The container for one cell, after the cells of others. It must be in use.

        options: those of a container that is created if it does not exist; their files are copied,
        each once. None for one that has to exist. Raises NotFound if it does not, has
        expired, or a file is gone; and RateLimited.
        """
        async with self._uses[container_id].lock:
            container = await self._store.get(owner, container_id)
            if container is None and options is not None:
                container = await self._create(owner, container_id, options)
            else:
                container = self._checked(container, container_id, "container_id")
                await self._opened_session(container)
            if options is not None:
                await self._copy_files(owner, container_id, options)
            yield

    async def written_files(self, container_id: str) -> tuple[ContainerFile, ...]:
        """Record what a cell changed in the folder; return the new and changed files.

        The container must be in use.
        """
        use = self._uses[container_id]
        async with self._lock_of_files(container_id):
            listing = await self.sandbox.files(container_id)
            if listing == use.listing:
                return ()
            known = await self._store.files(container_id)
            # Once more: another gateway may have added a file and its row since then.
            listing = await self.sandbox.files(container_id)
            found = await threads.run(
                partial(changes, container_id, known, listing, int(self._now())),
                threads.counted(len(listing), FEW_FILES),
            )
            written: Sequence[ContainerFile] = ()
            if found.written or found.removed:
                written = await self._store.change_files(container_id, found.written, found.removed)
            use.listing = listing
        # The others were uploaded at another gateway meanwhile.
        return tuple(file for file in written if file.source == "assistant")

    # Expiry

    async def sweep(self) -> None:
        """End idle containers, and the sessions here of those that ended elsewhere."""
        now = self._now()
        for container_id in tuple(self._uses):
            await self._store.touch(container_id, now)
        while idle := await self._store.idle(now):
            for container in idle:
                if await self._store.expire(container.id, now):
                    await self._close(container.id)
        # Those that are being created are in use, and have no row yet.
        opened = self._opened.keys() - self._uses.keys()
        for container_id in opened - await self._store.running(opened, now):
            await self._close(container_id)
        await self._store.purge(now - EXPIRED_SECONDS)

    async def _sweep_periodically(self) -> None:
        while True:
            try:
                await self.sweep()
            except Unavailable as error:
                # The store logs the outage itself; the next check comes soon.
                logger.debug("the check for idle containers is postponed: %s", error)
            except Exception:
                logger.exception("the check for idle containers failed")
            await asyncio.sleep(SWEEP_SECONDS)

    # Sessions

    def _checked(self, container: Container | None, container_id: str, param: str) -> Container:
        """The container. Raises NotFound if there is none, or if it has expired."""
        if container is None:
            raise not_found(container_id, param)
        if container.is_over(self._now()):
            raise expired(container_id, param)
        return container

    async def _create(self, owner: str, container_id: str, options: ContainerOptions) -> Container:
        now = self._now()
        await self._check_count(owner, now)
        container = Container(
            owner,
            container_id,
            options.name,
            int(now),
            int(now),
            options.idle_minutes,
            options.memory_limit,
        )
        await self._opened_session(container, is_new=True)
        # One that was deleted meanwhile may have had the same id.
        self._opened[container_id] = set()
        async with self._creating.setdefault(owner, asyncio.Lock()):
            # Others may have been created while the session was opened. If this one is refused, a
            # later check ends the session.
            await self._check_count(owner, now)
            await self._store.create(container)
        return container

    async def _check_count(self, owner: str, now: float) -> None:
        """Raises RateLimited if the owner has as many containers as the limit allows."""
        if await self._store.count(owner, now) >= self.limits.containers:
            raise RateLimited(
                f"You have {self.limits.containers} containers, which is the limit. Delete some, or"
                " wait until some have expired.",
                retry_after=RETRY_SECONDS,
            )

    async def _opened_session(
        self, container: Container, *, is_new: bool = False, param: str = "container_id"
    ) -> None:
        """Make sure that the sandbox has the session: it may have been restarted.

        Raises NotFound where the session is lost, or in the sandbox of another gateway: in a new
        folder, all files would seem to be deleted.
        """
        limits = replace(self.limits.sandbox, memory=MEMORY[container.memory_limit])
        # Before the call, so that a session that is made although the call fails is closed later.
        self._opened.setdefault(container.id, set())
        sandbox = self.sandbox
        with translated(param):
            await (sandbox.create if is_new else sandbox.resume)(container.id, limits)

    async def _close(self, container_id: str) -> None:
        """End a session. One that cannot be ended now is ended by a later check."""
        if self._sandbox is None:
            return
        self._opened.setdefault(container_id, set())
        try:
            # Also where the sandbox has a problem: folders may be left of a time when it had none.
            await self._sandbox.close(container_id)
        except SandboxError as error:
            logger.warning("container %s could not be ended: %s", container_id, error)
        else:
            self._opened.pop(container_id, None)

    async def _copy_files(self, owner: str, container_id: str, options: ContainerOptions) -> None:
        if not options.file_ids:
            return
        files = await self._store.files(container_id)
        # Rows do not tell all: a cell may have deleted or renamed what it was given.
        copied = self._opened.setdefault(container_id, set())
        copied |= {file.origin for file in files if file.origin is not None}
        taken = {file.path for file in files}
        for file_id in options.file_ids:
            if file_id in copied:
                continue
            file = await self.library.get(owner, file_id)
            target = free_path(file.filename, taken)
            taken.add(target)
            with closed_on_a_thread(await self.library.open(owner, file_id)) as content:
                await self._write(container_id, target, read(content), origin=file_id)

    async def _write(
        self,
        container_id: str,
        path: str,
        content: AsyncIterator[bytes],
        *,
        origin: str | None = None,
    ) -> ContainerFile:
        async with self._lock_of_files(container_id):
            with translated():
                written = await self.sandbox.write(container_id, path, content)
            file = ContainerFile(
                new_id("cfile"),
                container_id,
                path,
                written.size,
                "user",
                int(self._now()),
                written.modified,
                origin,
            )
            (file,) = await self._store.change_files(container_id, [file])
        if origin is not None:
            self._opened.setdefault(container_id, set()).add(origin)
        return file

    def _lock_of_files(self, container_id: str) -> asyncio.Lock:
        return self._changing.setdefault(container_id, asyncio.Lock())


class _Use:
    """Answers that use a container: their number, and the lock of its cells.

    listing: the files of its folder as they were last recorded.
    """

    def __init__(self) -> None:
        self.count = 0
        self.listing: list[SandboxFile] | None = None
        self.lock = asyncio.Lock()
