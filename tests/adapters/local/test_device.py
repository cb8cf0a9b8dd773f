import os
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from adapters.container_memory import ContainerMemory
from adapters.errors import BackendFailed
from adapters.local import device as devices
from adapters.local.device import current, describe, free_memory, has_nvidia_gpu, pick_device

Patch = pytest.MonkeyPatch
OLD_DRIVER = (
    "The NVIDIA driver on your system is too old (found version 12040). "
    "Please update your GPU driver by downloading and installing a new version"
)


@pytest.fixture
def machine(monkeypatch: Patch) -> Callable[..., None]:
    """Sets what torch and the system say of this machine."""

    def make(
        cuda: int = 0, mps: bool = False, built: str | None = "13.0", gpu: bool = False
    ) -> None:
        def init() -> None:
            raise RuntimeError(OLD_DRIVER)

        monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda > 0)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: cuda)
        monkeypatch.setattr(torch.cuda, "current_device", lambda: cuda - 1)
        monkeypatch.setattr(torch.cuda, "init", init)
        monkeypatch.setattr(torch.version, "cuda", built)
        monkeypatch.setattr(torch.backends.mps, "is_available", lambda: mps)
        monkeypatch.setattr(devices, "has_nvidia_gpu", lambda: gpu)

    return make


@pytest.mark.parametrize(
    ("what", "device"),
    [
        ({"cuda": 2}, "cuda:1"),
        ({"mps": True, "built": None}, "mps"),
        ({"built": None}, "cpu"),
        ({"built": None, "gpu": True}, "cpu"),
        ({"built": "13.0"}, "cpu"),
    ],
)
def test_the_device_is_the_best_that_can_be_used(
    machine: Callable[..., None], what: dict[str, Any], device: str
) -> None:
    machine(**what)
    assert pick_device("auto") == torch.device(device)
    assert pick_device("cpu") == torch.device("cpu")


