"""Selects the device to compute on, and describes it: its memory, and why a GPU is unusable."""

import contextlib
import logging
import os
import re
import warnings
from collections.abc import Iterator
from pathlib import Path

import torch

from adapters.container_memory import container_memory
from adapters.errors import BackendFailed
from adapters.requirements import oldest_driver

logger = logging.getLogger(__name__)

_NVIDIA = "0x10de"
_DISPLAY_CLASSES = ("0x0300", "0x0302")
_PCI_DEVICES = Path("/sys/bus/pci/devices")
# The control device of the driver, and the device of Windows' subsystem for Linux.
_DEVICE_FILES = (Path("/dev/nvidiactl"), Path("/dev/dxg"))


def pick_device(name: str) -> torch.device:
    """The device for `name`: `auto`, `cpu`, `mps`, `cuda` or `cuda:N`.

    `auto` is the current CUDA device, else an Apple GPU, else the CPU. Raises BackendFailed if the
    device cannot be used. For `auto` this includes a machine with an NVIDIA GPU that torch supports
    but cannot use, since the CPU is a hundred times slower with a large model.
    """
    if name == "cpu":
        return torch.device("cpu")
    if name == "mps" or (name == "auto" and torch.backends.mps.is_available()):
        if not torch.backends.mps.is_available():
            raise BackendFailed("device=mps: torch can use no Apple GPU on this machine")
        return torch.device("mps")
    reason = cuda_failure()
    if reason is None:
        return _cuda_device(name)
    if name == "auto" and (torch.version.cuda is None or not has_nvidia_gpu()):
        if has_nvidia_gpu():
            logger.warning("computing on the CPU although there is a GPU: %s", _advice())
        return torch.device("cpu")
    raise BackendFailed(f"no GPU can be used: {reason}. {_advice()}")


def _cuda_device(name: str) -> torch.device:
    index = torch.device(name).index if name.startswith("cuda:") else torch.cuda.current_device()
    count = torch.cuda.device_count()
    if index >= count:
        raise BackendFailed(
            f"there is no {name}: torch sees {count} GPU{'s' if count > 1 else ''}, "
            f"cuda:0{f' to cuda:{count - 1}' if count > 1 else ''}"
        )
    return torch.device("cuda", index)


def cuda_failure() -> str | None:
    """The reason why torch cannot use CUDA, in one line; None if it can."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the warning repeats the reason
        if torch.cuda.is_available():
            return None
        try:
            torch.cuda.init()
        except (RuntimeError, AssertionError) as error:
            return re.split(r"\.\s|\n", str(error).strip())[0].rstrip(".") or type(error).__name__
    return "torch finds no CUDA device"


def has_nvidia_gpu() -> bool:
    """Whether this machine has an NVIDIA GPU, even if this container has no access to it."""
    if any(path.exists() for path in _DEVICE_FILES):
        return True
    for device in _PCI_DEVICES.glob("*"):
        with contextlib.suppress(OSError):
            kind = (device / "class").read_text()[:6]
            if (device / "vendor").read_text().strip() == _NVIDIA and kind in _DISPLAY_CLASSES:
                return True
    return False


def _advice() -> str:
    built = torch.version.cuda
    if built is None:
        return f"torch {torch.__version__} is built without CUDA: install a build for CUDA"
    least = oldest_driver(built)
    driver = f" (version {least} or newer)" if least else ""
    return (
        f"torch {torch.__version__} needs a driver for CUDA {built}{driver}, and a container needs "
        "`--gpus all`; to compute on the CPU, set --backend-option device=cpu"
    )


def describe(device: torch.device) -> str:
    """A description of the device for the log: name, memory, compute capability."""
    if device.type == "cuda":
        properties = torch.cuda.get_device_properties(device)
        capability = f"{properties.major}.{properties.minor}"
        memory = gigabytes(properties.total_memory)
        return f"{device} ({properties.name}, {memory}, compute capability {capability})"
    if device.type == "cpu":
        return f"cpu ({torch.get_num_threads()} threads)"
    return str(device)


def free_memory(device: torch.device) -> int | None:
    """The bytes available for weights, None if unknown.

    For a CPU this is the whole memory of the machine, or of this container.
    """
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    if device.type == "cpu" and "SC_PHYS_PAGES" in getattr(os, "sysconf_names", {}):
        physical = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        container = container_memory()
        return physical if container is None else min(physical, container.limit)
    return None


def gigabytes(count: float) -> str:
    return f"{count / 1e9:.1f} GB"


@contextlib.contextmanager
def current(device: torch.device) -> Iterator[None]:
    """A context in which `device` is the current CUDA device of this thread.

    transformers determines the size of its cache from the current device.
    """
    with torch.cuda.device(device) if device.type == "cuda" else contextlib.nullcontext():
        yield
