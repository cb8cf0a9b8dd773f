"""Locks that end with the process that holds them, for gateways of one machine.

Each gateway holds the lock of a file of its own, in a folder beside the database. The kernel lets
go of it when the process ends, however it ends. Only this module needs POSIX's flock.
"""

import fcntl
import logging
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

logger = logging.getLogger(__name__)


class FileLocks:
    """The locks of all gateways that use a database. gateway: this one's id.

    folder: is made; None, or one that cannot be written, has no locks: gateways are then known by
    their heartbeats alone.
    """

    def __init__(self, folder: Path | None, gateway: str) -> None:
        self._folder = folder
        self._gateway = gateway
        self._held: int | None = None

    async def start(self) -> None:
        """Hold this gateway's lock until `stop`, or until the process ends."""
        if self._folder is None:
            return
        try:
            self._folder.mkdir(mode=0o700, exist_ok=True)
            while self._held is None:
                self._held = _lock(self._folder / self._gateway, os.O_CREAT)
        except OSError as error:
            logger.warning("cannot lock a file in %s: %s", self._folder, error.strerror)

    async def stop(self) -> None:
        """Let go of this gateway's lock; nobody takes it for one that died."""
        if self._folder is not None and self._held is not None:
            with suppress(OSError):
                (self._folder / self._gateway).unlink()
            os.close(self._held)
            self._held = None

    async def ended(self) -> frozenset[str]:
        """The gateways whose process ended without `stop`, until `forget`."""
        if self._folder is None:
            return frozenset()
        try:
            names = [name for name in os.listdir(self._folder) if name != self._gateway]
        except OSError:
            return frozenset()
        return frozenset(name for name in names if self._try(name, os.close))

    def forget(self, gateway: str) -> None:
        """Remove the file of a gateway that has ended."""
        if self._folder is not None:
            path = self._folder / gateway

            def remove(lock: int) -> None:
                path.unlink()
                os.close(lock)

            self._try(gateway, remove)

    def _try(self, name: str, use: Callable[[int], None]) -> bool:
        """Call `use` with the lock of a gateway, which closes it; False where that gateway runs."""
        assert self._folder is not None
        with suppress(OSError):
            if (lock := _lock(self._folder / name)) is not None:
                use(lock)
                return True
        return False


def _lock(path: Path, flags: int = 0) -> int | None:
    """The descriptor of the locked file; None where another has the lock, or removed the file."""
    opened = os.open(path, os.O_RDWR | flags, 0o600)
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(opened), os.stat(path)):
            return opened
    except (BlockingIOError, FileNotFoundError):
        pass
    os.close(opened)
    return None
