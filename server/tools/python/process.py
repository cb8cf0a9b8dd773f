"""The sandbox `process`: sessions are confined processes of this machine."""

import asyncio
import importlib.util
import itertools
import logging
import os
import secrets
import sys
import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import AsyncExitStack, ExitStack, suppress
from pathlib import Path
from typing import Any

from adapters.completion import completed
from server.tools.python import session_files, session_transfers
from server.tools.python.confinement.command import (
    TEMPORARY,
    Folders,
    Layers,
    Process,
    make_private,
)
from server.tools.python.confinement.probe import FIRST_USER, probe
from server.tools.python.live import LiveProcess
from server.tools.python.process_limits import environment, kernel_limits, usable_cores
from server.tools.python.sandbox import (
    SESSION_ID,
    CellEnd,
    CellEvent,
    NoSuchSession,
    OutputText,
    SandboxFile,
    SandboxLimits,
    SandboxUnavailable,
    unavailable_on_oserror,
)
from server.tools.python.session import Session
from server.tools.python.session_folders import SessionFolders
from server.tools.python.watch import Watch

logger = logging.getLogger(__name__)

WORKER = Path(__file__).with_name("worker.py")
RESTARTED = "The session was restarted: its variables are lost, its files are there.\n"

RETRY_SECONDS = 10.0
"""The time between two attempts to start."""

_CHUNK = 1 << 18


