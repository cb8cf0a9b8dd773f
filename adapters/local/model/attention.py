"""Attention with the sinks of gpt-oss, computed by flash kernels without support for sinks.

A sink is a learned score of each head that is part of the softmax and has no value. A kernel
that also returns the log-sum-exp of a query's scores therefore gives the exact result: its output
times sigmoid(log-sum-exp - sink). No scores are written to memory: a long context costs the reading
of its keys and values only.

On CUDA one call of torch's own flash attention computes a whole batch of sequences (Ampere or
newer, half precision). On a CPU each sequence is computed by itself, except that those in decode
are one call where they have equally many keys, or few (`padded`); `products` replaces the kernel
where it is slow. Neither operator is part of torch's public interface: `works` compares them with
plain attention before they are used.
"""

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from typing import Any

import torch
from torch import Tensor
from transformers.modeling_utils import AttentionInterface

from adapters.local.model import padded, products
from adapters.local.model.products import Part

logger = logging.getLogger(__name__)

NAME = "flash_with_sinks"
"""Its name in transformers, which builds and budgets no masks for names that contain "flash"."""

LEAST_CAPABILITY = (8, 0)
"""The minimum compute capability (major, minor) for torch's flash attention on CUDA."""

_CHECKED = ((1, 0), (1, 130), (3, 0), (150, 140), (300, 70), (40, 600))
_CHECKED_DECODE = ((1, 0), (1, 200), (1, 31))
_CHECKED_EQUAL = ((1, 150), (1, 150))
_WINDOW = 128


@dataclass(frozen=True, slots=True)
class Batch:
    """Concatenated sequences whose queries attend to their keys.

    query: [queries, heads, width]; key, value: [keys, key heads, width]. ends_q, ends_k: int32
    [sequences + 1], from 0 to the numbers of queries and keys; the queries of a sequence are the
    last of its keys. longest_q, longest_k: the most queries and keys of a sequence. scaling: the
    factor of the scores. window: the number of keys that a query attends to, itself included, None
    for all; a sequence then has at most window - 1 keys before its queries.
    """

    query: Tensor
    key: Tensor
    value: Tensor
    ends_q: Tensor
    ends_k: Tensor
    longest_q: int
    longest_k: int
    scaling: float
    window: int | None


