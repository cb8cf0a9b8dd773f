"""Corrects vLLM's workers on a CPU, where sampling with speculative decoding is wrong.

vLLM 0.32 has the temperatures and `top_p` of speculating requests repeated for each draft
token by a function that converts them to integers and, unless they are 64-bit integers, leaves its
output uninitialised. Greedy requests do not need it. On a GPU another function does the same work.
"""

import torch
from vllm.triton_utils.dispatcher import register_kernels


def expand(
    output: torch.Tensor,
    values: torch.Tensor,
    ends: torch.Tensor,
    replace_from: float,
    replace_to: float,
    MAX_NUM_TOKENS: int | None = None,
) -> None:
    """Write each value of a request into `output` as often as the request has draft tokens.

    ends: the cumulative number of draft tokens. Values equal to `replace_from` are replaced by
    `replace_to`. MAX_NUM_TOKENS has no effect: the arguments are those of vLLM's kernel.
    """
    counts = torch.diff(ends, prepend=ends.new_zeros(1))
    replaced = values.masked_fill(values == replace_from, replace_to)
    output.copy_(replaced.repeat_interleave(counts))


class Correction:
    """vLLM's workers import the module of this class if it is their `worker_extension_cls`."""


register_kernels({"vllm.v1.sample.rejection_sampler.expand_kernel": expand})
