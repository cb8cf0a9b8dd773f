"""The interface of sandboxes: confined Python sessions with a folder of files each.

A session is a process with an IPython shell. Its state lives until the session is closed, the
process dies, or a cell is killed. Its folder is `/mnt/data`.
"""

import re
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal, Protocol

GIB = 1 << 30
SESSION_ID = re.compile(r"[A-Za-z0-9_-]{1,128}")
"""What ids of sessions match."""
MOST_LISTED = 10_000
"""Files that a sandbox lists. Where it lists so many, there may be more."""


class SandboxError(Exception):
    """A sandbox operation failed. The message is for logs and operators."""


class SandboxUnavailable(SandboxError):
    """No session can be made now: the sandbox is off, full, or cannot be reached."""


class NoSuchSession(SandboxError):
    """The session does not exist (any more)."""


class NoSuchFile(SandboxError):
    """The session's folder has no such file."""


class FileTooLarge(SandboxError):
    """A file, or all files of the session together, exceed a limit."""


@contextmanager
def unavailable_on_oserror() -> Iterator[None]:
    """Raises SandboxUnavailable for an OSError, such as that of a full disk."""
    try:
        yield
    except OSError as error:
        raise SandboxUnavailable(str(error)) from error


@dataclass(frozen=True, slots=True)
class SandboxLimits:
    """The limits of one session.

    memory, disk: bytes. processes: processes and threads together. output: bytes of stdout, stderr
    and results of one cell that are returned; more is read and dropped. An image, a result and a
    traceback count for 1 KiB at least.
    """

    memory: int = GIB
    disk: int = GIB
    processes: int = 64
    output: int = 10 << 20


@dataclass(frozen=True, slots=True)
class OutputText:
    """More output of a cell. `result` is the value of the last expression, `error` a traceback."""

    stream: Literal["stdout", "stderr", "result", "error"]
    text: str


@dataclass(frozen=True, slots=True)
class OutputImage:
    """An image that a cell displayed. media_type: such as `image/png`."""

    media_type: str
    data: bytes


@dataclass(frozen=True, slots=True)
class CellEnd:
    """The last event of a cell.

    raised: it ended with an exception, whose traceback came as `OutputText`. timeout: it was
    interrupted after its time. died: its process ended or was killed, and the session's variables
    are lost; its files are not.
    """

    outcome: Literal["completed", "raised", "timeout", "died"]
    reason: str = ""


CellEvent = OutputText | OutputImage | CellEnd


@dataclass(frozen=True, slots=True)
class SandboxFile:
    """A file of a session. path: relative to the session's folder. modified: Unix nanoseconds."""

    path: str
    size: int
    modified: int


class PythonSandbox(Protocol):
    """Runs cells in sessions. Session ids are chosen by the caller; they match `SESSION_ID`.

    Each operation raises SandboxUnavailable where the machine fails, as on a full disk.
    """

    @property
    def problem(self) -> str | None:
        """Why no session can run on this machine, None if they can. Known after `start`."""
        ...

    @property
    def layers(self) -> Mapping[str, str]:
        """Each layer of confinement that was tried, and `on` or why it is off."""
        ...

    async def start(self) -> None:
        """Find out whether sessions can run, and prepare for them. It does not raise."""
        ...

    async def stop(self) -> None:
        """End all sessions' processes. Safe to call twice. Folders stay."""
        ...

    async def create(self, session: str, limits: SandboxLimits) -> None:
        """Make the session's folder. Its process starts with the first cell. Idempotent.

        Raises SandboxUnavailable, and ValueError for what is no session id.
        """
        ...

    async def resume(self, session: str, limits: SandboxLimits) -> None:
        """Find the session that was created, maybe by an earlier process. Idempotent.

        Raises NoSuchSession if this sandbox does not have it, and ValueError as `create` does.
        """
        ...

    def run(self, session: str, code: str, timeout: float) -> AsyncGenerator[CellEvent, None]:
        """Run a cell; `CellEnd` is the last event. Cells of a session run one after another.

        timeout: seconds after which the cell is interrupted, and killed if it goes on. Closing the
        generator interrupts the cell, and kills the process if it goes on for a second.
        Raises NoSuchSession and SandboxUnavailable before the first event.
        """
        ...

    async def files(self, session: str) -> list[SandboxFile]:
        """The files of the session's folder, sorted by path. Raises NoSuchSession.

        No more than MOST_LISTED, and none whose path is not UTF-8.
        """
        ...

    def read(self, session: str, path: str) -> AsyncIterator[bytes]:
        """The content of a file. Raises NoSuchSession and NoSuchFile before the first bytes."""
        ...

    async def write(self, session: str, path: str, content: AsyncIterator[bytes]) -> SandboxFile:
        """Write a file; what was there is replaced once all is written.

        Raises NoSuchSession, FileTooLarge, SandboxUnavailable, and NoSuchFile for a path outside
        of the folder.
        """
        ...

    async def delete(self, session: str, path: str) -> None:
        """Delete a file. Raises NoSuchSession and NoSuchFile."""
        ...

    async def close(self, session: str) -> None:
        """Kill the session's processes and delete its folder. Idempotent."""
        ...