def paged_attention(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float,
    sliding_window: int | None = None,
    cache: Any = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """The attention of one layer; transformers calls it for each layer of a continuous batch.

    query: [1, heads, queries, width]. key, value: [1, key heads, queries, width]. The sequences are
    concatenated; `cu_seq_lens_q` has their ends. Result: [1, queries, heads, width].
    """
    if cache is None:
        raise ValueError(f"{NAME} needs the paged cache of continuous batching")
    key, value = cache.update(key, value, module.layer_idx, kwargs)
    batch = Batch(
        query.squeeze(0).transpose(0, 1),
        key.squeeze(0).transpose(0, 1),
        value.squeeze(0).transpose(0, 1),
        kwargs["cu_seq_lens_q"],
        kwargs["cu_seq_lens_k"],
        kwargs["max_length_q"],
        kwargs["max_length_k"],
        scaling,
        sliding_window,
    )
    return attend(batch, module.sinks).unsqueeze(0), None


def attend(batch: Batch, sinks: Tensor) -> Tensor:
    """Causal attention, [queries, heads, width], with the sink of each head."""
    out, lse = _on_cpu(batch) if batch.query.device.type == "cpu" else _on_cuda(batch)
    return with_sinks(out, lse, sinks)


def with_sinks(out: Tensor, lse: Tensor, sinks: Tensor) -> Tensor:
    """Scale `out` [queries, heads, width] in place, as if its softmax contained `sinks` [heads]."""
    weight = torch.sigmoid(lse - sinks.to(lse.dtype).unsqueeze(1))
    return out.mul_(weight.transpose(0, 1).unsqueeze(2))


def _on_cuda(batch: Batch) -> tuple[Tensor, Tensor]:
    """Output [queries, heads, width] without sinks, and the log-sum-exp [heads, queries]."""
    out, lse, *_ = torch.ops.aten._flash_attention_forward(
        batch.query,
        batch.key,
        batch.value,
        batch.ends_q,
        batch.ends_k,
        batch.longest_q,
        batch.longest_k,
        0.0,
        True,
        False,
        scale=batch.scaling,
        window_size_left=None if batch.window is None else batch.window - 1,
        window_size_right=None if batch.window is None else 0,
    )
    return out, lse


def _on_cpu(batch: Batch) -> tuple[Tensor, Tensor]:
    """The same as `_on_cuda`, for a CPU."""
    query, key, value, scaling = batch.query, batch.key, batch.value, batch.scaling
    starts_q, starts_k = batch.ends_q.tolist(), batch.ends_k.tolist()
    by_products = products.are_faster(query.dtype)
    if not by_products and _are_alike(starts_q, starts_k):
        # The usual step of one stream: nothing to allocate and to copy in each layer.
        return _one_query(query, key, value, scaling)
    out = torch.empty_like(query, memory_format=torch.contiguous_format)
    lse = query.new_empty((query.shape[1], query.shape[0]), dtype=torch.float32)
    band = None if batch.window is None else _band(batch.window, query.dtype)
    done = _decoded(batch, starts_q, starts_k, out, lse)
    parts: Iterable[Part]
    for run in _runs(starts_q, starts_k, done):
        first, last = starts_q[run.start], starts_q[run.stop]
        keys = slice(starts_k[run.start], starts_k[run.stop])
        states = (query[first:last], key[keys], value[keys])
        if last - first == len(run):
            # With a window, the cache has returned only the keys inside it.
            parts = [(0, len(run), *_one_query(*states, scaling))]
        elif band is not None:
            parts = _windows(*states, scaling, band)
        elif by_products and last - first >= products.LEAST_QUERIES:
            parts = products.full(*states, scaling)
        else:
            parts = [(0, last - first, *_full(*states, scaling))]
        for begin, end, part, part_lse in parts:
            out[first + begin : first + end] = part
            lse[:, first + begin : first + end] = part_lse
    return out, lse


def _are_alike(starts_q: list[int], starts_k: list[int]) -> bool:
    """Whether all sequences have one query each, and equally many keys."""
    places = range(len(starts_q))
    return starts_q == [*places] and starts_k == [place * starts_k[1] for place in places]


def _decoded(
    batch: Batch, starts_q: list[int], starts_k: list[int], out: Tensor, lse: Tensor
) -> set[int]:
    """Write the results of sequences with one query to `out` and `lse`, where several of them are
    better computed together. Returns their places.
    """
    single = [place for place, count in enumerate(starts_q[1:]) if count - starts_q[place] == 1]
    spans = [(starts_k[place], starts_k[place + 1]) for place in single]
    done: set[int] = set()
    counts = [end - start for start, end in spans]
    if products.are_faster(batch.query.dtype):
        groups, one_query = products.decoding_groups(counts), products.one_query
    else:
        groups = padded.decoding_groups(counts, batch.query.shape[1], batch.key[0].numel())
        one_query = padded.one_query
    for group in groups:
        rows = [starts_q[single[member]] for member in group]
        members = [spans[member] for member in group]
        out[rows], lse[:, rows] = one_query(
            batch.query[rows], batch.key, batch.value, members, batch.scaling
        )
        done.update(single[member] for member in group)
    return done


def _runs(starts_q: Sequence[int], starts_k: Sequence[int], done: set[int]) -> Iterator[range]:
    """What one call computes, as places of sequences: one sequence, or several in decode that stand
    side by side and have equally many keys. The places in `done` are left out.

    In layers with a window, most sequences in decode have as many keys as the window.
    """

    def kind(place: int) -> tuple[str, int]:
        if place in done:
            return "done", 0
        decodes = starts_q[place + 1] - starts_q[place] == 1
        return ("decode", starts_k[place + 1] - starts_k[place]) if decodes else ("prefill", place)

    for (state, _), places in groupby(range(len(starts_q) - 1), kind):
        members = list(places)
        if state != "done":
            yield range(members[0], members[-1] + 1)


def _one_query(query: Tensor, key: Tensor, value: Tensor, scaling: float) -> tuple[Tensor, Tensor]:
    """Attention of sequences with one query each and equally many keys: the outputs, and the
    log-sum-exp [heads, queries].

    query: [sequences, heads, width]. key, value: [keys of all, key heads, width].
    """
    keys, values = (states.view(len(query), -1, *states.shape[1:]) for states in (key, value))
    return padded.flash(query, keys, values, scaling)


def _full(query: Tensor, key: Tensor, value: Tensor, scaling: float) -> tuple[Tensor, Tensor]:
    """One sequence without a window: its output, and its log-sum-exp."""
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


def _windows(query: Tensor, key: Tensor, value: Tensor, scaling: float, band: Tensor) -> list[Part]:
    """One sequence with a sliding window, in blocks of queries that share one band of keys."""
    window, width = band.shape
    past = len(key) - len(query)
    parts: list[Part] = []
    for begin in range(0, len(query), window):
        end = min(begin + window, len(query))
        first = past + begin - window + 1
        # Blocks at the beginning have fewer keys than the band has columns.
        mask = band[: end - begin, max(0, -first) : width - window + end - begin]
        keys = slice(max(0, first), past + end)
        parts.append((begin, end, *_flash(query[begin:end], key[keys], value[keys], scaling, mask)))
    return parts


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
) -> tuple[Tensor, Tensor]:
    """The output of one sequence, [queries, heads, width], and its log-sum-exp [heads, queries]."""
    out, lse = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
        *(states.transpose(0, 1).unsqueeze(0) for states in (query, key, value)),
        0.0,
        causal,
        attn_mask=mask,
        scale=scaling,
    )
    return out.squeeze(0).transpose(0, 1), lse.squeeze(0)


