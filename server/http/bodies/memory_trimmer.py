"""Returns the memory of freed large bodies to the operating system.

glibc keeps freed memory for reuse, in an arena for each thread: hundreds of megabytes after many
large concurrent bodies. The alternative, a lower M_MMAP_THRESHOLD, would slow down engines in this
process, whose tensors are as large.

Source: malloc_trim(3).
"""

import asyncio
import ctypes
from collections.abc import Callable

LARGE = 1024 * 1024
"""Bytes of a body from which on memory is trimmed."""

DELAY = 1.0
"""Seconds from the end of a large body to the trim. Bodies that end in between share it."""


def malloc_trim() -> Callable[[int], int] | None:
    """glibc's malloc_trim; None with another C library."""
    try:
        trim: Callable[[int], int] = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):
        return None
    return trim


class MemoryTrimmer:
    """Trims freed memory, at most once in DELAY seconds. trim: None disables it."""

    def __init__(self, trim: Callable[[int], object] | None) -> None:
        self._trim = trim
        self._scheduled = False

    def note(self, size: int) -> None:
        """Note that a body of `size` bytes was freed."""
        if size >= LARGE and self._trim is not None and not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_later(DELAY, self._start_trim)

    def trim(self) -> None:
        """Trim now. This takes milliseconds, in which the GIL is released."""
        if self._trim is not None:
            self._trim(0)

    def _start_trim(self) -> None:
        self._scheduled = False
        asyncio.get_running_loop().run_in_executor(None, self.trim)
