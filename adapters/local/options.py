"""The backend's own options, as given by `--backend-option NAME=VALUE`."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from adapters.errors import BackendFailed

_DTYPES = ("auto", "float32", "bfloat16", "float16")


@dataclass(frozen=True, slots=True)
class Options:
    """device: `auto`, `cpu`, `cuda`, `cuda:N` or `mps`. `auto` refuses a machine whose NVIDIA GPU
    cannot be used, and weights of more than 8 GB on a CPU.

    dtype: of weights and cache; `auto` is the checkpoint's.
    attention: the name of an attention implementation: `eager`, `flash_with_sinks`, or another of
    transformers'; empty takes the fastest that works on the device.
    cache_tokens: tokens that the key-value cache holds; 0 takes what the accelerator's memory
    leaves, on a CPU 32,768.
    batch_tokens: the most tokens computed in one step; longer prompts take several. 0 is 4,096; 512
    with eager attention (128 on CUDA), and on a CPU for more than a billion parameters. On a CPU a
    step beside requests that decode has at most 1,024.
    batch_requests: the most requests in one step; the others wait.
    """

    device: str = "auto"
    dtype: str = "auto"
    attention: str = ""
    cache_tokens: int = 0
    batch_tokens: int = 0
    batch_requests: int = 128

    @property
    def requests_at_once(self) -> int:
        """The most requests in one step: each has a token of it at least."""
        return min(self.batch_requests, self.batch_tokens or self.batch_requests)


def parse_options(given: Mapping[str, str]) -> Options:
    """Raises BackendFailed naming the option that is unknown or has no such value."""
    kinds = {field.name: type(field.default) for field in fields(Options)}
    values: dict[str, Any] = {}
    for name, text in given.items():
        if name not in kinds:
            raise BackendFailed(
                f"the transformers backend has no option {name}; it has {', '.join(kinds)}"
            )
        values[name] = _count(name, text) if kinds[name] is int else text
    options = Options(**values)
    if not re.fullmatch(r"auto|cpu|mps|cuda(:\d+)?", options.device):
        raise BackendFailed(f"there is no device {options.device}")
    if options.dtype not in _DTYPES:
        raise BackendFailed(f"dtype must be one of {', '.join(_DTYPES)}, not {options.dtype}")
    if not options.batch_requests:
        raise BackendFailed("batch_requests must be at least 1")
    return options


def _count(name: str, text: str) -> int:
    if not text.isdecimal():
        raise BackendFailed(f"{name} must be a whole number, not {text!r}")
    return int(text)
