"""What torch says of devices, with a torch that has some of them."""

import sys
import warnings
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from adapters.torch_build import Device, Torch, find_devices


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A build of torch for CUDA with two devices; the second does not compute."""

    def ones(_: int, device: str) -> Any:
        if device == "cuda:1":
            raise RuntimeError("CUDA error: out of memory\nCompile with …")
        return torch.zeros(1)

    properties = SimpleNamespace(name="NVIDIA X", major=9, minor=0)
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: properties)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (7, 8))
    monkeypatch.setattr(torch, "ones", ones)
    return monkeypatch


def test_each_device_has_computed_or_has_an_error(cuda: pytest.MonkeyPatch) -> None:
    assert find_devices() == Torch(
        torch.__version__,
        "13.0",
        (
            Device(0, "NVIDIA X", (9, 0), total=8, free=7),
            Device(1, error="CUDA error: out of memory"),
        ),
    )


def test_a_driver_that_is_too_old_is_quoted(cuda: pytest.MonkeyPatch) -> None:
    def is_available() -> bool:
        warnings.warn("The NVIDIA driver on your system is too old", stacklevel=1)
        return False

    cuda.setattr(torch.cuda, "is_available", is_available)
    assert find_devices().error == "The NVIDIA driver on your system is too old"


def test_a_machine_without_a_device(cuda: pytest.MonkeyPatch) -> None:
    cuda.setattr(torch.cuda, "is_available", lambda: False)
    assert find_devices() == Torch(torch.__version__, "13.0", error="torch finds no CUDA device")


def test_a_build_without_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.version, "cuda", None)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert find_devices() == Torch(torch.__version__)


def test_a_torch_that_cannot_be_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    found = find_devices()
    assert found.version == ""
    assert "torch" in str(found.error)
