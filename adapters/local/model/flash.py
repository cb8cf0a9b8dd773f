"""Attention by torch's flash kernel for a CPU.

The operator is not part of torch's public interface: `attention.works` compares its results with
plain attention before it is used.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import groupby

import torch
from torch import Tensor

Result = tuple[Tensor, Tensor]
"""The outputs of queries without sinks, [queries, heads, width], and the log-sum-exps of their
scores, [heads, queries]."""

Part = tuple[int, int, Tensor, Tensor]
"""The first query, the end of the queries, and their result."""

# Measured with 8 and with 64 heads: with more scores a call takes longer than its overhead.
_MOST_SCORES = 2048
# More copied numbers leave the cache of the CPU.
_MOST_COPIED = 1 << 20
_LEAST_CALLS = 3


def groups(counts: Sequence[int], heads: int, features: int) -> list[list[int]]:
    """Sequences with few queries each, by their places, in groups for `few`.

    counts: their numbers of keys. heads: of all queries of a sequence. features: the numbers in a
    key. Sequences with equally many keys are a group. A call takes 13 to 60 us, however few keys it
    has: to pad the keys of several short sequences to the longest takes less time than a call for
    each, if heads and keys are few.
    """
    order = sorted(range(len(counts)), key=lambda place: counts[place])
    if len({*counts}) < _LEAST_CALLS:
        return _alike(order, counts)
    padded: list[list[int]] = [[]]
    for place in order:
        if counts[place] * heads > _MOST_SCORES:
            break
        if (len(padded[-1]) + 1) * counts[place] * features > _MOST_COPIED:
            padded.append([])
        padded[-1].append(place)
    padded = [group for group in padded if len(group) >= _LEAST_CALLS]
    done = {place for group in padded for place in group}
    return padded + _alike((place for place in order if place not in done), counts)


def _alike(order: Iterable[int], counts: Sequence[int]) -> list[list[int]]:
    return [[*group] for _, group in groupby(order, lambda place: counts[place])]


def few(
    query: Tensor, keys: Tensor, values: Tensor, scaling: float, hidden: Tensor | None
) -> Result:
    """Attention of sequences with few queries each: the results of all queries.

    query: [sequences, queries, heads, width]. keys, values: [sequences, keys, key heads, width].
    hidden: [sequences, queries, keys], -inf for keys that a query does not attend to, else 0; None
    if it attends to all.
    """
    queries = query.shape[1]
    if queries == 1 and query.dtype == torch.bfloat16:
        # Measured with AVX-512 BF16: from 128 keys on, one query takes twice the time of two.
        query = query.expand(-1, 2, -1, -1)
    out, lse = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
        *(states.transpose(1, 2) for states in (query, keys, values)),
        0.0,
        False,
        attn_mask=None if hidden is None else hidden.expand(-1, query.shape[1], -1).unsqueeze(1),
        scale=scaling,
    )
    out, lse = out[:, :, :queries], lse[:, :, :queries]
    return out.transpose(1, 2).flatten(0, 1), lse.transpose(0, 1).flatten(1)


def full(query: Tensor, key: Tensor, value: Tensor, scaling: float) -> Result:
    """Causal attention of one sequence, whose queries are the last of its keys.

    query: [queries, heads, width]. key, value: [keys, key heads, width].
    """
    past = len(key) - len(query)
    # With the causal mask of the kernel, the first query attends to the first key only.
    out, lse = _flash(query, key[past:], value[past:], scaling, causal=True)
    if not past:
        return out, lse
    out_past, lse_past = _flash(query, key[:past], value[:past], scaling)
    both = torch.logaddexp(lse, lse_past)
    share = torch.exp(lse - both).transpose(0, 1).unsqueeze(2)
    share_past = torch.exp(lse_past - both).transpose(0, 1).unsqueeze(2)
    return out * share + out_past * share_past, both


def windows(
    query: Tensor, key: Tensor, value: Tensor, scaling: float, window: int
) -> Iterator[Part]:
    """The same for a query that attends to the last `window` keys only, itself included.

    The sequence has at most window - 1 keys before its queries. It is computed in blocks of queries
    that share one band of keys.
    """
    band = _band(window, query.dtype)
    width = band.shape[1]
    past = len(key) - len(query)
    for begin in range(0, len(query), window):
        end = min(begin + window, len(query))
        first = past + begin - window + 1
        # Blocks at the beginning have fewer keys than the band has columns.
        mask = band[: end - begin, max(0, -first) : width - window + end - begin]
        keys = slice(max(0, first), past + end)
        yield begin, end, *_flash(query[begin:end], key[keys], value[keys], scaling, mask)


@cache
def _band(window: int, dtype: torch.dtype) -> Tensor:
    """A mask, [window, 2 * window - 1]: query i attends to the `window` keys from i on.

    It is shared by all calls, and must not be changed.
    """
    ones = torch.ones(window, 2 * window - 1, dtype=torch.bool, device="cpu")
    visible = ones.triu() & ones.tril(window - 1)
    return torch.zeros(visible.shape, dtype=dtype, device="cpu").masked_fill_(~visible, -torch.inf)


def _flash(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    scaling: float,
    mask: Tensor | None = None,
    *,
    causal: bool = False,
) -> Result:
    """The result of one sequence."""
    out, lse = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
        *(states.transpose(0, 1).unsqueeze(0) for states in (query, key, value)),
        0.0,
        causal,
        attn_mask=mask,
        scale=scaling,
    )
    return out.squeeze(0).transpose(0, 1), lse.squeeze(0)
