"""The layer that computes logits, for a CPU: packed weights, and no rows without use."""

import logging
import threading
from typing import Any

import torch

from adapters.local.memory import release_file_pages, release_pages
from adapters.local.model.packed import ReorderedLinear, packed_kind

logger = logging.getLogger(__name__)


def pack_output_layer(model: Any, dtype: torch.dtype) -> bool:
    """Pack the weights of `model.lm_head` for states of `dtype`, if that works. Returns whether it
    does.

    The memory of the original weights is released. If they are those of the embedding too, it
    gets back the rows that it uses, from the mapped file.
    """
    weight = model.lm_head.weight
    kind = packed_kind([weight.detach()], dtype)
    if kind is None:
        logger.warning("the weights of the output layer are not packed, so that steps take longer")
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
