"""Causal attention with the sinks of gpt-oss, and its gradient, for training.

On a CPU rows of one length are computed block by block, with a hand-written gradient. On CUDA a
row packed with sequences of any length goes through torch's flash attention.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

BLOCK = 128


def _probabilities(scores: Tensor, mask: Tensor, sink: Tensor) -> Tensor:
    wide = scores.float() + mask
    peak = torch.maximum(wide.amax(-1, keepdim=True), sink)
    powers = torch.exp(wide - peak)
    total = powers.sum(-1, keepdim=True) + torch.exp(sink - peak)
    return (powers / total).to(scores.dtype)


def _score_gradient(probabilities: Tensor, gradient: Tensor, dot: Tensor) -> Tensor:
    return (probabilities.float() * (gradient.float() - dot)).to(probabilities.dtype)


class _BlockAttention(torch.autograd.Function):
    """softmax(q k / scale, sink) v for one block of queries, by batched matrix products.

    q (n, r, d) already scaled, k and v (n, c, d), mask (r, c) additive, sink (n, r, 1) logits.
    """

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, mask: Tensor, sink: Tensor) -> Tensor:
        probabilities = Kernels.probabilities(torch.bmm(q, k.transpose(1, 2)), mask, sink)
        out = torch.bmm(probabilities, v)
        ctx.save_for_backward(q, k, v, probabilities, out)
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, probabilities, out = ctx.saved_tensors
        gradient = gradients[0]
        dot = (gradient.float() * out.float()).sum(-1, keepdim=True)
        d_prob = torch.bmm(gradient, v.transpose(1, 2))
        d_score = Kernels.score_gradient(probabilities, d_prob, dot)
        d_v = torch.bmm(probabilities.transpose(1, 2), gradient)
        d_sink = -(1 - probabilities.float().sum(-1, keepdim=True)) * dot
        return torch.bmm(d_score, k), torch.bmm(d_score.transpose(1, 2), q), d_v, None, d_sink


def _with_sinks(out: Tensor, lse: Tensor, sinks: Tensor) -> tuple[Tensor, Tensor]:
    """The output (l, heads, d) as if the softmax had the sinks (heads,) in it, and the log-sum-exp
    (heads, l) with them."""
    total = torch.logaddexp(lse, sinks.float()[:, None])
    return (out * torch.exp(lse - total).T[:, :, None]).to(out.dtype), total


def _sink_gradient(gradient: Tensor, out: Tensor, total: Tensor, sinks: Tensor) -> Tensor:
    dot = (gradient.float() * out.float()).sum(-1)
    return -(torch.exp(sinks.float()[:, None] - total).T * dot).sum(0).to(sinks.dtype)


class Kernels:
    """The element-wise parts, as plain functions or compiled ones (`Kernels.compile`)."""

    probabilities: Callable[..., Tensor] = staticmethod(_probabilities)
    score_gradient: Callable[..., Tensor] = staticmethod(_score_gradient)
    with_sinks: Callable[..., tuple[Tensor, Tensor]] = staticmethod(_with_sinks)
    sink_gradient: Callable[..., Tensor] = staticmethod(_sink_gradient)

    @classmethod
    def compile(cls) -> None:
        """Compile them; those for a CPU for tensors of any size."""
        cls.probabilities = staticmethod(torch.compile(_probabilities, dynamic=True))
        cls.score_gradient = staticmethod(torch.compile(_score_gradient, dynamic=True))
        cls.with_sinks = staticmethod(torch.compile(_with_sinks))
        cls.sink_gradient = staticmethod(torch.compile(_sink_gradient))


def attention(
    q: Tensor, k: Tensor, v: Tensor, sinks: Tensor, window: int | None, scale: float
) -> Tensor:
    """Causal attention with sinks: q (b, l, heads, d), k and v (b, l, kv, d), sinks (heads,).

    Returns (b, l, heads, d). Each block of queries meets only the keys that it may see.
    """
    batch, length, heads, dim = q.shape
    kv = k.shape[2]
    group = heads // kv
    grouped = (q * scale).view(batch, length, kv, group, dim).permute(0, 2, 3, 1, 4)
    keys = k.transpose(1, 2).reshape(batch * kv, length, dim)
    values = v.transpose(1, 2).reshape(batch * kv, length, dim)
    parts = []
    for start in range(0, length, BLOCK):
        stop = min(start + BLOCK, length)
        first = 0 if window is None else max(0, start - window + 1) // 32 * 32
        rows = stop - start
        at = torch.arange(start, stop)[:, None] - torch.arange(first, stop)[None]
        hidden = (at < 0) if window is None else (at < 0) | (at >= window)
        mask = torch.zeros(rows, stop - first).masked_fill_(hidden, -1e9).repeat(group, 1)
        sink = sinks.view(1, kv, group, 1).expand(batch, kv, group, rows)
        part = _BlockAttention.apply(  # type: ignore[no-untyped-call]
            grouped[:, :, :, start:stop].reshape(batch * kv, group * rows, dim),
            keys[:, first:stop],
            values[:, first:stop],
            mask,
            sink.reshape(batch * kv, group * rows, 1),
        )
        parts.append(part.view(batch, kv, group, rows, dim))
    joined = torch.cat(parts, dim=3)
    return joined.permute(0, 3, 1, 2, 4).reshape(batch, length, heads, dim)


@dataclass(frozen=True, slots=True)
class Packed:
    """Where the sequences of one row begin: `starts` int32 (sequences + 1), the last one the row's
    end. longest: at least the length of each."""

    starts: Tensor
    longest: int

    def places(self, length: int) -> Tensor:
        """The place of each of the row's `length` tokens in its sequence, from 0."""
        at = torch.arange(length, dtype=torch.int32, device=self.starts.device)
        sequence = torch.searchsorted(self.starts, at, right=True) - 1
        return at - self.starts[sequence]


