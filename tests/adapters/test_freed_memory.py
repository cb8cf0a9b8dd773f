import ctypes
import resource
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from adapters.freed_memory import release_freed


def resident() -> int:
    """The bytes of this process that are in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


@pytest.mark.skipif(sys.platform != "linux", reason="memory is released on Linux only")
def test_freed_memory_is_returned() -> None:
    # Blocks below the size from which the allocator maps memory of its own, the last one in use.
    blocks = [bytearray(b"x" * 64 * 1024) for _ in range(512)]
    last = blocks.pop()
    del blocks
    before = resident()
    release_freed()
    assert resident() < before - 16 * 1024 * 1024
    assert last == b"x" * 64 * 1024


def test_other_c_libraries_return_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda _: SimpleNamespace())
    release_freed()
