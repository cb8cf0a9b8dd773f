"""The backend's own options, as given by `--backend-option NAME=VALUE`."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from adapters import options


def _device(name: str) -> str:
    if not re.fullmatch(r"auto|cpu|mps|cuda(:\d+)?", name):
        raise ValueError("must be auto, cpu, mps, cuda or cuda:N")
    return name


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

    device: Annotated[str, AfterValidator(_device)] = "auto"
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    attention: str = ""
    cache_tokens: Annotated[int, Field(ge=0)] = 0
    batch_tokens: Annotated[int, Field(ge=0)] = 0
    batch_requests: Annotated[int, Field(ge=1)] = 128

    @property
    def requests_at_once(self) -> int:
        """The most requests in one step: each has a token of it at least."""
        return min(self.batch_requests, self.batch_tokens or self.batch_requests)


def parse_options(values: Mapping[str, str]) -> Options:
    """Raises BackendFailed, which names the option that is unknown or has an invalid value."""
    return options.parse_options("transformers", Options, values)
