"""The options of the transformers backend (`--backend-option NAME=VALUE`)."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from adapters import options

PAGE_TOKENS = 32
"""Tokens in a page of the cache."""
LEAST_CACHE_TOKENS = PAGE_TOKENS + 1
"""Tokens that take two pages: transformers cannot compute with a cache of one."""


def _device(name: str) -> str:
    if not re.fullmatch(r"auto|cpu|mps|cuda(:\d+)?", name):
        raise ValueError("must be auto, cpu, mps, cuda or cuda:N")
    return name


def _cache_tokens(count: int) -> int:
    if count and count < LEAST_CACHE_TOKENS:
        raise ValueError(f"must be 0 or at least {LEAST_CACHE_TOKENS}")
    return count


@dataclass(frozen=True, slots=True)
class Options:
    """device: `auto`, `cpu`, `cuda`, `cuda:N` or `mps`. `auto` refuses a machine whose NVIDIA GPU
    cannot be used, and weights of more than 8 GB on a CPU.

    dtype: the type of weights and cache; `auto` is that of the checkpoint, or float32, if that
    takes at most 8 GB, on a CPU whose oneDNN multiplies no bfloat16 matrices.
    attention: the name of an attention implementation: `eager`, `flash_with_sinks`, or another one
    of transformers. Empty selects the fastest one that works on the device.
    cache_tokens: the size of the key-value cache, at least `LEAST_CACHE_TOKENS`; 0 uses the free
    memory of the accelerator, and is 32,768 on a CPU.
    batch_tokens: the maximum of tokens in one step; longer prompts take several. 0 is 4,096; 512
    with eager attention (128 on CUDA), and on a CPU for more than a billion parameters. On a CPU,
    steps are smaller while any request decodes: they last 0.1 s.
    batch_requests: the maximum of requests in one step, each of one token at least; others wait.
    decode_graphs: capture decode steps as CUDA graphs. `true` needs CUDA and a flash attention;
    `auto` captures them where nothing stands in the way (`decode_graphs.wanted`).
    """

    device: Annotated[str, AfterValidator(_device)] = "auto"
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    attention: str = ""
    cache_tokens: Annotated[int, Field(ge=0), AfterValidator(_cache_tokens)] = 0
    batch_tokens: Annotated[int, Field(ge=0)] = 0
    batch_requests: Annotated[int, Field(ge=1)] = 128
    decode_graphs: Literal["auto", "true", "false"] = "auto"


def parse_options(values: Mapping[str, str]) -> Options:
    """The options. Raises BackendFailed, which names an option that is unknown or invalid."""
    return options.parse_options("transformers", Options, values)
