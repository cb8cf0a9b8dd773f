"""Returns memory of tensors to the system, and bounds that of kernels."""

import asyncio
import ctypes
import mmap
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from torch import Tensor

from adapters.freed_memory import release_freed

_MADV_DONTNEED = 4
# Of mallopt: the option, the environment variable, and the value.
_ONE_ARENA = (-8, "MALLOC_ARENA_MAX", 1)
_KEPT = (
    (-1, "MALLOC_TRIM_THRESHOLD_", 512 << 20),
    # Older versions of glibc refuse more.
    (-3, "MALLOC_MMAP_THRESHOLD_", 32 << 20),
)
_MADV_COLLAPSE = 25
_HUGE_PAGE = 2 << 20
_MAPPINGS = Path("/proc/self/smaps")
_KERNELS = "64"
_IDLE_SECONDS = 1.0
_KERNEL_CACHES = ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY")

Mapping = tuple[int, int, int, dict[str, int]]
"""Of the memory of a process: the first address, the end, the inode (0 without a file), and sizes
in kB."""


def bound_kernel_caches() -> None:
    """Let torch keep 64 of the kernels that oneDNN compiles, one for each shape of a product.

    Each takes 0.6 MB, so that torch's own limit of 1,024 is 600 MB of memory, which requests of
    many lengths reach. To compile one takes 0.3 ms. A step in decode has 6 shapes, and its
    attention up to 6 more. torch reads the variables when it first computes a product; they may be
    set already.
    """
    for name in _KERNEL_CACHES:
        os.environ.setdefault(name, _KERNELS)


def allocate_in_one_arena() -> None:
    """Let all threads of this process allocate memory in one place.

    By default each thread has an arena of its own. What one thread frees, another one then cannot
    use: a server has 35 MB of that after 16 answers at once. Threads that have an arena keep it.
    Does nothing outside of glibc, and where its environment variable is set.
    """
    _set(*_ONE_ARENA)


def keep_freed() -> None:
    """Let this process keep up to 512 MB that it frees, until `IdleRelease` returns them.

    By default the memory of large tensors is returned when they are freed. A step then gets its
    memory page by page, which takes a fifth of the time of a prompt of 512 tokens. Tensors of
    more than 32 MB are returned as before. Does nothing outside of glibc, and where its environment
    variables are set.
    """
    for option in _KEPT:
        _set(*option)


def _set(option: int, variable: str, value: int) -> None:
    """Call glibc's mallopt."""
    set_option = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if set_option is not None and variable not in os.environ:
        set_option(ctypes.c_int(option), ctypes.c_int(value))


class IdleRelease:
    """Returns freed memory to the system when nothing was computed for a second.

    Steps of many rows leave 70 MB and more of it. Returning it between steps would slow down the
    next one, which gets its memory page by page.

    is_idle: asked on the event loop, before anything is returned. free: called there then, to free
    memory that is kept from step to step.
    """

    def __init__(self, is_idle: Callable[[], bool], free: Callable[[], None]) -> None:
        self._is_idle = is_idle
        self._free = free
        self._timer: asyncio.TimerHandle | None = None

    def note_end(self) -> None:
        """Called on the event loop when a request has ended."""
        self.cancel()
        if self._is_idle():
            self._timer = asyncio.get_running_loop().call_later(_IDLE_SECONDS, self._release)

    def cancel(self) -> None:
        """Return nothing until the next request has ended."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _release(self) -> None:
        self._timer = None
        if self._is_idle():
            self._free()
            threading.Thread(target=release_freed, name="release", daemon=True).start()


def use_huge_pages(address: int, size: int) -> bool:
    """Move memory that is read often to pages of 2 MB. Returns whether the system did.

    A matrix that is read from its beginning to its end arrives a tenth to a fifth faster: the CPU
    needs fewer entries of page tables. Takes 3 ms for 1 MB. Linux has this effect since 6.1.
    """
    begin = -(-address // _HUGE_PAGE) * _HUGE_PAGE
    end = (address + size) // _HUGE_PAGE * _HUGE_PAGE
    return sys.platform == "linux" and end > begin and _advise(begin, end, _MADV_COLLAPSE)


def release_pages(tensor: Tensor) -> None:
    """Return the memory of a contiguous `tensor` on a CPU to the system, which provides it again.

    Later, a page in anonymous memory has zeros, and a page of a mapped file its content. The
    content must therefore be zeros, or be needed no more. Does nothing outside of Linux, whose
    madvise has this effect.
    """
    begin, end = _pages(tensor)
    if end > begin:
        # A failure leaves the memory as it is.
        _advise(begin, end, _MADV_DONTNEED)


def release_file_pages(*tensors: Tensor) -> None:
    """Return the memory of contiguous `tensors`, whose content the system reads again on use.

    Only pages that are used afterwards are in memory then. Leaves those tensors as they are whose
    content is not all that of a mapped file.
    """
    with suppress(OSError, ValueError):
        mappings = [*_mappings()]
        for tensor in tensors:
            begin, end = _pages(tensor)
            if end > begin and _is_unchanged_file(mappings, begin, end):
                release_pages(tensor)


def _advise(begin: int, end: int, advice: int) -> bool:
    size = ctypes.c_size_t(end - begin)
    done: int = ctypes.CDLL(None).madvise(ctypes.c_void_p(begin), size, advice)
    return done == 0


def _pages(tensor: Tensor) -> tuple[int, int]:
    """The address of the first whole page of `tensor`, and that after the last one."""
    if sys.platform != "linux" or tensor.device.type != "cpu" or not tensor.is_contiguous():
        return 0, 0
    size = mmap.PAGESIZE
    begin = -(-tensor.data_ptr() // size) * size
    return begin, (tensor.data_ptr() + tensor.numel() * tensor.element_size()) // size * size


def _is_unchanged_file(mappings: Iterable[Mapping], begin: int, end: int) -> bool:
    """Whether the memory from `begin` to `end` is one of `mappings`, all as in its file."""
    for first, last, inode, fields in mappings:
        if first <= begin and end <= last:
            # Changed pages of a private mapping are anonymous, also if they were swapped out.
            return inode != 0 and fields["Anonymous"] == fields["Swap"] == 0
    return False


def _mappings() -> Iterator[Mapping]:
    """The mappings of this process."""
    first = last = inode = 0
    fields: dict[str, int] = {}
    for line in _MAPPINGS.read_text(errors="replace").splitlines():
        name, *values = line.split()
        if not name.endswith(":"):
            if last:
                yield first, last, inode, fields
            first, last = (int(part, 16) for part in name.split("-"))
            inode, fields = int(values[3]), {}
        elif name != "VmFlags:":
            fields[name.rstrip(":")] = int(values[0])
    if last:
        yield first, last, inode, fields
