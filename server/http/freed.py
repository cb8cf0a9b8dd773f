"""Memory of large bodies, given back to the system after they were freed.

glibc keeps what is freed for the next one who asks, in an arena for each thread: hundreds of
megabytes, if many large bodies came at once. To have it map large blocks apart (M_MMAP_THRESHOLD)
would give them back too, but slow down engines in this process, whose tensors are as large.

Source: malloc_trim(3).
"""

import asyncio
import ctypes
from collections.abc import Callable

LARGE = 1024 * 1024
"""Bytes of a body that is worth it."""

DELAY = 1.0
"""Seconds from the end of a large body to the trim, which all that end meanwhile share."""


def trimmer() -> Callable[[int], int] | None:
    """glibc's malloc_trim; None with another C library."""
    try:
        trim: Callable[[int], int] = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):
        return None
    return trim


class Freed:
    """Has freed memory given back, at most once in DELAY seconds."""

    def __init__(self, trim: Callable[[int], object] | None) -> None:
        self._trim = trim
        self._due = False

    def note(self, size: int) -> None:
        """A body of `size` bytes is no longer used."""
        if size >= LARGE and self._trim is not None and not self._due:
            self._due = True
            asyncio.get_running_loop().call_later(DELAY, self._give_back, self._trim)

    def _give_back(self, trim: Callable[[int], object]) -> None:
        self._due = False
        # It takes milliseconds, without the GIL.
        asyncio.get_running_loop().run_in_executor(None, trim, 0)