def plain(batch: Batch, sinks: Tensor) -> Tensor:
    """The same as `attend`, by the definition and in float32: a slow reference."""
    groups = batch.query.shape[1] // batch.key.shape[1]
    starts_q, starts_k = batch.ends_q.tolist(), batch.ends_k.tolist()
    outs = []
    for place in range(len(starts_q) - 1):
        queries = batch.query[starts_q[place] : starts_q[place + 1]].float().transpose(0, 1)
        keys, values = (
            states[starts_k[place] : starts_k[place + 1]]
            .float()
            .transpose(0, 1)
            .repeat_interleave(groups, 0)
            for states in (batch.key, batch.value)
        )
        scores = queries @ keys.transpose(1, 2) * batch.scaling
        past = keys.shape[1] - queries.shape[1]
        visible = torch.ones(scores.shape[1:], dtype=torch.bool, device=scores.device).tril(past)
        if batch.window is not None:
            visible = visible.triu(past - batch.window + 1)
        scores.masked_fill_(~visible, -torch.inf)
        column = sinks.float().view(-1, 1, 1).expand(-1, scores.shape[1], 1)
        weights = torch.cat([scores, column], -1).softmax(-1)[..., :-1]
        outs.append((weights @ values).transpose(0, 1))
    return torch.cat(outs)


def works(config: Any, dtype: torch.dtype, device: torch.device) -> bool:
    """Whether `attend` computes correct results on `device`. Logs the reason if not.

    config: the configuration of the model, for the numbers of heads. The cases are sequences in
    decode and in prefill, with and without keys before them, with and without a window.
    """
    try:
        error = max(
            _error(config, dtype, device, cases, window)
            for cases in (_CHECKED, _CHECKED_DECODE, _CHECKED_EQUAL)
            for window in (None, _WINDOW)
        )
    except Exception as failure:  # operators raise errors of any type
        logger.warning("attention by flash kernels is not available on %s: %s", device, failure)
        return False
    bound = 1e-4 if dtype == torch.float32 else 4e-2
    if not error < bound:
        logger.warning("flash attention has an error of %g on %s and is not used", error, device)
        return False
    return True


def _error(
    config: Any,
    dtype: torch.dtype,
    device: torch.device,
    cases: tuple[tuple[int, int], ...],
    window: int | None,
) -> float:
    """The maximum difference from `plain`. cases: (queries, keys before them) of each sequence."""
    generator = torch.Generator().manual_seed(0)

    def noise(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator).to(device, dtype)

    pasts = [past if window is None else min(past, window - 1) for _, past in cases]
    lengths_q = torch.tensor([0] + [queries for queries, _ in cases])
    lengths_k = lengths_q + torch.tensor([0, *pasts])
    ends_q, ends_k = (ends.cumsum(0).to(device, torch.int32) for ends in (lengths_q, lengths_k))
    query = noise(int(ends_q[-1]), config.num_attention_heads, config.head_dim)
    shape = (int(ends_k[-1]), config.num_key_value_heads, config.head_dim)
    key, value, sinks = noise(*shape), noise(*shape), noise(config.num_attention_heads)
    longest = int(lengths_q.max()), int(lengths_k.max())
    scaling = config.head_dim**-0.5
    batch = Batch(query, key, value, ends_q, ends_k, *longest, scaling, window)
    return float((attend(batch, sinks).float() - plain(batch, sinks)).abs().max())


AttentionInterface.register(NAME, paged_attention)
