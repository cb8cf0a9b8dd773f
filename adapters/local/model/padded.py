"""Attention of short sequences in decode, by one call of torch's flash kernel for several of them.

A call takes 60 us, however few keys it has. To copy the keys of several sequences side by side,
padded to the longest, takes less time than a call for each, if heads and keys are few.
"""

from collections.abc import Sequence
from itertools import groupby

import torch
from torch import Tensor

from adapters.local.model.spans import Span, padded_places

# Measured with 8 and with 64 heads: with more scores a call takes longer than its overhead.
_MOST_SCORES = 2048
# More copied numbers leave the cache of the CPU.
_MOST_COPIED = 1 << 20
_LEAST_CALLS = 3


def decoding_groups(counts: Sequence[int], heads: int, features: int) -> list[list[int]]:
    """Sequences with one query each, by their places, in groups for `one_query`.

    counts: their numbers of keys. heads: of a query. features: the numbers in a key. Sequences with
    many keys are left out. So are all if they are few calls anyway: neighbours with equally many
    keys are one call without copies.
    """
    if sum(1 for _ in groupby(counts)) < _LEAST_CALLS:
        return []
    short = [place for place, count in enumerate(counts) if count * heads <= _MOST_SCORES]
    groups: list[list[int]] = [[]]
    for place in sorted(short, key=lambda place: counts[place]):
        if (len(groups[-1]) + 1) * counts[place] * features > _MOST_COPIED:
            groups.append([])
        groups[-1].append(place)
    return [group for group in groups if len(group) >= _LEAST_CALLS]


def one_query(
    query: Tensor, key: Tensor, value: Tensor, spans: Sequence[Span], scaling: float
) -> tuple[Tensor, Tensor]:
    """Attention of sequences with one query each: their outputs, and log-sum-exps [heads, queries].

    query: [queries, heads, width]. key, value: [keys, key heads, width]. spans: of each query.
    """
    longest = max(end - start for start, end in spans)
    places, hidden = padded_places(tuple(spans), longest, query.dtype)
    keys, values = (
        states.index_select(0, places.flatten()).view(*places.shape, *states.shape[1:])
        for states in (key, value)
    )
    return flash(query, keys, values, scaling, hidden[:, None, None])


def flash(
    query: Tensor, keys: Tensor, values: Tensor, scaling: float, hidden: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """The same for keys and values that are [sequences, keys, key heads, width].

    hidden: [sequences, 1, 1, keys], -inf for keys that are padding; None if there are none.
    """
    out, lse = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
        query.unsqueeze(2),
        keys.transpose(1, 2),
        values.transpose(1, 2),
        0.0,
        False,
        attn_mask=hidden,
        scale=scaling,
    )
    return out.squeeze(2), lse.squeeze(2).t()
