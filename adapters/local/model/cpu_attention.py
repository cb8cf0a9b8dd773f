"""The attention of a step on a CPU, which reads keys and values from the paged cache.

All layers of a kind read the same places for the same sequences, so that one plan serves them all.
Sequences with few queries are computed together, padded to equal numbers of queries and of keys. A
sequence has several queries in decode if tokens were forced.
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
"""The first row of a sequence, and the end of its rows."""

_QUERIES = (1, 2, 5, products.LEAST_QUERIES)
"""The numbers of queries at which groups begin, and the least number of a prompt."""


@dataclass(frozen=True, slots=True)
class Shape:
    """Of a model's states: the heads of a query, the numbers in a key, and their type."""

    heads: int
    features: int
    dtype: torch.dtype


@dataclass(frozen=True, slots=True)
class Group:
    """Sequences with few queries each that one call computes, padded to equally many.

    queries, keys: their rows, sequence after sequence. hidden: [sequences, queries, keys], -inf for
    keys that a query does not attend to, padding for example, else 0; None if there are none. kept:
    the places of results that are not those of padding; None for all. outputs: the rows that they
    are the results of. by_products: whether `products` computes them.
    """

    sequences: int
    queries: Rows
    keys: Rows
    hidden: Tensor | None
    kept: Tensor | None
    outputs: Rows
    by_products: bool


@dataclass(frozen=True, slots=True)
class Prompt:
    """A sequence whose queries are the last of its keys, and the rows of both."""

    queries: slice
    keys: Rows


@dataclass(frozen=True, slots=True)
class Plan:
    """All sequences of a step.

    queries: the number of all their queries. from_cache: whether the rows of keys are those of the
    cache; else they are those of the step, which then has all keys of its sequences. window: the
    number of keys that a query attends to, itself included; None for all.
    """

    groups: tuple[Group, ...]
    prompts: tuple[Prompt, ...]
    queries: int
    from_cache: bool
    window: int | None


def make_plan(
    queries: Sequence[int],
    keys: Sequence[int],
    index: Tensor | None,
    shape: Shape,
    window: int | None,
) -> Plan:
    """The plan for sequences with so many queries and keys.

    index: the rows of all keys in the cache, int64, sequence after sequence. None: the keys are
    rows one after another. window: as of `Plan`; a sequence then has at most window - 1 keys before
    its queries.
    """
    rows, spans = ([*pairwise(accumulate(counts, initial=0))] for counts in (queries, keys))
    groups = tuple(
        _group(
            [rows[place] for place in places],
            [spans[place] for place in places],
            index,
            shape.dtype,
            window,
            by_products,
        )
        for places, by_products in _together(queries, keys, shape)
    )
    prompts = tuple(
        Prompt(slice(*rows[place]), _of_sequences(index, *spans[place]))
        for place, count in enumerate(queries)
        if count >= products.LEAST_QUERIES
    )
    return Plan(groups, prompts, sum(queries), index is not None, window)


def _together(
    queries: Sequence[int], keys: Sequence[int], shape: Shape
) -> Iterator[tuple[list[int], bool]]:
    """The places of sequences that are a group, in their order, and whether `products` computes it.

    Padding makes the queries of a sequence four times as many at most.
    """
    by_products = products.are_faster(shape.dtype)
    for fewest, end in pairwise(_QUERIES):
        members = [place for place, count in enumerate(queries) if fewest <= count < end]
        counts = [keys[place] for place in members]
        if by_products:
            groups = products.groups(counts)
        else:
            groups = flash.groups(counts, shape.heads * (end - 1), shape.features)
        for group in groups:
            small = len(group) == 1 and counts[group[0]] <= products.FEW
            yield sorted(members[place] for place in group), by_products and not small


def _group(
    rows: Sequence[Span],
    spans: Sequence[Span],
    index: Tensor | None,
    dtype: torch.dtype,
    window: int | None,
    by_products: bool,
) -> Group:
    """rows: of the queries of each sequence. spans: of their keys in `index`."""
    count, most, width = len(rows), _longest(rows), _longest(spans)
    if by_products:
        most = next(end - 1 for end in _QUERIES if end > most)
        sequences, width = products.padded_shape(count, most, width)
        # Padding is the last sequence again.
        rows, spans = ([*each, *[each[-1]] * (sequences - count)] for each in (rows, spans))
    queries: Rows = slice(rows[0][0], rows[-1][1])
    outputs, kept = queries, None
    if not _are_padded(rows, most):
        queries, own = _padded(rows, most)
        own[count:] = False
        outputs = queries
        if not own.all():
            kept = own.flatten().nonzero().squeeze(1)
            outputs = queries[kept]
    if _are_padded(spans, width):
        keys = _of_sequences(index, spans[0][0], spans[-1][1])
    else:
        places, _ = _padded(spans, width)
        keys = places if index is None else index.index_select(0, places)
    hidden = None
    if most > 1 or any(end - start < width for start, end in spans):
        visible = _visible(rows, spans, most, width, window)
        hidden = torch.zeros(visible.shape, dtype=dtype).masked_fill_(~visible, -torch.inf)
    return Group(len(rows), queries, keys, hidden, kept, outputs, by_products)


