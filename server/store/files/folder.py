"""The content of files: one file of a folder each, named by its id."""

import asyncio
import logging
import os
import secrets
import shutil
import tempfile
import threading
import time
import weakref
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from server.threads import CHUNK, closed_on_a_thread, read

logger = logging.getLogger(__name__)

_PARTIAL = ".partial-"
_PARTIAL_SECONDS = 86_400.0


class FileFolder:
    """A folder of contents.

    folder: None for a temporary one, which `close` deletes. It is created with the first content
    or by `check`, readable by its owner only. Several gateways may share it.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._cleanup: weakref.finalize[[Path, bool], FileFolder] | None = None
        self._making = threading.Lock()

    def stage(self) -> "StagedFile":
        """A new file to write to. Raises OSError."""
        return StagedFile(self, self._made())

    def check(self) -> None:
        """Make the folder, and a file in it that is gone at once. Raises OSError."""
        with tempfile.TemporaryFile(dir=self._made()):
            pass

    def path(self, file_id: str) -> Path | None:
        """Where the content of a file is, if there is one; None while there is no folder."""
        return None if self._folder is None else self._folder / file_id

    def open(self, file_id: str) -> BinaryIO | None:
        """The content of a file; None if there is none. It can be read after a deletion."""
        path = self.path(file_id)
        with suppress(FileNotFoundError):
            return None if path is None else path.open("rb")
        return None

    def delete(self, file_id: str) -> None:
        """Delete a content, if there is one."""
        if (path := self.path(file_id)) is not None:
            path.unlink(missing_ok=True)

    def sweep(self) -> None:
        """Delete what interrupted uploads of earlier processes left."""
        if self._folder is None or not self._folder.is_dir():
            return
        oldest = time.time() - _PARTIAL_SECONDS
        for path in self._folder.glob(f"{_PARTIAL}*"):
            try:
                if path.stat().st_mtime < oldest:
                    path.unlink()
            except FileNotFoundError:
                continue
            except OSError as error:
                logger.error("%s cannot be deleted: %s", path.name, error.strerror)

    def close(self) -> None:
        """Delete a temporary folder. Safe to call twice."""
        if self._cleanup is not None:
            self._cleanup()
            self._cleanup = self._folder = None

    def _made(self) -> Path:
        # Uploads begin on threads: two at once would each make a temporary folder.
        with self._making:
            if self._folder is None:
                self._folder = Path(tempfile.mkdtemp(prefix="gpt-oss-files-"))
                self._cleanup = weakref.finalize(self, shutil.rmtree, self._folder, True)
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            return self._folder


class StagedFile:
    """A file that is being written. `keep` gives it its id; `discard` deletes it.

    All methods that touch the disk run on threads, a large piece at a time.
    """

    def __init__(self, folder: FileFolder, place: Path) -> None:
        self.size = 0
        self.path = place / f"{_PARTIAL}{secrets.token_hex(16)}"
        self._folder = folder
        # A folder that was there before may be open to others.
        self.path.touch(mode=0o600, exist_ok=False)
        self._file: BinaryIO | None = self.path.open("wb")
        self._buffer = bytearray()

    async def write(self, data: bytes) -> None:
        """Append bytes. Raises OSError."""
        self.size += len(data)
        self._buffer += data
        if len(self._buffer) >= CHUNK:
            await asyncio.to_thread(self._flush)

    async def read(self) -> AsyncIterator[bytes]:
        """The content so far, in pieces."""
        await asyncio.to_thread(self._flush)
        with closed_on_a_thread(await asyncio.to_thread(self.path.open, "rb")) as file:
            async for piece in read(file):
                yield piece

    async def keep(self, file_id: str) -> None:
        """Make it the content of a file."""
        await asyncio.to_thread(self._keep, self.path.with_name(file_id))

    async def discard(self) -> None:
        """Delete it, unless it was kept."""
        await asyncio.to_thread(self._discard)

    def _flush(self) -> None:
        assert self._file is not None
        self._file.write(self._buffer)
        self._file.flush()
        self._buffer.clear()

    def _keep(self, path: Path) -> None:
        self._flush()
        self._close()
        os.replace(self.path, path)

    def _discard(self) -> None:
        # On a full disk the last bytes cannot be written, nor need they be.
        with suppress(OSError):
            self._close()
        self.path.unlink(missing_ok=True)

    def _close(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            file.close()
