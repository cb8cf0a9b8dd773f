"""The attention of a step on a CPU, which reads keys and values from the paged cache.

All layers of a kind read the same places for the same sequences, so that one plan serves them all.
Sequences in decode are computed together, padded to equal lengths, and copied from the cache only
once: with 16 of them the copies take a fifth of a step.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

import torch
from torch import Tensor

from adapters.local.model import flash, products
from adapters.local.model.flash import Part, Result

Rows = slice | Tensor
"""Rows of a tensor: a range of them, or their places."""

Span = tuple[int, int]
"""The first key of a sequence, and the end of its keys."""


@dataclass(frozen=True, slots=True)
class Shape:
    """Of a model's states: the heads of a query, the numbers in a key, and their type."""

    heads: int
    features: int
    dtype: torch.dtype


@dataclass(frozen=True, slots=True)
class Decoding:
    """Sequences with one query each that one call computes, padded to equally many keys.

    queries, keys: their rows, those of the keys sequence after sequence. hidden: [sequences, keys],
    -inf for padding, else 0; None without padding. by_products: whether `products` computes them.
    """

    queries: Rows
    keys: Rows
    hidden: Tensor | None
    by_products: bool


@dataclass(frozen=True, slots=True)
class Prompt:
    """A sequence whose queries are the last of its keys, and the rows of both."""

    queries: slice
    keys: Rows


@dataclass(frozen=True, slots=True)
class Plan:
    """All sequences of a step. from_cache: whether the rows of keys are those of the cache; else
    they are those of the step, which then has all keys of its sequences."""

    decoding: tuple[Decoding, ...]
    prompts: tuple[Prompt, ...]
    from_cache: bool


def make_plan(
    queries: Sequence[int], keys: Sequence[int], index: Tensor | None, shape: Shape
) -> Plan:
    """The plan for sequences with so many queries and keys.

    index: the rows of all keys in the cache, int64, sequence after sequence. None: the keys are
    rows one after another.
    """
    rows, spans = ([*pairwise(accumulate(counts, initial=0))] for counts in (queries, keys))
    single = [place for place, count in enumerate(queries) if count == 1]
    decoding = []
    for group, by_products in _groups([keys[place] for place in single], shape):
        members = [single[member] for member in group]
        starts = [rows[place][0] for place in members]
        decoding.append(
            _decoding(starts, [spans[place] for place in members], index, shape.dtype, by_products)
        )
    prompts = [
        Prompt(slice(*rows[place]), _of_sequences(index, *spans[place]))
        for place, count in enumerate(queries)
        if count != 1
    ]
    return Plan(tuple(decoding), tuple(prompts), index is not None)


def _groups(counts: Sequence[int], shape: Shape) -> Iterator[tuple[list[int], bool]]:
    """Sequences with one query and so many keys each: the places of a group, in their order, and
    whether `products` computes it.
    """
    if not products.are_faster(shape.dtype):
        for group in flash.decoding_groups(counts, shape.heads, shape.features):
            yield sorted(group), False
        return
    for group in products.decoding_groups(counts):
        yield sorted(group), len(group) > 1 or counts[group[0]] > products.FEW


def _decoding(
    starts: list[int],
    spans: list[Span],
    index: Tensor | None,
    dtype: torch.dtype,
    by_products: bool,
) -> Decoding:
    """starts: the rows of the queries. spans: of their keys in `index`."""
    in_order = starts[-1] - starts[0] == len(starts) - 1
    queries = slice(starts[0], starts[-1] + 1) if in_order else torch.tensor(starts)
    counts = [end - start for start, end in spans]
    width = products.padded_length(counts) if by_products else max(counts)
    if min(counts) == width and all(one[1] == other[0] for one, other in pairwise(spans)):
        keys = _of_sequences(index, spans[0][0], spans[-1][1])
        return Decoding(queries, keys, None, by_products)
    firsts, ends = torch.tensor(spans).unsqueeze(2).unbind(1)
    places = firsts + torch.arange(width)
    hidden = None
    if min(counts) < width:
        hidden = torch.zeros(places.shape, dtype=dtype).masked_fill_(places >= ends, -torch.inf)
        # Padding is the sequence's own last key, so that no other sequence can affect it.
        places = torch.minimum(places, ends - 1)
    places = places.flatten()
    keys = places if index is None else index.index_select(0, places)
    return Decoding(queries, keys, hidden, by_products)


def _of_sequences(index: Tensor | None, start: int, end: int) -> Rows:
    return slice(start, end) if index is None else index[start:end]


def attend(
    plan: Plan, query: Tensor, key: Tensor, value: Tensor, scaling: float, window: int | None
) -> Result:
    """The results of all queries, [queries, heads, width].

    key, value: [rows, key heads, width]. window: of the layer, None if it has none; the plan then
    has only the keys inside of it.
    """
    if len(plan.decoding) == 1 and not plan.prompts:
        return _decode(plan.decoding[0], query, key, value, scaling)
    out = torch.empty_like(query, memory_format=torch.contiguous_format)
    lse = query.new_empty((query.shape[1], query.shape[0]), dtype=torch.float32)
    for one in plan.decoding:
        rows = one.queries
        out[rows], lse[:, rows] = _decode(one, query[rows], key, value, scaling)
    for prompt in plan.prompts:
        first = prompt.queries.start
        states = (query[prompt.queries], _select(key, prompt.keys), _select(value, prompt.keys))
        for begin, end, part, part_lse in _prompt(*states, scaling, window):
            out[first + begin : first + end] = part
            lse[:, first + begin : first + end] = part_lse
    return out, lse


def _decode(one: Decoding, query: Tensor, key: Tensor, value: Tensor, scaling: float) -> Result:
    keys, values = (
        _select(states, one.keys).view(len(query), -1, *states.shape[1:]) for states in (key, value)
    )
    kernel = products.one_query if one.by_products else flash.one_query
    return kernel(query, keys, values, scaling, one.hidden)


def _prompt(
    query: Tensor, key: Tensor, value: Tensor, scaling: float, window: int | None
) -> Iterator[Part]:
    if window is not None:
        yield from flash.windows(query, key, value, scaling, window)
    elif len(query) >= products.LEAST_QUERIES and products.are_faster(query.dtype):
        yield from products.full(query, key, value, scaling)
    else:
        yield 0, len(query), *flash.full(query, key, value, scaling)


def _select(states: Tensor, rows: Rows) -> Tensor:
    return states[rows] if isinstance(rows, slice) else states.index_select(0, rows)