def _longest(spans: Sequence[Span]) -> int:
    return max(end - start for start, end in spans)


def _are_padded(spans: Sequence[Span], width: int) -> bool:
    """Whether the spans stand one after another, and each has `width` rows."""
    first = spans[0][0]
    return [*spans] == [
        (start, start + width) for start in range(first, first + width * len(spans), width)
    ]


def _padded(spans: Sequence[Span], width: int) -> tuple[Tensor, Tensor]:
    """The rows of `spans`, each padded to `width`, one after another; and [spans, width], whether a
    row is no padding.

    Padding is the last row of a span, so that no other sequence can affect it.
    """
    starts, ends = torch.tensor(spans).unsqueeze(2).unbind(1)
    places = starts + torch.arange(width)
    return torch.minimum(places, ends - 1).flatten(), places < ends


def _visible(
    rows: Sequence[Span], spans: Sequence[Span], most: int, width: int, window: int | None
) -> Tensor:
    """[sequences, most, width]: whether a query attends to a key. A query that is padding attends
    to the same keys as the last one.
    """
    queries, keys = (
        torch.tensor([end - start for start, end in each]).unsqueeze(1) for each in (rows, spans)
    )
    last = (keys - queries + torch.minimum(torch.arange(most), queries - 1)).unsqueeze(2)
    places = torch.arange(width)
    visible = places <= last
    return visible if window is None else visible & (places > last - window)


def _of_sequences(index: Tensor | None, start: int, end: int) -> Rows:
    return slice(start, end) if index is None else index[start:end]


def attend(plan: Plan, query: Tensor, key: Tensor, value: Tensor, scaling: float) -> Result:
    """The results of all queries, [queries, heads, width]. key, value: [rows, key heads, width]."""
    if len(plan.groups) == 1 and isinstance(plan.groups[0].queries, slice) and not plan.prompts:
        return _few(plan.groups[0], query, key, value, scaling)
    out = torch.empty_like(query, memory_format=torch.contiguous_format)
    lse = query.new_empty((query.shape[1], query.shape[0]), dtype=torch.float32)
    for group in plan.groups:
        states = _select(query, group.queries)
        result, result_lse = _few(group, states, key, value, scaling)
        if group.kept is not None:
            result, result_lse = result[group.kept], result_lse[:, group.kept]
        out[group.outputs], lse[:, group.outputs] = result, result_lse
    for prompt in plan.prompts:
        first = prompt.queries.start
        keys, values = (_select(states, prompt.keys) for states in (key, value))
        parts = _prompt(query[prompt.queries], keys, values, scaling, plan.window)
        for begin, end, part, part_lse in parts:
            out[first + begin : first + end] = part
            lse[:, first + begin : first + end] = part_lse
    return out, lse


def _few(group: Group, query: Tensor, key: Tensor, value: Tensor, scaling: float) -> Result:
    queries, keys, values = (
        states.view(group.sequences, -1, *states.shape[1:])
        for states in (query, _select(key, group.keys), _select(value, group.keys))
    )
    kernel = products.few if group.by_products else flash.few
    return kernel(queries, keys, values, scaling, group.hidden)


def _prompt(
    query: Tensor, key: Tensor, value: Tensor, scaling: float, window: int | None
) -> Iterator[Part]:
    by_products = products.are_faster(query.dtype)
    if window is not None:
        banded = by_products and len(query) >= products.LEAST_BANDS
        yield from (products if banded else flash).windows(query, key, value, scaling, window)
    elif by_products:
        yield from products.full(query, key, value, scaling)
    else:
        yield 0, len(query), *flash.full(query, key, value, scaling)


def _select(states: Tensor, rows: Rows) -> Tensor:
    return states[rows] if isinstance(rows, slice) else states.index_select(0, rows)
