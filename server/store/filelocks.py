"""File locks that show which gateways of one machine are alive.

Each gateway locks a file of its own, in a folder beside the database. The kernel releases the lock
when the process ends, for any reason. Only this module needs POSIX's flock.
"""

import fcntl
import logging
import os
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path

logger = logging.getLogger(__name__)


class FileLocks:
    """The locks of all gateways that use a database.

    folder: created if missing. With None, or if it is not writable or its file system has no locks,
    there are none, and only missing heartbeats show that a gateway has ended. gateway: this
    gateway's id.
    """

    def __init__(self, folder: Path | None, gateway: str) -> None:
        self._folder = folder
        self._gateway = gateway
        self._descriptor: int | None = None

    async def start(self) -> None:
        """Acquire this gateway's lock until `stop`, or until the process ends."""
        if self._folder is None:
            return
        try:
            self._folder.mkdir(mode=0o700, exist_ok=True)
            while self._descriptor is None:
                self._descriptor = _lock(self._folder / self._gateway, os.O_CREAT)
        except OSError as error:
            # Others could lock it, and would take this gateway for ended.
            with suppress(OSError):
                (self._folder / self._gateway).unlink()
            logger.warning("cannot lock a file in %s: %s", self._folder, error.strerror)

    async def stop(self) -> None:
        """Release this gateway's lock and remove its file."""
        if self._folder is not None and self._descriptor is not None:
            with suppress(OSError):
                (self._folder / self._gateway).unlink()
            os.close(self._descriptor)
            self._descriptor = None

    async def ended(self) -> frozenset[str]:
        """Return the gateways whose process ended without `stop`, until `forget`."""
        if self._folder is None:
            return frozenset()
        try:
            names = [name for name in os.listdir(self._folder) if name != self._gateway]
        except OSError:
            return frozenset()
        return frozenset(name for name in names if self._try(name, os.close))

    def forget(self, gateway: str) -> None:
        """Remove the file of an ended gateway."""
        if self._folder is not None:
            path = self._folder / gateway

            def remove(lock: int) -> None:
                try:
                    path.unlink()
                finally:
                    os.close(lock)

            self._try(gateway, remove)

    def _try(self, name: str, use: Callable[[int], None]) -> bool:
        """Call `use` with a gateway's lock, which it must close; False if that gateway is alive."""
        assert self._folder is not None
        with suppress(OSError):
            if (lock := _lock(self._folder / name)) is not None:
                use(lock)
                return True
        return False


def _lock(path: Path, flags: int = 0) -> int | None:
    """Return the locked file's descriptor; None if it is locked or removed by another.

    Raises OSError where the file system has no locks.
    """
    descriptor = os.open(path, os.O_RDWR | flags, 0o600)
    with ExitStack() as opened:
        opened.callback(os.close, descriptor)
        with suppress(BlockingIOError, FileNotFoundError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(descriptor), os.stat(path)):
                opened.pop_all()
                return descriptor
    return None
