"""Steps on a CPU: a plan of their attention, and numbers of tokens that recur."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from adapters.local.engine.cache import ReadIndices, WindowPages
from adapters.local.model.attention import PLANS
from adapters.local.model.cpu_attention import Plan, Shape, make_plan
from adapters.local.model.experts import are_computed_at_once

# Steps of up to so many tokens are not padded: one stream would pay for padding in each step.
_EXACT = 4
# The numbers of tokens of larger steps are multiples of at least 8, and of at most 64.
_LEAST, _MOST = 8, 64


class PlannedSteps:
    """Adds the plans to the arguments of the model, and padding to the tokens.

    oneDNN compiles a product for each number of tokens, and a step has five kinds of products. With
    16 streams and forced tokens, steps of the demo checkpoint would have a new number most of the
    time, and compiling took up to a tenth of their time. The attention of padding is zero, and it
    has no logits.
    """

    def __init__(self, ios: Any, reads: ReadIndices, shape: Shape, *, pads: bool) -> None:
        """ios: the inputs and outputs of transformers' batches. pads: whether there is padding."""
        self._reads = reads
        self._shape = shape
        self._pads = pads
        self._get_model_kwargs = ios.get_model_kwargs
        ios.get_model_kwargs = self._get_planned_kwargs

    def _get_planned_kwargs(self, *arguments: Any, **keywords: Any) -> Any:
        kwargs = self._get_model_kwargs(*arguments, **keywords)
        kwargs[PLANS] = plans(self._reads, self._shape)
        if self._pads:
            for name in ("input_ids", "position_ids"):
                kwargs[name] = _padded(kwargs[name])
        return kwargs


def plans(reads: ReadIndices, shape: Shape) -> list[Plan]:
    """The plan of each allocator of the cache, for the step that `reads` has prepared."""
    queries = [count for _, _, count in reads.batch]
    indices: Sequence[Tensor | None] = reads.indices or [None] * len(reads.allocators)
    return [
        make_plan(
            queries,
            [allocator.get_seqlen_k(past, count) for _, past, count in reads.batch],
            index,
            shape,
            allocator.sliding_window if isinstance(allocator, WindowPages) else None,
        )
        for allocator, index in zip(reads.allocators, indices, strict=True)
    ]


def are_compiled(model: Any) -> bool:
    """Whether the products of `model`, on a CPU, are compiled for each number of tokens, and
    padding costs less than that. With many experts it does not: each token of padding would read
    the weights of further ones.
    """
    return bool(model.dtype == torch.bfloat16) and are_computed_at_once(model.config)


def padded_tokens(count: int) -> int:
    """The number of tokens that a step of `count` tokens is padded to: an eighth more at most,
    or 7 tokens.
    """
    if count <= _EXACT:
        return count
    size = min(max(_LEAST, (1 << (count - 1).bit_length()) >> 4), _MOST)
    return -(-count // size) * size


def _padded(tokens: Tensor) -> Tensor:
    """tokens: [1, tokens]."""
    missing = padded_tokens(tokens.shape[1]) - tokens.shape[1]
    return functional.pad(tokens, (0, missing)) if missing else tokens
