"""The build of torch, and the CUDA devices that it can compute on."""

import warnings
from dataclasses import dataclass

from adapters.errors import first_line


@dataclass(frozen=True, slots=True)
class Device:
    """A CUDA device. capability: major, minor. total, free: bytes.

    error: why it cannot compute, None if it can. With an error the other fields may be empty.
    """

    index: int
    name: str = ""
    capability: tuple[int, int] = (0, 0)
    total: int = 0
    free: int = 0
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Torch:
    """version: the version of torch. cuda: the CUDA version of the build, None without CUDA.

    error: why no device is usable, or why torch cannot be imported (then `version` is empty).
    """

    version: str
    cuda: str | None = None
    devices: tuple[Device, ...] = ()
    error: str | None = None


def find_devices() -> Torch:
    """Import torch, and compute one sum on each CUDA device. Never raises."""
    try:
        import torch
    except (ImportError, OSError) as error:
        return Torch("", error=first_line(error))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        usable = torch.cuda.is_available()
    reasons = [first_line(each.message) for each in caught]
    if torch.version.cuda is not None and not usable:
        reason = reasons[0] if reasons else "torch finds no CUDA device"
        return Torch(torch.__version__, torch.version.cuda, error=reason)
    count = torch.cuda.device_count() if usable else 0
    return Torch(torch.__version__, torch.version.cuda, tuple(map(_device, range(count))))


def _device(index: int) -> Device:
    import torch

    try:
        properties = torch.cuda.get_device_properties(index)
        free, total = torch.cuda.mem_get_info(index)
        torch.ones(8, device=f"cuda:{index}").sum().item()
    except (RuntimeError, AssertionError) as error:
        return Device(index, error=first_line(error))
    capability = (properties.major, properties.minor)
    return Device(index, properties.name, capability, total, free)
