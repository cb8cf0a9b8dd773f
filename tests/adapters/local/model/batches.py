"""Batches for the tests of attention."""

from torch import Tensor

from adapters.local.model.attention import Batch

SCALING = 0.125


def batch_of(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    ends_q: Tensor,
    ends_k: Tensor,
    window: int | None = None,
) -> Batch:
    """The batch with the longest sequences of the ends, and with `SCALING`."""
    longest_q, longest_k = (int(ends.diff().max()) for ends in (ends_q, ends_k))
    return Batch(query, key, value, ends_q, ends_k, longest_q, longest_k, SCALING, window)