def test_a_build_of_torch_without_cuda_computes_on_the_cpu_with_a_warning(
    machine: Callable[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    machine(built=None, gpu=True)
    assert pick_device("auto") == torch.device("cpu")
    assert "built without CUDA: install a build for CUDA" in caplog.text


def test_a_gpu_that_cannot_be_used_is_no_reason_for_the_cpu(
    machine: Callable[..., None],
) -> None:
    machine(built="13.0", gpu=True)
    with pytest.raises(BackendFailed) as refusal:
        pick_device("auto")
    text = str(refusal.value)
    assert "driver on your system is too old (found version 12040)" in text
    assert "needs a driver for CUDA 13.0 (version 580 or newer)" in text
    assert "--gpus all" in text
    assert "set --backend-option device=cpu" in text
    assert pick_device("cpu") == torch.device("cpu")


@pytest.mark.parametrize(
    ("what", "name", "reason"),
    [
        ({"cuda": 2}, "cuda:2", "there is no cuda:2: torch sees 2 GPUs, cuda:0 to cuda:1"),
        ({"cuda": 1}, "cuda:1", "torch sees 1 GPU, cuda:0$"),
        ({"built": "99.0"}, "cuda", "a driver for CUDA 99.0, and"),
        ({"built": None}, "cuda", "built without CUDA: install a build for CUDA"),
        ({}, "mps", "device=mps: torch can use no Apple GPU"),
    ],
)
def test_a_device_that_was_asked_for_is_used_or_refused(
    machine: Callable[..., None], what: dict[str, Any], name: str, reason: str
) -> None:
    machine(**what)
    with pytest.raises(BackendFailed, match=reason):
        pick_device(name)


def test_a_device_that_is_there_is_used(machine: Callable[..., None]) -> None:
    machine(cuda=2, mps=True)
    assert pick_device("cuda:0") == torch.device("cuda", 0)
    assert pick_device("cuda") == torch.device("cuda", 1)
    assert pick_device("mps") == torch.device("mps")


def test_the_reason_why_there_is_no_cuda_is_one_line(monkeypatch: Patch) -> None:
    if torch.cuda.is_available():
        pytest.skip("there is")
    assert re.fullmatch(r"[^\n]+[^.\n]", devices.cuda_failure() or "")
    monkeypatch.setattr(torch.cuda, "init", lambda: None)
    assert devices.cuda_failure() == "torch finds no CUDA device"


def pci(folder: Path, vendor: str, kind: str) -> None:
    folder.mkdir(parents=True)
    (folder / "vendor").write_text(vendor + "\n")
    (folder / "class").write_text(kind + "\n")


@pytest.mark.parametrize(
    ("vendor", "kind", "found"),
    [
        ("0x10de", "0x030000", True),
        ("0x10de", "0x030200", True),
        ("0x10de", "0x040300", False),  # the sound of a graphics card
        ("0x8086", "0x030000", False),
    ],
)
def test_an_nvidia_gpu_is_seen_where_no_driver_is(
    tmp_path: Path, monkeypatch: Patch, vendor: str, kind: str, found: bool
) -> None:
    pci(tmp_path / "0000:01:00.0", vendor, kind)
    (tmp_path / "0000:02:00.0").mkdir()  # vanishes while it is read
    monkeypatch.setattr(devices, "_PCI_DEVICES", tmp_path)
    monkeypatch.setattr(devices, "_DEVICE_FILES", (tmp_path / "nvidiactl",))
    assert has_nvidia_gpu() is found
    (tmp_path / "nvidiactl").touch()
    assert has_nvidia_gpu()


def test_a_gpu_is_described_by_its_name_and_memory(monkeypatch: Patch) -> None:
    properties = SimpleNamespace(name="NVIDIA L40S", total_memory=47_800_000_000, major=8, minor=9)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: properties)
    text = "cuda:1 (NVIDIA L40S, 47.8 GB, compute capability 8.9)"
    assert describe(torch.device("cuda", 1)) == text
    assert describe(torch.device("cpu")) == f"cpu ({torch.get_num_threads()} threads)"
    assert describe(torch.device("mps")) == "mps"


def test_memory_is_what_is_free_on_a_gpu_and_what_there_is_on_a_cpu(monkeypatch: Patch) -> None:
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (device.index, 99))
    assert free_memory(torch.device("cuda", 1)) == 1
    memory = free_memory(torch.device("cpu"))
    assert memory is not None
    assert memory > 1e8
    assert free_memory(torch.device("mps")) is None
    monkeypatch.setattr(os, "sysconf_names", {})
    assert free_memory(torch.device("cpu")) is None


def test_the_memory_of_a_cpu_is_that_of_its_container(monkeypatch: Patch) -> None:
    monkeypatch.setattr(devices, "container_memory", lambda: ContainerMemory(5_000, 4_000))
    assert free_memory(torch.device("cpu")) == 5_000
    monkeypatch.setattr(devices, "container_memory", lambda: ContainerMemory(2**62, 0))
    assert 1e8 < (free_memory(torch.device("cpu")) or 0) < 2**62
    monkeypatch.setattr(devices, "container_memory", lambda: None)
    assert 1e8 < (free_memory(torch.device("cpu")) or 0) < 2**62


def test_a_cuda_device_is_current_while_it_is_used(monkeypatch: Patch) -> None:
    seen: list[str] = []

    class Current:
        def __init__(self, device: torch.device) -> None:
            self.device = device

        def __enter__(self) -> None:
            seen.append(f"into {self.device}")

        def __exit__(self, *_: object) -> None:
            seen.append("out")

    monkeypatch.setattr(torch.cuda, "device", Current)
    with current(torch.device("cuda", 1)):
        seen.append("work")
    with current(torch.device("cpu")):
        seen.append("more")
    assert seen == ["into cuda:1", "work", "out", "more"]
