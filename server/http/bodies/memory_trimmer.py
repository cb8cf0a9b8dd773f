"""Returns the memory of freed large bodies to the operating system.

glibc keeps freed memory for reuse, in an arena for each thread: hundreds of megabytes after many
large concurrent bodies. The alternative, a lower M_MMAP_THRESHOLD, would slow down engines in this
process, whose tensors are as large.
"""

import asyncio
from collections.abc import Callable

from adapters.freed_memory import release_freed

LARGE = 1024 * 1024
"""Bytes of a body from which on memory is trimmed."""

DELAY = 1.0
"""Seconds from the end of a large body to the trim. Bodies that end in between share it."""


class MemoryTrimmer:
    """Trims freed memory by `trim`, at most once in DELAY seconds."""

    def __init__(self, trim: Callable[[], object] = release_freed) -> None:
        self._trim = trim
        self._scheduled = False

    def note(self, size: int) -> None:
        """Note that a body of `size` bytes was freed."""
        if size >= LARGE and not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_later(DELAY, self._start_trim)

    def trim(self) -> None:
        """Trim now: see `release_freed`."""
        self._trim()

    def _start_trim(self) -> None:
        self._scheduled = False
        asyncio.get_running_loop().run_in_executor(None, self.trim)
