"""The service of containers: expiry, sessions, and what is left after restarts."""

import asyncio
import threading
from collections.abc import AsyncIterator, Collection
from pathlib import Path
from typing import Any

import pytest

from server.errors import BodyTooLarge, InvalidRequest, NotFound, RateLimited, Unavailable
from server.store.containers.base import ContainerFile
from server.store.containers.memory import MemoryContainers
from server.tools.python import containers as module
from server.tools.python.container_options import ContainerOptions
from server.tools.python.containers import ContainerLimits, ContainerService
from server.tools.python.sandbox import (
    FileTooLarge,
    SandboxFile,
    SandboxLimits,
    SandboxUnavailable,
)
from server.tools.python.written_files import changes
from tests.containers import World
from tests.sandboxes import BareSandbox
from tests.waiting import settle

OPTIONS = ContainerOptions("x")


async def created(world: World) -> str:
    return (await world.service.create("a", OPTIONS, param="")).id


async def test_a_container_is_safe_from_a_check_while_it_is_created(world: World) -> None:
    sweep = asyncio.Event()
    plain = world.sandbox.create

    async def create(session: str, limits: SandboxLimits) -> None:
        await plain(session, limits)
        await world.service.sweep()
        sweep.set()

    world.sandbox.create = create  # type: ignore[method-assign]
    container_id = await created(world)
    assert sweep.is_set()
    assert container_id in world.sandbox.sessions


class SlowStore(MemoryContainers):
    """Calls a function after it has read which containers run."""

    async def running(self, container_ids: Collection[str], now: float) -> frozenset[str]:
        found = await super().running(container_ids, now)
        await self.meanwhile()
        return found

    async def meanwhile(self) -> None: ...


async def test_a_container_is_safe_from_a_check_that_began_before_it(world: World) -> None:
    store = SlowStore()
    service = ContainerService(store, world.library, world.sandbox, ContainerLimits())
    made: list[str] = []

    async def meanwhile() -> None:
        made.append((await service.create("a", OPTIONS, param="")).id)

    store.meanwhile = meanwhile  # type: ignore[method-assign]
    await service.sweep()
    assert made[0] in world.sandbox.sessions


class ThoughtfulStore(MemoryContainers):
    """Lets other tasks run while it counts, as a database does."""

    async def count(self, owner: str, now: float) -> int:
        found = await super().count(owner, now)
        await asyncio.sleep(0)
        return found


async def test_containers_that_are_created_at_once_are_within_the_limit(world: World) -> None:
    store = ThoughtfulStore()
    service = ContainerService(store, world.library, world.sandbox, ContainerLimits(3))
    creating = (service.create("a", OPTIONS, param="") for _ in range(9))
    made = await asyncio.gather(*creating, return_exceptions=True)
    assert sum(isinstance(each, RateLimited) for each in made) == 6
    assert await store.count("a", world.time) == 3


async def test_a_slow_sandbox_makes_the_containers_of_an_owner_at_once(world: World) -> None:
    opening = asyncio.Barrier(3)

    async def create(session: str, limits: SandboxLimits) -> None:
        await opening.wait()

    world.sandbox.create = create  # type: ignore[method-assign]
    async with asyncio.timeout(60):
        made = await asyncio.gather(*(created(world) for _ in range(3)))
    assert len(set(made)) == 3


