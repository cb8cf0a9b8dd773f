"""How a token is chosen from logits. Pure functions over rows; no row's result depends on others.

Order as in vLLM: penalties and bias on the raw logits, temperature, min_p, top_k, top_p. What is
kept is always "at least as likely as a floor", so equally likely tokens stay or go together.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from adapters.base import SamplingParams

_BLOCK = 128
_MASK = (1 << 64) - 1


def uniform(seed: int, position: int, attempt: int = 0) -> float:
    """A number in [0, 1) that depends on its arguments alone (a counter-based generator).

    seed: any integer; position: of the token among the sampled ones; attempt: distinguishes the
    draws for one position. Source of the mixing: splitmix64's finaliser.
    """
    state = seed & _MASK
    for counter in (position, attempt):
        state = _mix((state + (counter + 1) * 0x9E3779B97F4A7C15) & _MASK)
    return (_mix(state) >> 11) * 2.0**-53


def _mix(state: int) -> int:
    state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & _MASK
    return state ^ (state >> 31)


@dataclass(frozen=True, slots=True)
class Warp:
    """The parameters of n rows that shape a distribution, each of shape [n, 1]; None where unused.

    temperature > 0; min_p in [0, 1]; top_k >= 0, 0 is off; top_p in (0, 1].
    """

    temperature: Tensor | None
    min_p: Tensor | None
    top_k: Tensor | None
    top_p: Tensor | None


def warp_of(params: list[SamplingParams], device: torch.device) -> Warp:
    """The rows' parameters as columns; what is at its default in all rows costs nothing."""

    def column(values: list[float], default: float, dtype: torch.dtype) -> Tensor | None:
        if all(value == default for value in values):
            return None
        return torch.tensor(values, dtype=dtype, device=device).unsqueeze(1)

    return Warp(
        column([p.temperature for p in params], 1.0, torch.float32),
        column([p.min_p for p in params], 0.0, torch.float32),
        column([p.top_k for p in params], 0, torch.int64),
        column([p.top_p for p in params], 1.0, torch.float64),
    )


def greedy(logits: Tensor) -> Tensor:
    """The likeliest column of each row, [n]; -1 where the row holds NaN or only -inf."""
    chosen = logits.argmax(-1)
    best = logits.gather(1, chosen.unsqueeze(1)).squeeze(1)
    return torch.where(best > -torch.inf, chosen, -1)


def draw(logits: Tensor, warp: Warp, uniforms: Tensor) -> Tensor:
    """One column for each row of `logits` [n, width], drawn by inverting the distribution.

    uniforms: [n] of float64 in [0, 1). Result [n]; -1 where a row holds NaN or only -inf.
    """
    if warp.temperature is not None:
        # Shifted by the maximum first: a tiny temperature must not overflow to two infinities.
        logits = (logits - logits.max(-1, keepdim=True).values) / warp.temperature
    probs = torch.softmax(logits, -1)
    _truncate(probs, warp)
    return _invert(probs, uniforms)


def _truncate(probs: Tensor, warp: Warp) -> None:
    """Zero, in place, what min_p, top_k and top_p exclude."""
    if warp.min_p is not None:
        probs.masked_fill_(probs < warp.min_p * probs.max(-1, keepdim=True).values, 0.0)
    if warp.top_k is None and warp.top_p is None:
        return
    ranked = _descending(probs)
    if warp.top_k is not None:
        last = torch.where(warp.top_k > 0, warp.top_k, probs.shape[-1]).clamp(max=probs.shape[-1])
        floor = ranked.gather(1, last - 1)
        probs.masked_fill_(probs < floor, 0.0)
        ranked.masked_fill_(ranked < floor, 0.0)
    if warp.top_p is not None:
        reached = ranked.cumsum(-1, dtype=torch.float64)
        # The first place whose tokens so far hold top_p of what is left.
        first = torch.searchsorted(reached, warp.top_p * reached[:, -1:])
        floor = ranked.gather(1, first.clamp(max=probs.shape[-1] - 1))
        probs.masked_fill_(probs < torch.where(warp.top_p < 1, floor, 0.0), 0.0)


def _descending(probs: Tensor) -> Tensor:
    if probs.device.type == "cpu":
        # Ten times faster than torch's sort, which carries the indices along.
        return torch.from_numpy(-np.sort(-probs.numpy(), axis=-1))
    return probs.sort(-1, descending=True).values


def _invert(probs: Tensor, uniforms: Tensor) -> Tensor:
    """The column at which the running sum of `probs` passes `uniforms` of the total.

    Two levels, blocks and then a block's columns: sums stay exact enough in float64, and nothing
    of the vocabulary's width is accumulated.
    """
    width = probs.shape[-1]
    if width % _BLOCK:
        probs = functional.pad(probs, (0, -width % _BLOCK))
    blocks = probs.view(len(probs), -1, _BLOCK)
    mass = blocks.sum(-1).double()
    block, rest = _locate(mass, uniforms.unsqueeze(1))
    inside = blocks.gather(1, block.unsqueeze(2).expand(-1, 1, _BLOCK)).squeeze(1).double()
    column, _ = _locate(inside, rest)
    total = mass.sum(-1)
    chosen = (block * _BLOCK + column).squeeze(1)
    return torch.where(torch.isfinite(total) & (total > 0), chosen, -1)


def _locate(mass: Tensor, uniforms: Tensor) -> tuple[Tensor, Tensor]:
    """Where `uniforms` [n, 1] of the total of `mass` [n, m] falls: index [n, 1], and how far in.

    Never an index whose mass is zero, unless all are.
    """
    edges = mass.cumsum(-1)
    total = edges[:, -1:]
    target = torch.minimum(uniforms * total, torch.nextafter(total, torch.zeros_like(total)))
    index = torch.searchsorted(edges, target, right=True).clamp(max=mass.shape[-1] - 1)
    weight = mass.gather(1, index)
    rest = (target - (edges.gather(1, index) - weight)) / weight
    return index, rest.clamp(0.0, 1.0)


@dataclass(frozen=True, slots=True)
class Tally:
    """Tokens that penalties look at: ids [m], and how often each was sampled [m] (prompt: 0)."""

    ids: Tensor
    counts: Tensor


def penalise(logits: Tensor, params: SamplingParams, tally: Tally) -> None:
    """Apply the repetition, frequency and presence penalties to one row [width], in place."""
    values = logits[tally.ids]
    if params.repetition_penalty != 1.0:
        penalty = params.repetition_penalty
        values = torch.where(values > 0, values / penalty, values * penalty)
    values = values - params.frequency_penalty * tally.counts
    values = values - params.presence_penalty * (tally.counts > 0)
    logits[tally.ids] = values


def log_probabilities(logits: Tensor, top: int) -> tuple[Tensor, list[tuple[int, float]]]:
    """One row's log-softmax [width], and its `top` likeliest (id, logprob), best first."""
    logprobs = torch.log_softmax(logits, -1)
    values, ids = logprobs.topk(top)
    return logprobs, list(zip(ids.tolist(), values.tolist(), strict=True))
