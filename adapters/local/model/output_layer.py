"""The layer that computes logits, for a CPU: packed weights, and no rows without use."""

import logging
import threading
from contextlib import suppress
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from adapters.local.memory import release_file_pages, release_pages, use_huge_pages

logger = logging.getLogger(__name__)

_ROWS = 16
_CHECKED_ROWS = (1, 3, 16, 64)
_CHECKED_TOKENS = 2048
_BOUND = 1e-2
_TYPES = (torch.bfloat16, torch.float32)


class PackedLayer(nn.Module):
    """A linear layer without bias, whose weights a kernel has packed to read them faster.

    The operators of the subclasses are not part of torch's public interface: `pack_output_layer`
    checks them before they are used.
    """

    def __init__(self, weight: Tensor) -> None:
        """weight: [features out, features in]; not referenced afterwards."""
        super().__init__()
        self._features = weight.shape[0]
        self._packed = self._pack(weight)

    def forward(self, states: Tensor) -> Tensor:
        """[..., features in] to [..., features out]."""
        if not states.numel():
            return states.new_empty((*states.shape[:-1], self._features))
        return self._product(states)

    def _pack(self, weight: Tensor) -> Any:
        raise NotImplementedError

    def _product(self, states: Tensor) -> Tensor:
        raise NotImplementedError


class ReorderedLinear(PackedLayer):
    """By oneDNN, for bfloat16 or float32: it reads the weights in half the time in its order."""

    def _pack(self, weight: Tensor) -> Tensor:
        packed: Tensor = torch.ops.mkldnn._reorder_linear_weight(weight, _ROWS)
        return packed

    def _product(self, states: Tensor) -> Tensor:
        result: Tensor = torch.ops.mkldnn._linear_pointwise(
            states, self._packed, None, "none", [], None
        )
        return result

    def use_huge_pages(self) -> None:
        """Let steps read the weights faster: see `memory.use_huge_pages`."""
        with suppress(AttributeError, RuntimeError):  # not a public operator
            operators = torch.ops.mkldnn
            use_huge_pages(int(operators.data_ptr(self._packed)), operators._nbytes(self._packed))


class Float16Linear(PackedLayer):
    """By FBGEMM on x86, for states of float32: it keeps the weights as float16.

    The kernel widens them as it reads them, and adds up in float32. A step reads half of the bytes
    that float32 weights have, and takes half of the time with few rows; from 48 rows on it takes a
    tenth longer.
    """

    def _pack(self, weight: Tensor) -> Any:
        return torch.ops.quantized.linear_prepack_fp16(weight, None)

    def _product(self, states: Tensor) -> Tensor:
        result: Tensor = torch.ops.quantized.linear_dynamic_fp16(states, self._packed)
        return result


def pack_output_layer(model: Any, dtype: torch.dtype) -> bool:
    """Pack the weights of `model.lm_head` for states of `dtype`, if that works. Returns whether it
    does.

    The memory of the original weights is released. If they are those of the embedding too, it
    gets back the rows that it uses, from the mapped file.
    """
    weight = model.lm_head.weight
    kind = _kind(weight.detach(), dtype)
    if kind is None:
        return False
    model.lm_head = packed = kind(weight.detach().to(dtype))
    if isinstance(packed, ReorderedLinear):
        # A thread, because it takes 0.6 s for 200 MB, and loading goes on.
        threading.Thread(target=packed.use_huge_pages, name="huge pages", daemon=True).start()
    # Otherwise the pages stay in memory with those of other weights in the same mapped file.
    if weight is model.get_input_embeddings().weight:
        release_file_pages(weight)
    else:
        release_pages(weight)
    return True


def _kind(weight: Tensor, dtype: torch.dtype) -> type[PackedLayer] | None:
    """The class that packs `weight` for states of `dtype`. None: no class does."""
    checked = weight[:_CHECKED_TOKENS].to(dtype)
    if dtype == torch.float32 and _fits_float16(weight) and _works(Float16Linear, checked):
        return Float16Linear
    if dtype in _TYPES and _works(ReorderedLinear, checked):
        return ReorderedLinear
    logger.warning("the weights of the output layer are not packed, which makes steps slower")
    return None


def _fits_float16(weight: Tensor) -> bool:
    """Whether `weight` has no number that is too large for float16.

    A bfloat16 number from 2**-14 to 65504 is a float16 number too. A smaller one is rounded by at
    most 2**-25, which is too little to change a probability noticeably.
    """
    if weight.dtype not in (torch.bfloat16, torch.float16):
        return False
    least, greatest = torch.aminmax(weight)
    return max(-float(least), float(greatest)) <= torch.finfo(torch.float16).max


@torch.no_grad()
def _works(kind: type[PackedLayer], weight: Tensor) -> bool:
    generator = torch.Generator().manual_seed(0)
    try:
        packed = kind(weight.clone())
        for rows in _CHECKED_ROWS:
            states = torch.randn((1, rows, weight.shape[1]), generator=generator).to(weight.dtype)
            expected = linear(states.float(), weight.float())
            error = (packed(states).float() - expected).abs().max() / expected.abs().max()
            if not error < _BOUND:
                logger.warning("%s has an error of %g and is not used", kind.__name__, error)
                return False
    except Exception as failure:  # operators raise errors of any type
        logger.info("%s is not available: %s", kind.__name__, failure)
        return False
    return True


def keep_needed_logits(ios: Any) -> None:
    """Compute no logits for sequences whose prompt goes on in the next step.

    ios: the inputs and outputs of transformers' batches. transformers computes a row for each
    sequence of a step. The rows of those with a new token are the first ones.
    """
    get_model_kwargs = ios.get_model_kwargs

    def get_needed(*arguments: Any, **keywords: Any) -> Any:
        kwargs = get_model_kwargs(*arguments, **keywords)
        needed = sum(one.has_new_token for one in ios.requests_in_batch)
        kwargs["logits_indices"] = kwargs["logits_indices"][:needed]
        return kwargs

    ios.get_model_kwargs = get_needed
