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


class PackedLinear(nn.Module):
    """A linear layer without bias, whose weights oneDNN has reordered; bfloat16 or float32.

    They are read once for each step, which takes half the time in this order. The operators are not
    part of torch's public interface: `pack_output_layer` checks them before they are used.
    """

    def __init__(self, weight: Tensor) -> None:
        """weight: [features out, features in]; not referenced afterwards."""
        super().__init__()
        self._features = weight.shape[0]
        self._packed = torch.ops.mkldnn._reorder_linear_weight(weight, _ROWS)

    def use_huge_pages(self) -> None:
        """Let steps read the weights faster: see `memory.use_huge_pages`."""
        with suppress(AttributeError, RuntimeError):  # not a public operator
            operators = torch.ops.mkldnn
            use_huge_pages(int(operators.data_ptr(self._packed)), operators._nbytes(self._packed))

    def forward(self, states: Tensor) -> Tensor:
        """[..., features in] to [..., features out]."""
        if not states.numel():
            return states.new_empty((*states.shape[:-1], self._features))
        result: Tensor = torch.ops.mkldnn._linear_pointwise(
            states, self._packed, None, "none", [], None
        )
        return result


def pack_output_layer(model: Any, dtype: torch.dtype) -> bool:
    """Pack the weights of `model.lm_head` as `dtype`, if that works. Returns whether it does.

    The memory of the original weights is released. If they are those of the embedding too, it
    gets back the rows that it uses, from the mapped file.
    """
    weight = model.lm_head.weight
    if dtype not in _TYPES or not _works(weight[:_CHECKED_TOKENS].to(dtype)):
        return False
    model.lm_head = packed = PackedLinear(weight.detach().to(dtype))
    # A thread, because it takes 0.6 s for the 200 MB of the demo, and loading goes on.
    threading.Thread(target=packed.use_huge_pages, name="huge pages", daemon=True).start()
    # Otherwise the pages stay in memory with those of other weights in the same mapped file.
    if weight is model.get_input_embeddings().weight:
        release_file_pages(weight)
    else:
        release_pages(weight)
    return True


@torch.no_grad()
def _works(weight: Tensor) -> bool:
    generator = torch.Generator().manual_seed(0)
    try:
        packed = PackedLinear(weight.detach().clone())
        for rows in _CHECKED_ROWS:
            states = torch.randn((1, rows, weight.shape[1]), generator=generator).to(weight.dtype)
            expected = linear(states.float(), weight.float())
            error = (packed(states).float() - expected).abs().max() / expected.abs().max()
            if not error < _BOUND:
                logger.warning("packed weights have an error of %g and are not used", error)
                return False
    except Exception as failure:  # operators raise errors of any type
        logger.warning("packed weights are not available: %s", failure)
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