def packed_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    sinks: Tensor,
    packed: Packed,
    window: int | None,
    scale: float,
) -> Tensor:
    """As `attention`, for one row of several sequences: q (l, heads, d), k and v (l, kv, d).

    Returns (l, heads, d). On CUDA the tensors have to be float16 or bfloat16.
    """
    if q.is_cuda:
        out: Tensor = _FlashAttention.apply(  # type: ignore[no-untyped-call]
            q, k, v, sinks, packed, window, scale
        )
        return out
    starts = packed.starts.tolist()
    spans = [slice(*ends) for ends in pairwise(starts) if ends[0] < ends[1]]
    return torch.cat(
        [attention(q[None, s], k[None, s], v[None, s], sinks, window, scale)[0] for s in spans]
    )


class _FlashAttention(torch.autograd.Function):
    """Flash attention knows no sinks, but returns the log-sum-exp of each query's scores.

    With the sink added to that, the output is a fraction of what the kernel returned; and the
    kernel of the gradient, which computes the probabilities anew from the log-sum-exp it is given,
    is exact as it is.
    """

    @staticmethod
    def forward(
        ctx: Any,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        sinks: Tensor,
        packed: Packed,
        window: int | None,
        scale: float,
    ) -> Any:
        ctx.options = {
            "scale": scale,
            "window_size_left": None if window is None else window - 1,
            "window_size_right": None if window is None else 0,
        }
        ctx.packed = packed
        out, lse, state, unused, _ = torch.ops.aten._flash_attention_forward(
            q, k, v, *_lengths(packed), 0.0, True, False, **ctx.options
        )
        out, total = Kernels.with_sinks(out, lse, sinks)
        ctx.save_for_backward(q, k, v, out, total, sinks, state, unused)
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, out, total, sinks, state, unused = ctx.saved_tensors
        gradient = gradients[0].contiguous()
        d_q, d_k, d_v = torch.ops.aten._flash_attention_backward(
            gradient,
            *(q, k, v, out, total),
            *_lengths(ctx.packed),
            *(0.0, True, state, unused),
            **ctx.options,
        )
        d_sinks = Kernels.sink_gradient(gradient, out, total, sinks)
        return d_q, d_k, d_v, d_sinks, None, None, None


def _lengths(packed: Packed) -> tuple[Tensor, Tensor, int, int]:
    return packed.starts, packed.starts, packed.longest, packed.longest
