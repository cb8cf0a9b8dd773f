"""Returns memory of tensors to the system."""

import ctypes
import mmap
import sys

from torch import Tensor

_MADV_DONTNEED = 4


def release_freed() -> None:
    """Return memory that was freed, and is kept for later allocations, to the system.

    Does nothing outside of glibc, whose malloc_trim has this effect.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if trim is not None:
        trim(ctypes.c_size_t(0))


def release_pages(tensor: Tensor) -> None:
    """Return the memory of a contiguous `tensor` on a CPU to the system, which provides it again.

    Later, a page in anonymous memory has zeros, and a page of a mapped file its content. The
    content must therefore be zeros, or be needed no more. Does nothing outside of Linux, whose
    madvise has this effect.
    """
    if sys.platform != "linux" or tensor.device.type != "cpu" or not tensor.is_contiguous():
        return
    size = mmap.PAGESIZE
    begin = -(-tensor.data_ptr() // size) * size
    end = (tensor.data_ptr() + tensor.numel() * tensor.element_size()) // size * size
    if end > begin:
        # A failure leaves the memory as it is.
        ctypes.CDLL(None).madvise(
            ctypes.c_void_p(begin), ctypes.c_size_t(end - begin), _MADV_DONTNEED
        )
