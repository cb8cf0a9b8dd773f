"""The attention of a step on a CPU, which reads keys and values from the paged cache.

All layers of a kind read the same places for the same sequences, so that one plan serves them all.
Sequences with few queries are computed together, padded to equal numbers of queries and of keys. A
sequence has several queries in decode if tokens were forced.
"""

from collections import defaultdict
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

_SEVERAL = 5
"""Sequences with fewer queries are not padded to more of them."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What a plan depends on.

    heads: the number of heads of a query. features: the numbers in a key, of all key heads. dtype:
    of queries, keys and values.
    """

    heads: int
    features: int
    dtype: torch.dtype


@dataclass(frozen=True, slots=True)
class Group:
    """Sequences with few queries each that one call computes, padded to equally many.

    queries, keys: their rows, sequence after sequence. hidden: [sequences, queries, keys], -inf for
    keys that a query does not attend to, padding for example, else 0; None if there are none. kept:
    the places of the queries that are not padding; None if none is. by_products: whether `products`
    computes them.
    """

    sequences: int
    queries: Rows
    keys: Rows
    hidden: Tensor | None
    kept: Tensor | None
    by_products: bool


@dataclass(frozen=True, slots=True)
class Prompt:
    """A sequence whose queries are the last of its keys, and the rows of both. by_products: whether
    `products` computes it.
    """

    queries: slice
    keys: Rows
    by_products: bool


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
    by_products = products.are_faster(shape.dtype)
    prompts, kinds = [], defaultdict[int, list[int]](list)
    for place, (count, length) in enumerate(zip(queries, keys, strict=True)):
        many = by_products and window is None and length * shape.heads >= products.MANY_SCORES
        if count >= products.LEAST_QUERIES or (count > 1 and many):
            banded = window is None or count >= products.LEAST_BANDS
            own_keys = _of_sequences(index, *spans[place])
            prompts.append(Prompt(slice(*rows[place]), own_keys, by_products and banded))
        else:
            kinds[(count > 1) + (count >= _SEVERAL)].append(place)
    groups = [
        _group(
            [rows[one] for one in places],
            [spans[one] for one in places],
            index,
            shape.dtype,
            window,
            products_serve,
        )
        for kind in kinds.values()
        for places, products_serve in _together(kind, queries, keys, shape, by_products)
    ]
    return Plan(tuple(groups), tuple(prompts), sum(queries), index is not None, window)


def _together(
    members: Sequence[int],
    queries: Sequence[int],
    keys: Sequence[int],
    shape: Shape,
    products_are_faster: bool,
) -> Iterator[tuple[list[int], bool]]:
    """The places of those of `members` that are a group, in their order, and whether `products`
    computes it.
    """
    counts = [keys[place] for place in members]
    most = max(queries[place] for place in members)
    by_products = most == 1 and products_are_faster
    if by_products:
        groups = products.groups(counts)
    else:
        groups = flash.groups(counts, shape.heads * most, shape.features)
    for group in groups:
        small = len(group) == 1 and counts[group[0]] <= products.FEW_KEYS
        yield sorted(members[place] for place in group), by_products and not small


def _group(
    rows: Sequence[Span],
    spans: Sequence[Span],
    index: Tensor | None,
    dtype: torch.dtype,
    window: int | None,
    by_products: bool,
) -> Group:
    """rows: the queries of each sequence. spans: the places of their keys in `index`."""
    numbers, counts = ([end - start for start, end in each] for each in (rows, spans))
    most = max(numbers)
    width = products.padded_length(counts) if by_products else max(counts)
    queries: Rows = slice(rows[0][0], rows[-1][1])
    kept = None
    if not _are_adjacent(rows, most):
        queries, own = _padded_rows(rows, most)
        if min(numbers) < most:
            kept = own.flatten().nonzero().squeeze(1)
    if _are_adjacent(spans, width):
        keys = _of_sequences(index, spans[0][0], spans[-1][1])
    else:
        places, _ = _padded_rows(spans, width)
        keys = places if index is None else index.index_select(0, places)
    hidden = None
    if most > 1 or min(counts) < width:
        visible = _visible(numbers, counts, width, window)
        hidden = torch.zeros(visible.shape, dtype=dtype).masked_fill_(~visible, -torch.inf)
    return Group(len(rows), queries, keys, hidden, kept, by_products)


