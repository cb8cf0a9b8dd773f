import asyncio
import mmap
import os
import platform
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from adapters.local import memory
from adapters.local.memory import (
    IdleRelease,
    bound_kernel_caches,
    release_file_pages,
    release_pages,
    use_huge_pages,
)

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="memory is released on Linux only")
MIB = 2**20


def resident(tensor: torch.Tensor, kind: str = "Rss") -> int:
    """The bytes of the mapping with `tensor` that are in memory, or those of one kind."""
    here = False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        name = line.split()[0]
        if "-" in name and not name.endswith(":"):
            begin, end = (int(part, 16) for part in name.split("-"))
            here = begin <= tensor.data_ptr() < end
        elif here and name == f"{kind}:":
            return int(line.split()[1]) * 1024
    raise AssertionError("the tensor has no mapping")


def has_huge_pages() -> bool:
    release = platform.release().split(".")
    setting = Path("/sys/kernel/mm/transparent_hugepage/enabled")
    return sys.platform == "linux" and [*map(int, release[:2])] >= [6, 1] and setting.exists()


@pytest.mark.skipif(not has_huge_pages(), reason="this system has none")
def test_memory_moves_to_huge_pages() -> None:
    # A mapping of its own: other tests of this process leave the allocator's in any state.
    private = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    tensor = torch.frombuffer(mmap.mmap(-1, 16 * MIB, flags=private), dtype=torch.int64)
    torch.arange(2 * MIB, out=tensor)
    assert use_huge_pages(tensor.data_ptr(), tensor.nbytes)
    assert resident(tensor, "AnonHugePages") >= 14 * MIB
    assert torch.equal(tensor, torch.arange(2 * MIB))


def test_memory_without_a_whole_huge_page_stays() -> None:
    tensor = torch.zeros(MIB, dtype=torch.uint8)
    assert not use_huge_pages(tensor.data_ptr(), tensor.nbytes)


def output_of(script: str, **variables: str | None) -> str:
    """The output of a Python script, whose environment has no other variables of malloc than the
    given ones.
    """
    environment = {name: value for name, value in os.environ.items() if "MALLOC" not in name}
    environment |= {name: value for name, value in variables.items() if value is not None}
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return done.stdout


ARENAS = """
import ctypes, threading
from adapters.local.memory import allocate_in_one_arena
allocate_in_one_arena()
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
def allocate():
    found.append(libc.malloc(ctypes.c_size_t(1000)))
found = []
for _ in range(4):
    thread = threading.Thread(target=allocate)
    thread.start()
    thread.join()
with open("/proc/self/maps") as file:
    heap = next(line.split()[0] for line in file if line.endswith("[heap]\\n"))
begin, end = (int(part, 16) for part in heap.split("-"))
print(sum(begin <= address < end for address in found))
"""


@linux_only
@pytest.mark.parametrize(("given", "in_heap"), [(None, 4), ("8", 0)])
def test_threads_share_one_arena_unless_the_environment_says_otherwise(
    given: str | None, in_heap: int
) -> None:
    assert int(output_of(ARENAS, MALLOC_ARENA_MAX=given)) == in_heap


KEPT = """
import torch
from adapters.freed_memory import release_freed
from adapters.local.memory import allocate_in_one_arena, keep_freed
allocate_in_one_arena()
keep_freed()
def resident():
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) >> 10 for line in file if line.startswith("VmRSS"))
before = resident()
tensors = [torch.ones(16 << 20, dtype=torch.uint8) for _ in range(4)]
del tensors
after = resident()
release_freed()
print(after - before, resident() - before)
"""


@linux_only
@pytest.mark.parametrize("given", [None, "131072"])
def test_freed_memory_is_kept_unless_the_environment_says_otherwise(given: str | None) -> None:
    output = output_of(KEPT, MALLOC_MMAP_THRESHOLD_=given)
    megabytes, after_release = map(int, output.split())
    assert megabytes >= 60 if given is None else megabytes < 20
    assert after_release < 20


KERNELS = """
import os, sys, torch
from adapters.local.memory import bound_kernel_caches
bound_kernel_caches()
weight = torch.randn(256, 384).bfloat16()
def anonymous():
    with open("/proc/self/smaps_rollup") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("Anonymous:"))
def compute(sizes):
    for rows in sizes:
        torch.randn(rows, 256).bfloat16() @ weight
compute(range(1, 100))
before = anonymous()
compute(range(100, 300))
print(anonymous() - before)
"""


@linux_only
@pytest.mark.skipif(not torch.cpu._is_avx512_bf16_supported(), reason="products have no kernels")
def test_kernels_of_many_shapes_take_no_more_memory() -> None:
    names = ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY")
    environment = {name: value for name, value in os.environ.items() if name not in names}
    command = [sys.executable, "-c", KERNELS]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 30_000  # kilobytes; without a bound it is over 100,000


def test_a_bound_on_kernels_that_is_set_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LRU_CACHE_CAPACITY", "7")
    monkeypatch.delenv("ONEDNN_PRIMITIVE_CACHE_CAPACITY", raising=False)
    bound_kernel_caches()
    assert os.environ["LRU_CACHE_CAPACITY"] == "7"
    assert os.environ["ONEDNN_PRIMITIVE_CACHE_CAPACITY"] == "64"


