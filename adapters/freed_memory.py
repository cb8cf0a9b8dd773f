"""Returns memory that was freed to the system."""

import ctypes
import sys


def release_freed() -> None:
    """Return memory that was freed, and is kept for later allocations, to the system.

    Takes milliseconds, in which the GIL is released. Does nothing outside of glibc, whose
    malloc_trim has this effect.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if trim is not None:
        trim(ctypes.c_size_t(0))