async def test_a_refused_container_is_not_deleted(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def delete(owner: str, container_id: str) -> bool:
        raise AssertionError("the store was written to")

    service = ContainerService(world.store, world.library, world.sandbox, ContainerLimits(0))
    monkeypatch.setattr(world.store, "delete", delete)
    with pytest.raises(RateLimited):
        await service.create("a", OPTIONS, param="")


async def test_a_session_that_is_made_although_the_call_fails_is_ended(world: World) -> None:
    plain = world.sandbox.create

    async def create(session: str, limits: SandboxLimits) -> None:
        await plain(session, limits)
        raise SandboxUnavailable("the connection was cut")

    world.sandbox.create = create  # type: ignore[method-assign]
    with pytest.raises(Unavailable):
        await created(world)
    await world.service.sweep()
    assert len(world.sandbox.closed) == 1


async def test_a_container_that_another_gateway_ends_while_it_is_looked_up_is_not_used(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    container_id = await created(world)
    touch = world.store.touch

    async def ended(container_id: str, now: float) -> bool:
        await world.store.delete("a", container_id)
        return await touch(container_id, now)

    monkeypatch.setattr(world.store, "touch", ended)
    with pytest.raises(NotFound) as caught:
        await world.service.get("a", container_id)
    assert caught.value.code == "container_expired"


async def test_a_container_without_all_of_its_files_is_not_left(world: World) -> None:
    file_id = await world.upload(b"one")

    async def write(session: str, path: str, content: AsyncIterator[bytes]) -> SandboxFile:
        raise FileTooLarge(path)

    world.sandbox.write = write  # type: ignore[method-assign]
    with pytest.raises(BodyTooLarge):
        await world.service.create("a", ContainerOptions("x", file_ids=(file_id,)), param="")
    assert await world.store.count("a", world.time) == 0
    assert len(world.sandbox.closed) == 1


async def test_a_container_does_not_expire_during_an_upload(world: World) -> None:
    container_id = await created(world)
    async with world.service.used("a", container_id):
        for _ in range(3):
            world.time += 19 * 60
            await world.service.sweep()
        await world.service.add_file("a", container_id, "x", _content(b"one"))
    world.time += 20 * 60
    await world.service.sweep()
    assert world.sandbox.closed == [container_id]


async def test_a_container_does_not_expire_while_a_file_is_copied_to_it(world: World) -> None:
    container_id, file_id = await created(world), await world.upload(b"one")
    write = world.sandbox.write

    async def slow(session: str, path: str, content: AsyncIterator[bytes]) -> SandboxFile:
        for _ in range(3):
            world.time += 19 * 60
            await world.service.sweep()
        return await write(session, path, content)

    world.sandbox.write = slow  # type: ignore[method-assign]
    file = await world.service.copy_file("a", container_id, file_id)
    assert await world.service.file("a", container_id, file.id) == file


async def test_what_ended_elsewhere_is_ended_here(world: World) -> None:
    container_id = await created(world)
    await world.store.delete("a", container_id)
    await world.service.sweep()
    assert world.sandbox.closed == [container_id]


async def test_a_restarted_sandbox_gets_its_session_again(world: World) -> None:
    container_id, upload_id = await created(world), await world.upload(b"two")
    file = await world.service.add_file("a", container_id, "x", _content(b"one"))
    world.sandbox.sessions.clear()
    read = world.service.content("a", container_id, file.id)
    assert b"".join([piece async for piece in read]) == b"one"
    world.sandbox.sessions.clear()
    await world.service.copy_file("a", container_id, upload_id)
    world.sandbox.sessions.clear()
    await world.service.delete_file("a", container_id, file.id)
    assert [file.path for file in await world.service.files("a", container_id)] == ["x.csv"]


async def test_uploads_of_one_name_are_all_copied(world: World) -> None:
    file_ids = (await world.upload(b"one"), await world.upload(b"two"))
    made = await world.service.create("a", ContainerOptions(file_ids=file_ids), param="")
    files = await world.service.files("a", made.id)
    assert [file.path for file in files] == ["x.csv", "x-1.csv"]


async def test_no_container_is_made_for_an_unknown_file(world: World) -> None:
    options = ContainerOptions(file_ids=("file-1",))
    with pytest.raises(NotFound) as caught:
        await world.service.create("a", options, param="container.")
    assert caught.value.param == "container.file_ids.0"
    assert world.sandbox.sessions == {}


async def test_what_another_owner_has_is_unknown(world: World) -> None:
    container_id = await created(world)
    file = await world.service.add_file("a", container_id, "x", _content(b"one"))
    for owner, container, name in (("b", container_id, file.id), ("a", container_id, "cfile_1")):
        with pytest.raises(NotFound):
            await world.service.file(owner, container, name)
    with pytest.raises(NotFound):
        await world.service.delete("b", container_id)
    assert await world.service.file("a", container_id, file.id) == file


async def test_a_sandbox_that_cannot_run_is_not_used(world: World, tmp_path: Path) -> None:
    sandbox = BareSandbox(tmp_path / "x", "no layer works")
    service = ContainerService(world.store, world.library, sandbox, ContainerLimits())
    with pytest.raises(InvalidRequest, match="no layer works") as caught:
        await service.create("a", OPTIONS, param="")
    assert caught.value.code == "tool_unavailable"


async def test_a_service_whose_start_was_cancelled_can_be_stopped(world: World) -> None:
    begun = asyncio.Event()

    async def start() -> None:
        begun.set()
        await asyncio.Event().wait()

    await world.service.stop()

    async def stop() -> None:
        stopped.append(True)

    stopped: list[bool] = []
    world.sandbox.start, world.sandbox.stop = start, stop  # type: ignore[method-assign]
    starting = asyncio.create_task(world.service.start())
    await begun.wait()
    starting.cancel()
    await world.service.stop()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert stopped == [True]


async def test_with_a_store_in_memory_sessions_end_with_the_process(world: World) -> None:
    container_id = await created(world)
    await world.service.stop()
    assert world.sandbox.closed == [container_id]
    await world.service.stop()


async def test_with_a_store_that_outlives_the_process_sessions_stay(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(world.store, "outlives_process", True)
    container_id = await created(world)
    await world.service.stop()
    assert container_id in world.sandbox.sessions
    assert world.sandbox.closed == []


async def test_a_session_that_cannot_be_ended_is_ended_later(world: World) -> None:
    container_id = await created(world)
    world.time += 20 * 60
    world.sandbox.failure = SandboxUnavailable("away")
    await world.service.sweep()
    with pytest.raises(NotFound, match="expired"):
        await world.service.get("a", container_id)
    assert world.sandbox.closed == []
    world.sandbox.failure = None
    await world.service.sweep()
    assert world.sandbox.closed == [container_id]


async def test_what_is_left_of_earlier_processes_is_ended_without_a_layer(
    world: World, tmp_path: Path
) -> None:
    container_id = await created(world)
    sandbox = BareSandbox(tmp_path / "x", "no layer works")
    service = ContainerService(
        world.store, world.library, sandbox, ContainerLimits(), now=lambda: world.time
    )
    world.time += 20 * 60
    await service.sweep()
    assert sandbox.closed == [container_id]


async def test_a_failed_check_is_not_the_last(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("server.tools.python.containers.SWEEP_SECONDS", 0.0)
    errors: list[Exception] = [Unavailable("the store is away"), RuntimeError("a defect")]
    checked = asyncio.Event()

    async def sweep() -> None:
        if errors:
            raise errors.pop(0)
        checked.set()

    world.service.sweep = sweep  # type: ignore[method-assign]
    await world.service.stop()
    await world.service.start()
    await checked.wait()
    assert "the check for idle containers failed" in caplog.text
    await world.service.stop()
    checked.clear()
    await settle()
    assert not checked.is_set()


async def test_an_upload_that_a_cell_deleted_is_not_copied_again(world: World) -> None:
    options = ContainerOptions(file_ids=(await world.upload(b"one"),))
    container_id = (await world.service.create("a", options, param="")).id
    await world.sandbox.delete(container_id, "x.csv")
    await world.sandbox.write(container_id, "y", _content(b""))
    world.service.use(container_id)
    await world.service.written_files(container_id)
    async with world.service.reserved("a", container_id, options):
        assert [file.path for file in await world.sandbox.files(container_id)] == ["y"]


async def test_an_upload_is_not_copied_again_although_a_cell_deleted_all_files(
    world: World,
) -> None:
    options = ContainerOptions(file_ids=(await world.upload(b"one"),))
    container_id = (await world.service.create("a", options, param="")).id
    world.service.use(container_id)
    await world.service.written_files(container_id)
    await world.sandbox.delete(container_id, "x.csv")
    await world.service.written_files(container_id)
    async with world.service.reserved("a", container_id, options):
        assert await world.sandbox.files(container_id) == []
    assert await world.service.files("a", container_id) == ()


class OtherGateway:
    """A gateway that shares the store and the uploads, and has a sandbox of its own."""

    def __init__(self, world: World, folder: Path) -> None:
        self.sandbox = BareSandbox(folder)
        self.service = ContainerService(
            world.store, world.library, self.sandbox, ContainerLimits(), now=lambda: world.time
        )


@pytest.fixture
async def other(world: World, tmp_path: Path) -> AsyncIterator[OtherGateway]:
    gateway = OtherGateway(world, tmp_path / "others")
    await gateway.service.start()
    yield gateway
    await gateway.service.stop()


async def test_files_in_the_sandbox_of_another_gateway_are_not_removed(
    world: World, other: OtherGateway
) -> None:
    container_id = await created(world)
    file = await world.service.add_file("a", container_id, "x", _content(b"one"))
    other.service.use(container_id)
    with pytest.raises(NotFound) as caught:
        async with other.service.reserved("a", container_id, None):
            await other.service.written_files(container_id)
    assert caught.value.code == "container_expired"
    assert await world.service.files("a", container_id) == (file,)
    read = world.service.content("a", container_id, file.id)
    assert b"".join([piece async for piece in read]) == b"one"


async def test_a_container_without_files_stays_in_the_sandbox_that_has_its_session(
    world: World, other: OtherGateway
) -> None:
    """In a second folder, files that are written to the first one later would be missing."""
    container_id = await created(world)
    with pytest.raises(NotFound) as caught:
        await other.service.add_file("a", container_id, "x", _content(b"one"))
    assert caught.value.code == "container_expired"
    assert other.sandbox.sessions == {}


async def test_what_another_gateways_sandbox_has_is_not_found_for_the_next_turn(
    world: World, other: OtherGateway
) -> None:
    container_id = await created(world)
    assert await other.service.find("a", container_id) is None
    assert await world.service.find("a", container_id) is not None


async def test_a_container_is_found_while_the_sandbox_is_away(world: World) -> None:
    container_id = await created(world)
    world.sandbox.failure = SandboxUnavailable("away")
    assert await world.service.find("a", container_id) is not None


async def test_a_container_that_is_made_anew_gets_its_uploads_again(world: World) -> None:
    options = ContainerOptions(file_ids=(await world.upload(b"one"),))
    container_id = (await world.service.create("a", options, param="")).id
    await world.store.delete("a", container_id)
    await world.sandbox.delete(container_id, "x.csv")
    world.service.use(container_id)
    async with world.service.reserved("a", container_id, options):
        assert [file.path for file in await world.sandbox.files(container_id)] == ["x.csv"]


async def test_uploads_between_cells_are_not_taken_for_files_of_code(world: World) -> None:
    container_id = await created(world)
    world.service.use(container_id)
    assert await world.service.written_files(container_id) == ()
    await world.service.add_file("a", container_id, "x", _content(b"one"))
    await world.sandbox.write(container_id, "y", _content(b""))
    assert [file.path for file in await world.service.written_files(container_id)] == ["y"]
    assert await world.service.written_files(container_id) == ()


async def test_an_upload_at_the_end_of_a_cell_keeps_its_id(world: World) -> None:
    container_id = await created(world)
    world.service.use(container_id)
    list_files = world.sandbox.files
    uploads: list[asyncio.Task[ContainerFile]] = []

    async def files(session: str) -> list[SandboxFile]:
        listing = await list_files(session)
        if not uploads:
            upload = world.service.add_file("a", container_id, "x", _content(b"one"))
            uploads.append(asyncio.create_task(upload))
            await settle()
        return listing

    world.sandbox.files = files  # type: ignore[method-assign]
    await world.sandbox.write(container_id, "y", _content(b""))
    assert [file.path for file in await world.service.written_files(container_id)] == ["y"]
    file = await uploads[0]
    assert await world.service.file("a", container_id, file.id) == file


class FoundStore(MemoryContainers):
    """Calls a function after it has read the files of a container."""

    async def files(self, container_id: str) -> tuple[ContainerFile, ...]:
        found = await super().files(container_id)
        await self.meanwhile()
        return found

    async def meanwhile(self) -> None: ...


@pytest.mark.parametrize("read", ["folder", "store"])
async def test_an_upload_at_another_gateway_at_the_end_of_a_cell_keeps_its_id(
    world: World, monkeypatch: pytest.MonkeyPatch, read: str
) -> None:
    store, limits = FoundStore(), ContainerLimits()
    service, other = (
        ContainerService(store, world.library, world.sandbox, limits, now=lambda: world.time)
        for _ in range(2)
    )
    container_id = (await service.create("a", OPTIONS, param="")).id
    service.use(container_id)
    await world.sandbox.write(container_id, "y", _content(b""))
    list_files = world.sandbox.files
    uploads: list[ContainerFile] = []

    async def upload() -> None:
        if not uploads:
            uploads.append(await other.add_file("a", container_id, "x", _content(b"one")))

    async def files(session: str) -> list[SandboxFile]:
        listing = await list_files(session)
        await upload()
        return listing

    if read == "folder":
        monkeypatch.setattr(world.sandbox, "files", files)
    else:
        monkeypatch.setattr(store, "meanwhile", upload)
    assert [file.path for file in await service.written_files(container_id)] == ["y"]
    assert await service.file("a", container_id, uploads[0].id) == uploads[0]


async def test_a_file_that_is_deleted_at_the_end_of_a_cell_is_gone(world: World) -> None:
    container_id = await created(world)
    world.service.use(container_id)
    file = await world.service.add_file("a", container_id, "x", _content(b"one"))
    list_files = world.sandbox.files
    deleting: list[asyncio.Task[None]] = []

    async def files(session: str) -> list[SandboxFile]:
        listing = await list_files(session)
        deletion = world.service.delete_file("a", container_id, file.id)
        deleting.append(asyncio.create_task(deletion))
        await settle()
        return listing

    world.sandbox.files = files  # type: ignore[method-assign]
    assert await world.service.written_files(container_id) == ()
    await deleting[0]
    assert await world.service.files("a", container_id) == ()


async def test_the_end_of_an_answer_counts_as_activity(world: World) -> None:
    container_id = await created(world)
    world.service.use(container_id)
    world.time += 19 * 60
    await world.service.release(container_id)
    world.time += 19 * 60
    assert await world.service.find("a", container_id) is not None
    world.time += 20 * 60
    await world.service.sweep()
    assert world.sandbox.closed == [container_id]


@pytest.mark.parametrize(
    ("owner", "minutes", "code"), [("a", 20, "container_expired"), ("b", 0, "not_found")]
)
async def test_no_cell_runs_in_a_container_that_has_expired_or_is_unknown(
    world: World, owner: str, minutes: int, code: str
) -> None:
    container_id = await created(world)
    world.service.use(container_id)
    world.time += minutes * 60
    with pytest.raises(NotFound) as caught:
        async with world.service.reserved(owner, container_id, None):
            pytest.fail("the cell runs")
    assert (caught.value.param, caught.value.code) == ("container_id", code)


async def test_a_lost_session_is_an_expired_container(world: World) -> None:
    container_id = await created(world)

    async def resume(session: str, limits: SandboxLimits) -> None:
        world.sandbox.sessions.clear()

    world.sandbox.resume = resume  # type: ignore[method-assign]
    with pytest.raises(NotFound) as caught:
        await world.service.add_file("a", container_id, "x", _content(b""))
    assert caught.value.code == "container_expired"


async def test_without_a_sandbox_nothing_is_started_or_ended(world: World) -> None:
    service = ContainerService(world.store, world.library, None, ContainerLimits())
    container_id = await created(world)
    await service.start()
    assert service.problem == "it has no sandbox"
    with pytest.raises(InvalidRequest, match="it has no sandbox"):
        await service.create("a", OPTIONS, param="")
    await service.delete("a", container_id)
    await service.stop()
    assert world.sandbox.closed == []


async def test_a_sandbox_without_a_layer_is_started_to_know_why(
    world: World, tmp_path: Path
) -> None:
    sandbox = BareSandbox(tmp_path / "x", "no layer works")
    service = ContainerService(world.store, world.library, sandbox, ContainerLimits())
    await service.start()
    await service.start()
    assert service.problem == "no layer works"
    await service.stop()


async def _content(content: bytes) -> AsyncIterator[bytes]:
    yield content


@pytest.mark.parametrize(("few", "here"), [(1, True), (0, False)])
async def test_many_files_are_compared_on_a_thread(
    world: World, monkeypatch: pytest.MonkeyPatch, few: int, here: bool
) -> None:
    compared: list[bool] = []

    def noted(*arguments: Any) -> Any:
        compared.append(threading.current_thread() is threading.main_thread())
        return changes(*arguments)

    monkeypatch.setattr(module, "changes", noted)
    monkeypatch.setattr(module, "FEW_FILES", few)
    container_id = await created(world)
    world.service.use(container_id)
    await world.sandbox.write(container_id, "x", _content(b""))
    assert len(await world.service.written_files(container_id)) == 1
    assert compared == [here]
