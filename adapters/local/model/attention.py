"""Attention with the sinks of gpt-oss, computed by flash kernels without support for sinks.

A sink is a learned score of each head that is part of the softmax and has no value. A kernel
that also returns the log-sum-exp of a query's scores therefore gives the exact result: its output
times sigmoid(log-sum-exp - sink).

On CUDA one call of torch's own flash attention computes a whole batch of sequences (Ampere or
newer, half precision). A CPU has a plan for each step (`cpu_attention`), and two kinds of kernels:
`flash`, and `products` where that is slow. The operators are not part of torch's public interface:
`works` compares them with plain attention before they are used.
"""

import logging
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from transformers.modeling_utils import AttentionInterface

from adapters.local.model import cpu_attention
from adapters.local.model.cpu_attention import Plan, Shape, make_plan
from adapters.local.model.flash import Result

logger = logging.getLogger(__name__)

NAME = "flash_with_sinks"
"""Its name in transformers, which builds and budgets no masks for names that contain "flash"."""

PLANS = "attention_plans"
"""The argument of a model on a CPU that has the plan of each kind of layers, in the order of the
cache's allocators. Without it, the cache returns the keys of all sequences, as on other devices."""

LEAST_CAPABILITY = (8, 0)
"""The minimum compute capability (major, minor) for torch's flash attention on CUDA."""

_CHECKED = ((1, 0), (1, 130), (3, 0), (150, 140), (300, 70), (40, 600))
_CHECKED_DECODE = ((1, 0), (1, 200), (1, 31))
_CHECKED_EQUAL = ((1, 150), (1, 150))
_CHECKED_FEW = ((2, 140), (4, 200), (3, 0), (9, 31), (15, 0))
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
    if kwargs.get(PLANS) is not None:
        out = _planned(module, query, key, value, scaling, cache, kwargs)
        return out.unsqueeze(0), None
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


def _planned(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    scaling: float,
    cache: Any,
    kwargs: dict[str, Any],
) -> Tensor:
    """The same as `paged_attention`, [queries, heads, width], by the plans of the step. Queries
    after those of the plan are padding, which gets zeros.
    """
    layer = module.layer_idx
    allocator = cache.layer_to_allocator[layer]
    plan: Plan = kwargs[PLANS][allocator.index]
    padding = query.shape[2] - plan.queries
    query, key, value = (
        states.squeeze(0).transpose(0, 1)[: plan.queries] for states in (query, key, value)
    )
    allocator.write(key, value, layer, kwargs["write_index"][allocator.index])
    if plan.from_cache:
        key, value = allocator.rows(layer)
    out = with_sinks(*cpu_attention.attend(plan, query, key, value, scaling), module.sinks)
    return functional.pad(out, (0, 0, 0, 0, 0, padding)) if padding else out


def attend(batch: Batch, sinks: Tensor) -> Tensor:
    """Causal attention, [queries, heads, width], with the sink of each head."""
    out, lse = _on_cpu(batch) if batch.query.device.type == "cpu" else _on_cuda(batch)
    return with_sinks(out, lse, sinks)


def with_sinks(out: Tensor, lse: Tensor, sinks: Tensor) -> Tensor:
    """Scale `out` [queries, heads, width] in place, as if its softmax contained `sinks` [heads]."""
    weight = torch.sigmoid(lse - sinks.to(lse.dtype).unsqueeze(1))
    return out.mul_(weight.transpose(0, 1).unsqueeze(2))


def _on_cuda(batch: Batch) -> Result:
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


def _on_cpu(batch: Batch) -> Result:
    """The same as `_on_cuda`, for a CPU."""
    query, key = batch.query, batch.key
    shape = Shape(query.shape[1], key[0].numel(), query.dtype)
    queries, keys = (ends.diff().tolist() for ends in (batch.ends_q, batch.ends_k))
    plan = make_plan(queries, keys, None, shape, batch.window)
    return cpu_attention.attend(plan, query, key, batch.value, batch.scaling)


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
        errors = [
            _error(config, dtype, device, cases, window)
            for cases in (_CHECKED, _CHECKED_DECODE, _CHECKED_EQUAL, _CHECKED_FEW)
            for window in (None, _WINDOW)
        ]
    except Exception as failure:  # operators raise errors of any type
        logger.warning("attention by flash kernels is not available on %s: %s", device, failure)
        return False
    bound = 1e-4 if dtype == torch.float32 else 4e-2
    # Each by itself: a maximum ignores what is not a number.
    for error in errors:
        if not error < bound:
            logger.warning(
                "flash attention has an error of %g on %s and is not used", error, device
            )
            return False
    return True


def planned_shape(model: Any) -> Shape | None:
    """What plans for `model` depend on; None if it computes without them."""
    config = model.config
    if model.device.type != "cpu" or config._attn_implementation != NAME:
        return None
    features = config.num_key_value_heads * config.head_dim
    return Shape(config.num_attention_heads, features, model.dtype)


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