def mapped(path: Path) -> torch.Tensor:
    """A file of 8 MiB, mapped so that changes stay in memory."""
    path.write_bytes(bytes(range(256)) * 4096 * 8)
    with path.open("rb") as file:
        content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    return torch.frombuffer(content, dtype=torch.uint8)


@linux_only
def test_zeros_are_released_and_stay_zeros() -> None:
    zeros = mmap.mmap(-1, 64 * MIB)
    tensor = torch.frombuffer(zeros, dtype=torch.uint8)
    tensor.fill_(0)
    before = resident(tensor)
    release_pages(tensor)
    assert before - resident(tensor) >= 63 * MIB
    assert not tensor.any()
    tensor.fill_(3)
    assert (tensor == 3).all()


@linux_only
@pytest.mark.parametrize("release", [release_pages, release_file_pages])
def test_a_mapped_file_is_released_and_read_again(
    tmp_path: Path, release: Callable[[torch.Tensor], None]
) -> None:
    tensor = mapped(tmp_path / "weights")
    total = int(tensor.sum())
    before = resident(tensor)
    release(tensor)
    assert resident(tensor) < before
    assert int(tensor.sum()) == total


def test_memory_beside_the_tensor_is_not_touched() -> None:
    whole = torch.ones(3 * MIB, dtype=torch.uint8)
    part = whole[100 : 2 * MIB + 77]
    part.zero_()
    release_pages(part)
    assert not part.any()
    assert whole[:100].all()
    assert whole[2 * MIB + 77 :].all()


@pytest.mark.parametrize("tensor", [torch.ones(3), torch.ones(0), torch.ones(4096, 64).t()])
def test_what_has_no_whole_pages_stays(tensor: torch.Tensor) -> None:
    release_pages(tensor)
    assert tensor.bool().all()


def test_other_systems_do_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    tensor = torch.ones(MIB)
    release_pages(tensor)
    assert tensor.bool().all()


@linux_only
def test_a_changed_page_of_a_mapped_file_stays(tmp_path: Path) -> None:
    tensor = mapped(tmp_path / "weights")
    tensor[MIB] = 77
    release_file_pages(tensor)
    assert tensor[MIB] == 77


@linux_only
def test_of_several_tensors_those_of_files_are_released(tmp_path: Path) -> None:
    tensors = [mapped(tmp_path / "one"), torch.ones(3 * MIB), mapped(tmp_path / "other")]
    totals = [int(tensor.sum()) for tensor in tensors]
    before = [resident(tensors[place]) for place in (0, 2)]
    release_file_pages(*tensors)
    after = [resident(tensors[place]) for place in (0, 2)]
    assert after[0] < before[0]
    assert after[1] < before[1]
    assert [int(tensor.sum()) for tensor in tensors] == totals


def test_memory_without_a_file_that_is_needed_stays() -> None:
    tensor = torch.ones(3 * MIB, dtype=torch.uint8)
    release_file_pages(tensor)
    assert tensor.all()


@linux_only
@pytest.mark.parametrize("content", [None, "", "not a list of mappings", "1-2 r--p 0 0 0\n"])
def test_memory_that_cannot_be_looked_up_stays(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, content: str | None
) -> None:
    mappings = tmp_path / "smaps"
    if content is not None:
        mappings.write_text(content)
    monkeypatch.setattr(memory, "_MAPPINGS", mappings)
    tensor = mapped(tmp_path / "weights")
    before = resident(tensor)
    release_file_pages(tensor)
    assert resident(tensor) == before


@pytest.fixture
def released(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Set when freed memory is returned, which happens at once."""
    event = threading.Event()
    monkeypatch.setattr(memory, "release_freed", event.set)
    monkeypatch.setattr(memory, "_IDLE_SECONDS", 0)
    return event


def nothing() -> None:
    """What an idle server frees in these tests."""


async def turns(event: threading.Event) -> bool:
    """Whether `event` is set after the timers that are due, and their threads."""
    for _ in range(3):
        await asyncio.sleep(0)
    for thread in threading.enumerate():
        if thread.name == "release":
            thread.join()
    return event.is_set()


async def test_freed_memory_is_returned_when_nothing_runs(released: threading.Event) -> None:
    release = IdleRelease(lambda: True, nothing)
    release.note_end()
    assert await turns(released)


async def test_memory_that_steps_reuse_is_freed_first(released: threading.Event) -> None:
    already_returned: list[bool] = []
    release = IdleRelease(lambda: True, lambda: already_returned.append(released.is_set()))
    release.note_end()
    await turns(released)
    assert already_returned == [False]


async def test_freed_memory_stays_while_requests_run(released: threading.Event) -> None:
    busy = iter([True, False, False])
    release = IdleRelease(lambda: next(busy), nothing)
    release.note_end()  # then the next request begins
    assert not await turns(released)
    release.note_end()  # another one still runs
    assert not await turns(released)


async def test_a_stopped_backend_returns_nothing_later(released: threading.Event) -> None:
    release = IdleRelease(lambda: True, nothing)
    release.note_end()
    release.cancel()
    assert not await turns(released)