def _are_adjacent(spans: Sequence[Span], width: int) -> bool:
    """Whether the spans stand one after another, and each has `width` rows."""
    first = spans[0][0]
    return [*spans] == [
        (start, start + width) for start in range(first, first + width * len(spans), width)
    ]


def _padded_rows(spans: Sequence[Span], width: int) -> tuple[Tensor, Tensor]:
    """The rows of `spans`, each padded to `width`, one after another; and [spans, width], whether a
    row is no padding.

    Padding is the last row of a span, so that no other sequence can affect it.
    """
    starts, ends = torch.tensor(spans).unsqueeze(2).unbind(1)
    places = starts + torch.arange(width)
    return torch.minimum(places, ends - 1).flatten(), places < ends


def _visible(queries: Sequence[int], keys: Sequence[int], width: int, window: int | None) -> Tensor:
    """[sequences, most queries, width]: whether a query attends to a key. A query that is padding
    attends to the same keys as the last one.
    """
    own, count = (torch.tensor(numbers).unsqueeze(1) for numbers in (queries, keys))
    last = (count - own + torch.minimum(torch.arange(max(queries)), own - 1)).unsqueeze(2)
    places = torch.arange(width)
    visible = places <= last
    return visible if window is None else visible & (places > last - window)


def _of_sequences(index: Tensor | None, start: int, end: int) -> Rows:
    return slice(start, end) if index is None else index[start:end]


def attend(plan: Plan, query: Tensor, key: Tensor, value: Tensor, scaling: float) -> Result:
    """The results of all queries, [queries, heads, width]. key, value: [rows, key heads, width]."""
    if len(plan.groups) == 1 and not plan.prompts and isinstance(plan.groups[0].queries, slice):
        # The usual step in decode: nothing to sort and to copy, because a range has no padding.
        return _few(plan.groups[0], query, key, value, scaling)
    out = torch.empty_like(query, memory_format=torch.contiguous_format)
    lse = query.new_empty((query.shape[1], query.shape[0]), dtype=torch.float32)
    for group in plan.groups:
        rows = group.queries
        result, result_lse = _few(group, _select(query, rows), key, value, scaling)
        if isinstance(rows, Tensor) and (kept := group.kept) is not None:
            rows, result, result_lse = rows[kept], result[kept], result_lse[:, kept]
        out[rows], lse[:, rows] = result, result_lse
    for prompt in plan.prompts:
        first = prompt.queries.start
        keys, values = (_select(states, prompt.keys) for states in (key, value))
        parts = _prompt(prompt, query[prompt.queries], keys, values, scaling, plan.window)
        for begin, end, part, part_lse in parts:
            out[first + begin : first + end] = part
            lse[:, first + begin : first + end] = part_lse
    return out, lse


def _few(group: Group, query: Tensor, key: Tensor, value: Tensor, scaling: float) -> Result:
    queries, keys, values = (
        states.view(group.sequences, -1, *states.shape[1:])
        for states in (query, _select(key, group.keys), _select(value, group.keys))
    )
    kernel = products.one_query if group.by_products else flash.few
    return kernel(queries, keys, values, scaling, group.hidden)


def _prompt(
    prompt: Prompt,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    scaling: float,
    window: int | None,
) -> Iterator[Part]:
    if window is not None:
        kernels = products if prompt.by_products else flash
        yield from kernels.windows(query, key, value, scaling, window)
    elif prompt.by_products:
        yield from products.full(query, key, value, scaling)
    else:
        yield 0, len(query), *flash.full(query, key, value, scaling)


def _select(states: Tensor, rows: Rows) -> Tensor:
    return states[rows] if isinstance(rows, slice) else states.index_select(0, rows)
