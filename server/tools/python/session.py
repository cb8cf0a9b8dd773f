"""What the sandbox `process` knows of a session."""

import asyncio
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from server.tools.python.confinement.command import Folders
from server.tools.python.live import LiveProcess
from server.tools.python.sandbox import SandboxLimits


@dataclass(slots=True, eq=False)
class Session:
    """A session, or a process that waits for one.

    folder: holds its folders. user: who owns them; None: this server's user. live: its process.
    ran: whether it may have had a process before. lost: whether its variables were lost since its
    last cell. uploads: those that are received. uploaded: the bytes of all uploads but failed ones,
    ever. lock: held by the cell that runs. moving: held while its files are listed, opened,
    moved or deleted, while a process starts until `live` has it, and while the session or its
    process is ended. folder_lock: the lock of a folder that no session has yet.

    Who needs several of these takes `lock` first, then `moving`, and then the sandbox's turn to
    start a process. The turn is kept after `moving` is released; nobody who has it takes a lock.
    """

    limits: SandboxLimits
    folder: Path
    user: int | None
    live: LiveProcess | None = None
    ran: bool = False
    lost: bool = False
    closed: bool = False
    uploads: int = 0
    uploaded: int = 0
    used: float = 0.0
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    moving: asyncio.Lock = field(default_factory=asyncio.Lock)
    folder_lock: ExitStack = field(default_factory=ExitStack)

    @property
    def data(self) -> Path:
        """The folder that its cells see."""
        return Folders.below(self.folder).data
