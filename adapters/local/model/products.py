"""Attention by matrix products, for a CPU whose flash kernel is slow.

Without AMX, torch's flash kernel multiplies bfloat16 numbers as float32. oneDNN multiplies them
with the instructions of AVX-512 BF16, four times as fast, and with one query ten times as fast.
For a prompt this module computes the scores in blocks that stay in the cache of the CPU.

The exponentials of a query's scores are relative to a reference score: the maximum for the last
keys only, so that the earlier keys are read once. The reference is one more column of the queries,
with a column of ones at the keys: the product then contains the subtraction. Another column of
ones, at the values, sums up the exponentials. An exponential overflows if its score exceeds the
reference by 88, and its product with a value before that; the reference then becomes the maximum of
all scores.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor
from torch.nn import functional

from adapters.local.model.flash import Part, Result

LEAST_QUERIES = 16
"""With fewer queries the flash kernel is faster than `full`, unless there are many keys."""

MANY_SCORES = 16_384
"""Keys times heads, from which on `full` is faster with few queries too."""

LEAST_BANDS = 256
"""With fewer queries the flash kernel is faster than `windows`."""

FEW_KEYS = 320
"""Up to so many keys the flash kernel decodes a sequence faster, if it is the only one."""

_ROWS = 1024
_KEYS = 512
_SHORT = 512
# Keys of a group, with padding. Larger copies take several times as long for each key.
_GROUP = 12_288
_STEP = 64
_LONG = 4096
# More blocks at once, or larger ones, leave the cache of the CPU.
_BLOCK = 64
_BLOCKS = 4


def are_faster(dtype: torch.dtype) -> bool:
    """Whether this CPU computes products of `dtype` faster than its flash kernel does."""
    return (
        dtype == torch.bfloat16
        and torch.cpu._is_avx512_bf16_supported()
        and not torch.cpu._is_amx_tile_supported()
    )


def full(query: Tensor, key: Tensor, value: Tensor, scaling: float) -> Iterator[Part]:
    """Causal attention of one sequence, whose queries are the last of its keys.

    query: [queries, heads, width]. key, value: [keys, key heads, width].
    """
    past = len(key) - len(query)
    key_heads = key.shape[1]
    groups = query.shape[1] // key_heads
    size = max(1, _ROWS // groups)
    keys, values = _blocks(key), _blocks(value)
    for begin in range(0, len(query), size):
        end = min(begin + size, len(query))
        earlier = (past + begin) // _KEYS
        last = slice(earlier * _KEYS, past + end)
        block = _Block(
            _rows(query[begin:end] * scaling, key_heads),
            keys[:earlier],
            values[:earlier],
            _with_ones(key[last]).transpose(0, 1),
            _with_ones(value[last]).transpose(0, 1),
            _causal(end - begin, last.stop - last.start, key.dtype).repeat_interleave(groups, 0),
        )
        yield begin, end, *_normalised(*block.weighted(), groups)


def groups(counts: Sequence[int]) -> list[list[int]]:
    """Sequences with one query each, by their places, in groups for `one_query`.

    counts: their numbers of keys. A group pads the keys of its sequences, which takes less time
    than products for each of them, unless it is large or has much padding.
    """
    found: list[list[int]] = []
    width = 0
    for place in sorted(range(len(counts)), key=lambda place: -counts[place]):
        fits = found and (len(found[-1]) + 1) * width <= _GROUP
        if fits and (width <= _SHORT or 2 * counts[place] >= width):
            found[-1].append(place)
        else:
            found.append([place])
            width = counts[place]
    return found


def padded_length(counts: Sequence[int]) -> int:
    """The number of keys that a group with so many is padded to. It seldom changes from step to
    step.

    oneDNN compiles a product for each length, which takes longer than to copy the keys of a
    sequence, unless they are many.
    """
    longest = max(counts)
    return longest if len(counts) == 1 and longest > _LONG else -(-longest // _STEP) * _STEP


def one_query(
    query: Tensor, keys: Tensor, values: Tensor, scaling: float, hidden: Tensor | None
) -> Result:
    """As `flash.few`, for sequences with one query each: [sequences, 1, heads, width].

    A matrix product with few rows takes as long as reading the keys, so that one product has all
    key heads: the rows of a head are zero for other key heads.
    """
    count, _, heads, width = query.shape
    key_heads = keys.shape[2]
    by_head = (count, key_heads, heads // key_heads, key_heads, width)
    rows = query.new_zeros(by_head)
    _own(rows).copy_((query * scaling).view(count, key_heads, -1, width))
    sums, total, reference = _weighted(
        rows.view(count, heads, -1), keys.flatten(2).transpose(1, 2), values.flatten(2), hidden
    )
    out = _own(sums.view(by_head)).reshape(-1, heads, width) / total.unsqueeze(2)
    return out.to(query.dtype), (reference + total.log()).t()


def _weighted(
    rows: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """The sums of weighted values [n, rows, features], the sums of the weights, in float32, and the
    reference scores, both [n, rows].

    rows: [n, rows, features]. keys: [n, features, keys]. values: [n, keys, features]. mask: -inf
    for keys that a row does not attend to, else 0; it is broadcast to [n, rows, keys].
    """
    if mask is None:
        reference = torch.bmm(rows, keys).amax(2, keepdim=True)
        shift = -reference
    else:
        reference = torch.baddbmm(mask, rows, keys).amax(2, keepdim=True)
        shift = mask - reference
    # The product contains the subtraction: differences of large scores are not rounded.
    weights = torch.baddbmm(shift, rows, keys).exp_()
    return torch.bmm(weights, values), weights.sum(2, dtype=torch.float32), reference.squeeze(2)


def _own(states: Tensor) -> Tensor:
    """Of [sequences, key heads, heads of each, key heads, width] the own key head of each head: a
    view, [sequences, key heads, heads of each, width].
    """
    return states.diagonal(dim1=1, dim2=3).movedim(-1, 1)


def windows(
    query: Tensor, key: Tensor, value: Tensor, scaling: float, window: int
) -> Iterator[Part]:
    """One sequence whose queries attend to their last `window` keys only: as `flash.windows`.

    It is computed in blocks of queries that share a band of keys.
    """
    past = len(key) - len(query)
    size = _BLOCK * _BLOCKS
    for begin in range(0, len(query), size):
        end = min(begin + size, len(query))
        # One key more than the window has, which is hidden: products of whole vectors are faster.
        first = past + begin - window
        band = slice(max(0, first), past + end)
        out, lse = _bands(
            query[begin:end] * scaling, key[band], value[band], max(0, -first), window
        )
        yield begin, end, out, lse


def _bands(query: Tensor, key: Tensor, value: Tensor, missing: int, window: int) -> Result:
    """The results of some blocks of queries.

    missing: how many keys the sequence lacks before `key`, for the band of the first block.
    """
    count, heads, width = query.shape
    key_heads = key.shape[1]
    blocks = -(-count // _BLOCK)
    padding = blocks * _BLOCK - count
    span = _BLOCK + window
    keys, values = (
        functional.pad(states, (0, 0, 0, 0, missing, padding)).unfold(0, span, _BLOCK)
        for states in (key, value)
    )
    by_head = (blocks, _BLOCK, key_heads, -1, width)
    rows = functional.pad(query, (0, 0, 0, 0, 0, padding)).view(by_head).transpose(1, 2)
    mask = _band(window, query.dtype).repeat_interleave(heads // key_heads, 0)
    if missing:
        absent = torch.arange(span) < missing - _BLOCK * torch.arange(blocks).unsqueeze(1)
        mask = mask.expand(blocks, key_heads, -1, -1).masked_fill(absent[:, None, None], -torch.inf)
        mask = mask.flatten(0, 1)
    sums, total, reference = _weighted(
        rows.reshape(blocks * key_heads, -1, width),
        keys.flatten(0, 1),
        values.transpose(2, 3).flatten(0, 1),
        mask,
    )

    def by_query(states: Tensor) -> Tensor:
        return (
            states.view(blocks, key_heads, _BLOCK, heads // key_heads, -1)
            .transpose(1, 2)
            .reshape(blocks * _BLOCK, heads, -1)[:count]
        )

    out = by_query((sums / total.unsqueeze(2)).to(query.dtype))
    return out, by_query(reference + total.log()).squeeze(2).t()


@cache
def _band(window: int, dtype: torch.dtype) -> Tensor:
    """A mask, [_BLOCK, _BLOCK + window]: query i attends to `window` keys, from i + 1 on.

    It is shared by all calls, and must not be changed.
    """
    ones = torch.ones(_BLOCK, _BLOCK + window, dtype=torch.bool)
    visible = ones.triu(1) & ones.tril(window)
    return torch.zeros(visible.shape, dtype=dtype).masked_fill_(~visible, -torch.inf)


@dataclass(frozen=True, slots=True)
class _Block:
    """Queries as rows, [key heads, rows, width], and their keys and values.

    keys, values: [blocks, key heads, keys, width + 1], before the last keys. last_keys,
    last_values: [key heads, keys, width + 1]. hidden: [rows, keys], -inf where a row does not
    attend to one of the last keys, else 0.
    """

    rows: Tensor
    keys: Tensor
    values: Tensor
    last_keys: Tensor
    last_values: Tensor
    hidden: Tensor

    def weighted(self) -> tuple[Tensor, Tensor]:
        """The sums of weighted values [key heads, rows, width + 1], and the reference scores.

        The last column is the sum of the weights.
        """
        reference = self._scores(self.last_keys).add_(self.hidden).amax(2, keepdim=True)
        weighted = self._relative_to(reference)
        # The sum is finite only if all of them are.
        if not bool(torch.isfinite(weighted.sum())):
            for keys in self.keys:
                reference = torch.maximum(reference, self._scores(keys).amax(2, keepdim=True))
            weighted = self._relative_to(reference)
        return weighted, reference

    def _scores(self, keys: Tensor) -> Tensor:
        return torch.bmm(self.rows, keys[..., :-1].transpose(1, 2))

    def _relative_to(self, reference: Tensor) -> Tensor:
        rows = torch.cat([self.rows, -reference], 2)
        # The product contains the subtraction: differences of large scores are not rounded.
        scores = torch.bmm(rows, self.last_keys.transpose(1, 2)).add_(self.hidden)
        sums = torch.bmm(scores.exp_(), self.last_values).float()
        for keys, values in zip(self.keys, self.values, strict=True):
            sums += torch.bmm(torch.bmm(rows, keys.transpose(1, 2)).exp_(), values)
        return sums


def _normalised(weighted: Tensor, reference: Tensor, groups: int) -> tuple[Tensor, Tensor]:
    """The output [queries, heads, width] and the log-sum-exp [heads, queries], of rows."""
    heads = len(weighted) * groups

    def by_query(rows: Tensor) -> Tensor:
        queries = rows.view(len(rows), -1, groups, rows.shape[2])
        return queries.transpose(0, 1).reshape(-1, heads, rows.shape[2])

    sums = by_query(weighted)
    total = sums[..., -1]
    out = (sums[..., :-1] / total.unsqueeze(2)).to(reference.dtype)
    return out, (by_query(reference).squeeze(2) + total.log()).t()


def _rows(query: Tensor, key_heads: int) -> Tensor:
    """[queries, heads, width] as [key heads, rows, width]: the queries that share a key head."""
    count, _, width = query.shape
    return query.view(count, key_heads, -1, width).transpose(0, 1).reshape(key_heads, -1, width)


def _blocks(states: Tensor) -> Tensor:
    """Complete blocks, [blocks, key heads, keys, width + 1], of [keys, key heads, width]."""
    count, (_, heads, width) = len(states) // _KEYS, states.shape
    blocks = _with_ones(states[: count * _KEYS]).view(count, _KEYS, heads, width + 1)
    return blocks.transpose(1, 2).contiguous()


def _causal(queries: int, keys: int, dtype: torch.dtype) -> Tensor:
    """[queries, keys], -inf for keys after the query; the last query is that of the last key."""
    return torch.full((queries, keys), -torch.inf, dtype=dtype).triu_(keys - queries + 1)


def _with_ones(states: Tensor) -> Tensor:
    return torch.cat([states, states.new_ones((*states.shape[:2], 1))], 2)
