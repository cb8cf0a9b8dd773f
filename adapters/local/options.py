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
    """device: `auto`, `cpu`, `cuda`, `cuda:N` or `mps`.

    dtype: of weights and cache; `auto` is the checkpoint's.
    attention: transformers' name of an attention implementation; empty picks one.
    cache_tokens: tokens that the key-value cache holds; 0 takes what the accelerator's memory
    leaves, on a CPU 32,768.
    batch_tokens: the most tokens computed in one step; longer prompts take several. 0 is 512
    without flash attention, else 4,096.
    batch_requests: the most requests in one step; the others wait.
    """

    device: Annotated[str, AfterValidator(_device)] = "auto"
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    attention: str = ""
    cache_tokens: Annotated[int, Field(ge=0)] = 0
    batch_tokens: Annotated[int, Field(ge=0)] = 0
    batch_requests: Annotated[int, Field(ge=1)] = 128


def parse_options(values: Mapping[str, str]) -> Options:
    """Raises BackendFailed, which names the option that is unknown or has an invalid value."""
    return options.parse_options("transformers", Options, values)
