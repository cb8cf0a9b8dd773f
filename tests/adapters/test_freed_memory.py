import ctypes
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from adapters.freed_memory import release_freed


@pytest.mark.skipif(sys.platform != "linux", reason="memory is released on Linux only")
def test_freed_memory_is_returned() -> None:
    # Blocks below the size from which the allocator maps memory of its own, the last one in use.
    blocks = [bytearray(b"x" * 64 * 1024) for _ in range(512)]
    last = blocks.pop()
    del blocks
    before = int(Path("/proc/self/statm").read_text().split()[1])
    release_freed()
    assert int(Path("/proc/self/statm").read_text().split()[1]) <= before
    assert last == b"x" * 64 * 1024


def test_other_c_libraries_return_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda _: SimpleNamespace())
    release_freed()
