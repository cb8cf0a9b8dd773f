"""Attention of short sequences in decode, by one call of torch's flash kernel for several of them.

A call takes 60 us, however few keys it has. To copy the keys of several sequences side by side,
padded to the longest, takes less time than a call for each.
"""

from collections.abc import Sequence
from functools import lru_cache

import torch
from torch import Tensor

_MOST_KEYS = 256
_LEAST_SEQUENCES = 3
# More copied keys leave the cache of the CPU.
_MOST_COPIED = 4096

Span = tuple[int, int]
"""The first key of a sequence, and the end of its keys."""


def decoding_groups(counts: Sequence[int]) -> list[list[int]]:
    """Sequences with one query each, by their places, in groups for `one_query`.

    counts: their numbers of keys. Sequences with many keys are left out, and so are all if they
    have equally many: they can be one call without copies.
    """
    short = [place for place, count in enumerate(counts) if count <= _MOST_KEYS]
    if len({counts[place] for place in short}) < 2:
        return []
    groups: list[list[int]] = [[]]
    for place in sorted(short, key=lambda place: counts[place]):
        if (len(groups[-1]) + 1) * counts[place] > _MOST_COPIED:
            groups.append([])
        groups[-1].append(place)
    return [group for group in groups if len(group) >= _LEAST_SEQUENCES]


def one_query(
    query: Tensor, key: Tensor, value: Tensor, spans: Sequence[Span], scaling: float
) -> tuple[Tensor, Tensor]:
    """Attention of sequences with one query each: their outputs, and log-sum-exps [heads, queries].

    query: [queries, heads, width]. key, value: [keys, key heads, width]. spans: of each query.
    """
    places, hidden = _layout(tuple(spans), query.dtype)
    keys, values = (
        states.index_select(0, places).view(len(spans), -1, *states.shape[1:]).transpose(1, 2)
        for states in (key, value)
    )
    out, lse = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
        query.unsqueeze(2), keys, values, 0.0, False, attn_mask=hidden, scale=scaling
    )
    return out.squeeze(2), lse.squeeze(2).t()


@lru_cache(maxsize=4)
def _layout(spans: tuple[Span, ...], dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """The places of the padded keys, [sequences * longest], and a mask that hides the padding.

    All layers of a step have the same one or two. Padding is the sequence's own last key, so that
    no other sequence can affect it.
    """
    starts, ends = torch.tensor(spans).unsqueeze(2).unbind(1)
    places = starts + torch.arange(int((ends - starts).max()))
    hidden = torch.zeros(places.shape, dtype=dtype).masked_fill_(places >= ends, -torch.inf)
    return torch.minimum(places, ends - 1).flatten(), hidden[:, None, None]
