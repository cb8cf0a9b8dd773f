"""Ends sessions that are over the limits that the kernel does not know.

Memory and processes are measured in every round. Files are counted in steps, since a session may
have hundreds of thousands: no session delays the checks of the others for longer than a step. What
is moved between two steps may be counted twice: before a session is ended for such a count, its
files are counted once more, at once.
"""

import asyncio
import itertools
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import closing, suppress

from adapters.completion import completed
from server.tools.python import session_files
from server.tools.python.live import LiveProcess
from server.tools.python.process_limits import GUARD_PROCESSES
from server.tools.python.sandbox import SandboxLimits
from server.tools.python.session import Session
from server.tools.python.usage import deleted_files, measure

logger = logging.getLogger(__name__)

ROUND_SECONDS = 0.25
STEP_SECONDS = 0.1
"""The time for which the files of a session are counted before it is another one's turn."""
_IDLE_ROUNDS = 8
"""Sessions without a running cell are looked at less often."""

Check = Callable[[Session, LiveProcess], Awaitable[str | None]]
"""Says why a session with this process has to end, if it has to."""


class Watch:
    """Checks sessions until it is stopped.

    sessions: those that there are, at any time. Whoever adds one calls `note_added`, because
    nothing is checked, and nothing wakes up, while there are none.
    """

    def __init__(self, sessions: Mapping[str, Session]) -> None:
        self._sessions = sessions
        self._added = asyncio.Event()
        self._counts: dict[Session, FileCount] = {}
        self._recounts: dict[Session, asyncio.Task[None]] = {}
        self._ending: dict[Session, asyncio.Task[None]] = {}
        checks = (_check_processes, self._check_files)
        self._rounds = [asyncio.create_task(self._repeat(check)) for check in checks]

    def note_added(self) -> None:
        """There is one more session than before."""
        self._added.set()

    async def stop(self) -> None:
        """End the checks. Safe to call twice."""
        tasks = [*self._rounds, *self._recounts.values(), *self._ending.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _repeat(self, check: Check) -> None:
        """Check one session after another."""
        for number in itertools.count():
            if not self._sessions:
                self._added.clear()
                await self._added.wait()
            await asyncio.sleep(ROUND_SECONDS)
            for session in self._due(number):
                live = session.live
                if live is None or not live.alive:
                    continue  # It has ended while others were checked.
                try:
                    reason = await check(session, live)
                except (OSError, RuntimeError) as error:
                    # Such as too many open files or threads: the next round looks again.
                    logger.warning("The limits of a Python session cannot be checked: %s", error)
                else:
                    self._end(session, live, reason)

    def _due(self, number: int) -> list[Session]:
        """The sessions to look at in a round. number: that of the round."""
        is_for_all = number % _IDLE_ROUNDS == 0
        return [
            each
            for each in self._sessions.values()
            if each.live and each.live.alive and each not in self._ending
            if is_for_all or each.lock.locked() or each in self._counts
        ]

    async def _check_files(self, session: Session, live: LiveProcess) -> str | None:
        """Count files of the session for a step."""
        for each, begun in list(self._counts.items()):
            if each.closed or each.live is not begun.live:
                del self._counts[each]
        if session in self._recounts:
            return None
        count = self._counts.pop(session, None) or FileCount(session)
        is_done = await completed(asyncio.to_thread(count.step))
        if not is_done:
            self._counts[session] = count
        elif count.is_over and count.is_exact:
            return _too_many_files(session)
        elif count.is_over:
            self._recounts[session] = task = asyncio.create_task(self._recount(session, live))
            task.add_done_callback(lambda _: self._recounts.pop(session))
        return None

    async def _recount(self, session: Session, live: LiveProcess) -> None:
        """End a session if its files, counted at once, are too many.

        This runs in a task of its own: the checks of the others, and of its memory, go on.
        """
        try:
            is_over = await completed(asyncio.to_thread(_takes_too_much, session, live))
        except OSError as error:
            logger.warning("The limits of a Python session cannot be checked: %s", error)
            return
        if is_over:
            self._end(session, live, _too_many_files(session))

    def _end(self, session: Session, live: LiveProcess, reason: str | None) -> None:
        """End a session's process in a task of its own: the checks of the others go on."""
        if reason is not None and session not in self._ending:
            self._ending[session] = task = asyncio.create_task(_enforce(session, live, reason))
            task.add_done_callback(lambda _: self._ending.pop(session))


class FileCount:
    """Counts what a session's files take, those included that are deleted, but in use.

    live: the process that the session has. It may move files between two steps, which are then
    counted twice, or not at all.
    """

    def __init__(self, session: Session) -> None:
        self.live = session.live
        self._session = session
        self._walk = session_files.Walk(session.folder)
        self._left = session.limits.disk
        self._steps = 0

    @property
    def is_over(self) -> bool:
        """Whether the files counted so far take more than the limit."""
        return self._left < 0

    @property
    def is_exact(self) -> bool:
        """Whether the files were counted at once."""
        return self._steps <= 1

    def step(self) -> bool:
        """Count for `STEP_SECONDS`. Returns whether all is counted, or too much. Raises OSError."""
        self._steps += 1
        end = time.monotonic() + STEP_SECONDS
        with suppress(FileNotFoundError), closing(self._walk.entries()) as entries:
            for path, status in entries:
                self._left -= session_files.size_of(path, status)
                if self.is_over:
                    return True
                if time.monotonic() >= end:
                    return False
        if self.live is not None:
            self._left -= deleted_files(self.live.pid)
        if self._walk.met_closed:
            self._left = -1
        return True


def _takes_too_much(session: Session, live: LiveProcess) -> bool:
    most = session.limits.disk
    used = session_files.usage(session.folder, most)
    return used > most or used + deleted_files(live.pid) > most


def _too_many_files(session: Session) -> str:
    return f"its files took more than {session.limits.disk >> 20} MiB; the last ones were deleted"


async def _enforce(session: Session, live: LiveProcess, reason: str) -> None:
    """End the process of a session that is over a limit, and delete what is too much.

    Does nothing if the session is closed, or has another process by now.
    """
    if session.closed or session.live is not live:
        return
    logger.warning("A Python session was ended: %s", reason)
    # At once; `moving` may be held for a while. Whoever waits for it then finds what is left.
    live.end(reason)
    async with session.moving:
        await live.kill(reason)
        try:
            if not session.closed:
                await completed(
                    asyncio.to_thread(session_files.shrink, session.folder, session.limits.disk)
                )
        except OSError as error:
            logger.warning("The files of a Python session cannot be deleted: %s", error)


async def _check_processes(session: Session, live: LiveProcess) -> str | None:
    return await asyncio.to_thread(_excess, live, session.limits)


def _excess(live: LiveProcess, limits: SandboxLimits) -> str | None:
    most = limits.processes + GUARD_PROCESSES
    used = measure(live.pid, limits.memory, most)
    if used.memory > limits.memory:
        return f"it used more memory than {limits.memory >> 20} MiB"
    if used.processes > most:
        return f"it had more processes and threads than {limits.processes}"
    return None