class ProcessSandbox:
    """Runs sessions as confined processes, and has one process ready for the next session.

    root: the folder of all sessions' folders. most: processes that live at once, beside the one
    that is ready. Where there are more sessions, those that were idle longest lose their process,
    and with it their variables.
    layers: for tests; by default those that work here are found out.
    """

    def __init__(self, root: Path, *, most: int = 64, layers: Layers | None = None) -> None:
        self._folders = SessionFolders(root)
        self._most = most
        self._given = layers
        self._layers = layers or Layers()
        self._report: Mapping[str, str] = {}
        self._problem: str | None = "it has not been started"
        self._untested: str | None = None
        """The problem before a first process was started; it may still be there."""
        self._sessions: dict[str, Session] = {}
        self._warm: Session | None = None
        self._starts: asyncio.Task[None] | None = None
        self._retrying: asyncio.Task[None] | None = None
        self._warming: asyncio.Task[Any] | None = None
        self._watch: Watch | None = None
        cores = usable_cores()
        self._starting = asyncio.Semaphore(max(2, len(cores)))
        self._cores = itertools.cycle(cores)

    @property
    def problem(self) -> str | None:
        """Why no session can run on this machine, None if they can."""
        return self._problem or self._untested

    @property
    def layers(self) -> Mapping[str, str]:
        """Each layer of confinement that was tried, and `on` or why it is off."""
        return self._report

    @property
    def live(self) -> int:
        """The sessions whose process lives."""
        return sum(each.live is not None for each in self._sessions.values())

    async def start(self) -> None:
        """Probe the layers and start the first process. Waits for a start that is under way.

        Where the folder cannot be used, or the process does not start, this is tried again later.
        """
        await asyncio.shield(self.start_soon())

    def start_soon(self) -> asyncio.Task[None]:
        """Begin to start, as `start` does, and return at once. Safe to call twice."""
        if self._starts is None:
            self._starts = asyncio.create_task(self._start())
        return self._starts

    async def _start(self) -> None:
        found = await asyncio.to_thread(probe)
        self._report, problem = found.report, None
        if self._given is None:
            self._layers, problem = found.layers, found.problem
        if importlib.util.find_spec("IPython") is None:
            problem = "IPython is not installed: pip install 'gpt-oss-server[python-tools]'"
        if problem is not None:
            self._problem = problem
            return
        await self._prepare()
        if self._problem is not None:
            self._retrying = asyncio.create_task(self._retry())

    async def _prepare(self) -> None:
        """Prepare the folder and start the first process. Sets `problem`."""
        self._untested = self._problem
        try:
            self._problem = await asyncio.to_thread(self._folders.prepare, self._layers)
            if self._problem is None:
                self._warming = warming = asyncio.create_task(self._start_ahead())
                self._problem = await warming
            if self._problem is None:
                self._watch = Watch(self._sessions)
        finally:
            self._untested = None

    async def _retry(self) -> None:
        while self._problem is not None:
            await asyncio.sleep(RETRY_SECONDS)
            await self._prepare()
        logger.info("Python can be used now")

    async def stop(self) -> None:
        """End all sessions' processes. Safe to call twice. Folders stay."""
        self._problem = "it has been stopped"
        for task in (self._starts, self._retrying, self._warming):
            if task is not None and not task.done():
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
        if self._watch is not None:
            await self._watch.stop()
        await asyncio.gather(*(_end(each) for each in self._sessions.values()))
        if self._warm is not None:
            warm, self._warm = self._warm, None
            await self._discard(warm)

    async def create(self, session: str, limits: SandboxLimits) -> None:
        """Make the session's folder. Its process starts with the first cell. Idempotent."""
        self._check_id(session)
        if session not in self._sessions:
            # Not on a thread: two calls at once would make two folders.
            with unavailable_on_oserror():
                found = self._find(session, limits) or self._make(session, limits)
            self._add(session, found)

    async def resume(self, session: str, limits: SandboxLimits) -> None:
        """Find the session's folder, which an earlier process may have made. Idempotent."""
        self._check_id(session)
        if session not in self._sessions:
            with unavailable_on_oserror():
                found = self._find(session, limits)
            if found is None:
                raise NoSuchSession(session)
            self._add(session, found)

    async def run(
        self,
        session: str,
        code: str,
        timeout: float,  # noqa: ASYNC109 - the cell is interrupted, not this coroutine
    ) -> AsyncGenerator[CellEvent, None]:
        """Run a cell; see `PythonSandbox`."""
        record = self._get(session)
        async with record.lock:
            live = await self._process_of(record)
            lost, record.lost = record.lost, False
            events = live.run(code, timeout, record.limits.output)
            end: CellEnd | None = None
            try:
                if lost:
                    yield OutputText("stderr", RESTARTED)
                async for event in events:
                    if isinstance(event, CellEnd):
                        end = event
                    yield event
            finally:
                try:
                    await events.aclose()
                finally:
                    record.used = time.monotonic()
                    # Nobody has read the output of a cell that was cancelled.
                    record.lost = lost and end is None
                    if not live.alive:
                        # The lock is kept until then: the next cell needs another process.
                        await completed(live.kill(""))
                        record.live = None
                        # Only this outcome says that the variables are lost.
                        record.lost = end is None or end.outcome != "died"

    async def files(self, session: str) -> list[SandboxFile]:
        """The files of the session's folder, sorted by path."""
        record = self._get(session)
        async with record.moving:
            with unavailable_on_oserror():
                return await asyncio.to_thread(session_files.list_files, record.data)

    async def read(self, session: str, path: str) -> AsyncIterator[bytes]:
        """The content of a file."""
        record = self._get(session)
        with ExitStack() as opened:
            async with record.moving:
                with unavailable_on_oserror():
                    file = await completed(
                        asyncio.to_thread(session_transfers.open_file, record.data, path, opened)
                    )
            while chunk := await _next_chunk(file):
                yield chunk

    async def write(self, session: str, path: str, content: AsyncIterator[bytes]) -> SandboxFile:
        """Write a file; see `PythonSandbox`."""
        record = self._get(session)
        with ExitStack() as opened:
            async with record.moving:
                uploaded = record.uploaded
                with unavailable_on_oserror():
                    upload, left = await completed(
                        asyncio.to_thread(session_transfers.begin_upload, record, path, opened)
                    )
                record.uploads += 1
            try:
                return await session_transfers.receive(record, upload, content, uploaded + left)
            finally:
                record.uploads -= 1

    async def delete(self, session: str, path: str) -> None:
        """Delete a file."""
        record = self._get(session)
        async with record.moving:
            with unavailable_on_oserror():
                await asyncio.to_thread(session_files.delete_file, record.data, path)

    async def close(self, session: str) -> None:
        """Kill the session's processes and delete its folder. Idempotent."""
        if not SESSION_ID.fullmatch(session):
            return
        with unavailable_on_oserror():
            record = self._sessions.get(session) or self._find(session, SandboxLimits())
            self._folders.forget(session)
        self._sessions.pop(session, None)
        if record is not None:
            record.closed = True
            # After a cancellation nobody else would know the process any more.
            await completed(self._end_and_discard(record))

    # Processes

    async def _process_of(self, record: Session) -> LiveProcess:
        """The session's process, which is started if there is none."""
        self._check_open(record)
        if record.live is not None and record.live.alive:
            return record.live
        if record.live is not None:
            await record.live.kill("")
            record.live, record.lost = None, True
        await self._make_room()
        # A cancellation in the middle would leave two sessions with one folder.
        if not await completed(self._give_warm(record)):
            await self._launch(record)
        record.ran = True
        self._refill_soon()
        assert record.live is not None
        return record.live

    async def _launch(self, record: Session) -> None:
        """Start the record's process, and wait until it can run cells.

        `moving` is held until the record has the process: whoever closes the session or stops the
        sandbox meanwhile waits for that, and ends it. Later on, the process is found at once.
        """
        async with AsyncExitStack() as turn:
            async with record.moving:
                # Not before `moving`: others could not start while this one waits for that.
                await turn.enter_async_context(self._starting)
                self._check_open(record)
                with unavailable_on_oserror():
                    # The thread would go on after a cancellation, while the folder is deleted.
                    folders = await completed(asyncio.to_thread(_empty_folders, record))
                    process = await asyncio.to_thread(self._describe, record, folders)
                live = record.live = await LiveProcess.spawn(process, self._layers)
            try:
                await live.ready()
            except BaseException as error:
                record.live = None
                if isinstance(error, SandboxUnavailable):
                    self._check_open(record)
                raise

    def _check_open(self, record: Session) -> None:
        """Raises NoSuchSession or SandboxUnavailable where the record may have no process."""
        if record.closed:
            raise NoSuchSession("the session was closed")
        if self._problem is not None:
            raise SandboxUnavailable(self._problem)

    def _describe(self, record: Session, folders: Folders) -> Process:
        wrapped = self._layers.bubblewrap is not None
        temporary = TEMPORARY if wrapped else str(folders.temporary)
        shared = None if wrapped or self._layers.user else self._most
        return Process(
            command=(sys.executable, "-I", str(WORKER)),
            folders=folders,
            environment=environment(temporary),
            limits=kernel_limits(record.limits, sessions=shared),
            user=record.user,
            core=next(self._cores),
        )

    async def _make_room(self) -> None:
        """End idle processes until another one may start. Raises SandboxUnavailable."""
        while True:
            used = [each for each in self._sessions.values() if each.live or each.lock.locked()]
            if len(used) <= self._most:
                return
            idle = [each for each in used if not each.lock.locked()]
            if not idle:
                raise SandboxUnavailable(f"{self._most} sessions run at once already")
            oldest = min(idle, key=lambda each: each.used)
            assert oldest.live is not None
            live, oldest.live, oldest.lost = oldest.live, None, True
            # Also after a cancellation: nobody else knows the process any more.
            await completed(live.kill(""))

    # The process that waits for a session

    async def _start_warm(self) -> Session:
        record = self._new(SandboxLimits())
        try:
            await self._launch(record)
        except BaseException:
            await self._discard(record)
            raise
        return record

    def _refill_soon(self) -> None:
        """Let another process wait, if none does and none begins to."""
        is_waiting = self._warm is not None or (self._warming and not self._warming.done())
        if self._problem is None and not is_waiting:
            self._warming = asyncio.create_task(self._refill())

    async def _refill(self) -> None:
        if problem := await self._start_ahead():
            logger.warning("No Python process could be started ahead: %s", problem)

    async def _start_ahead(self) -> str | None:
        """Start the process that waits. Returns why it could not be started."""
        try:
            self._warm = await self._start_warm()
        except (SandboxUnavailable, OSError) as error:
            return str(error)
        return None

    async def _give_warm(self, record: Session) -> bool:
        """Give the waiting process to a session that never had one, if it has the same limits."""
        warm = self._warm
        if warm is None or record.ran or record.uploads or record.limits != warm.limits:
            return False
        self._warm = None
        async with record.moving:
            name = next((n for n, each in self._sessions.items() if each is record), None)
            is_usable = self._problem is None and warm.live is not None and warm.live.alive
            if name is None or not is_usable or record.uploads:
                # It does not wait again: by now another one may, which nobody would know any more.
                await self._discard(warm)
                return False
            try:
                await self._give(name, record, warm)
            except BaseException as error:
                # Nobody else knows it any more.
                await self._discard(warm)
                if isinstance(error, OSError):
                    raise SandboxUnavailable(f"the session cannot be moved: {error}") from error
                raise
            left, record.folder = record.folder, warm.folder
            record.user, record.live = warm.user, warm.live
            warm.folder_lock.close()
            await _remove(left)
        return True

    async def _give(self, name: str, record: Session, warm: Session) -> None:
        """Give the session `name` the folder of the process that it gets, with its files.

        Where that fails it keeps its own folder. Raises OSError.
        """
        await completed(asyncio.to_thread(session_transfers.move, record, warm))
        try:
            # A session that was closed meanwhile has no link, or another session of its name has.
            if not record.closed:
                self._folders.give(name, warm.folder)
        except OSError:
            await completed(asyncio.to_thread(session_transfers.take, warm, record))
            raise

    # Folders

    def _check_id(self, session: str) -> None:
        """Raises SandboxUnavailable, and ValueError for what is no session id."""
        if self._problem is not None:
            raise SandboxUnavailable(self._problem)
        if not SESSION_ID.fullmatch(session):
            raise ValueError(f"{session!r} is no session id")

    def _add(self, session: str, record: Session) -> None:
        self._sessions[session] = record
        if self._watch is not None:  # else it will begin with this session
            self._watch.note_added()

    def _make(self, session: str, limits: SandboxLimits) -> Session:
        """The session with a new folder."""
        record = self._new(limits)
        with record.folder_lock:
            try:
                self._folders.give(session, record.folder)
            except OSError:
                with suppress(OSError):
                    session_files.remove(record.folder)
                raise
        return record

    def _find(self, session: str, limits: SandboxLimits) -> Session | None:
        """The session with its folder of before; None if it has none."""
        folder = self._folders.find(session)
        if folder is None:
            return None
        user = Folders.below(folder).data.stat().st_uid if self._layers.user else None
        return Session(limits, folder, user, ran=True, lost=True)

    def _new(self, limits: SandboxLimits) -> Session:
        user = FIRST_USER + secrets.randbelow(FIRST_USER) if self._layers.user else None
        folder, lock = self._folders.make(user)
        return Session(limits, folder, user, folder_lock=lock)

    def _get(self, session: str) -> Session:
        try:
            return self._sessions[session]
        except KeyError:
            raise NoSuchSession(session) from None

    async def _end_and_discard(self, record: Session) -> None:
        async with record.moving:
            await self._discard(record)

    async def _discard(self, record: Session) -> None:
        if record.live is not None:
            await record.live.kill("the session was closed")
        try:
            await _remove(record.folder)
        finally:
            record.folder_lock.close()


async def _end(record: Session) -> None:
    """End the process of a session, also one that it gets at this moment."""
    if record.live is not None:
        # At once; `moving` may be held for a while.
        record.live.end("the server stops")
    async with record.moving:
        if record.live is not None:
            await record.live.kill("the server stops")


async def _next_chunk(file: int) -> bytes:
    """More of a file; empty at its end."""
    with unavailable_on_oserror():
        return await completed(asyncio.to_thread(os.read, file, _CHUNK))


async def _remove(folder: Path) -> None:
    try:
        await asyncio.to_thread(session_files.remove, folder)
    except OSError as error:
        logger.warning("A session's folder is left behind: %s", error)


def _empty_folders(record: Session) -> Folders:
    """The session's folders, with nothing of an earlier process but its files."""
    folders = Folders.below(record.folder)
    session_files.remove(folders.temporary)
    make_private(folders.temporary, record.user)
    return folders
