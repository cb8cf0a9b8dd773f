"""Chooses tokens from logits. Pure functions over rows; no row affects the result of another.

The order is that of vLLM: bias and penalties on the raw logits, temperature, min_p, top_k, top_p.
min_p, top_k and top_p exclude the tokens below a probability, so that equally likely tokens are
either all excluded or all included.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from adapters.base import SamplingParams

_BLOCK = 128
# The number of most likely tokens to sort first; usually they include all that top_p includes.
_LEADING = 1024
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

    def row(self, index: int) -> "Warp":
        """The parameters of one row, each of shape [1, 1]."""
        columns = (self.temperature, self.min_p, self.top_k, self.top_p)
        return Warp(*(None if each is None else each[index : index + 1] for each in columns))


def warp_of(params: list[SamplingParams], device: torch.device) -> Warp:
    """The parameters of the rows as columns, None for a parameter with its default in all rows."""

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
    """The most likely column of each row, [n]; -1 for a row of -inf, or with NaN."""
    if logits.device.type == "cpu":  # numpy is ten times faster than torch there
        chosen = torch.from_numpy(logits.numpy().argmax(-1))
    else:
        chosen = logits.argmax(-1)
    best = logits.gather(1, chosen.unsqueeze(1)).squeeze(1)
    return torch.where(best > -torch.inf, chosen, -1)


def draw(logits: Tensor, warp: Warp, uniforms: Tensor, out: Tensor | None = None) -> Tensor:
    """One column for each row of `logits` [n, width], drawn by inverting the distribution.

    uniforms: [n, m] of float64 in [0, 1): a number for each draw of a row, should min_p,
    top_k or top_p exclude what was drawn. out: memory for the probabilities, [n, width]; may be
    `logits` itself. Result: [n]; -1 for a row with NaN, or with only -inf.
    """
    if warp.temperature is not None:
        # Subtract the maximum first, so that a tiny temperature overflows to -inf only.
        logits = torch.sub(logits, logits.max(-1, keepdim=True).values, out=out)
        logits.div_(warp.temperature)
    probs = torch.softmax(logits, -1, out=out)
    if probs.device.type != "cpu":
        _truncate(probs, warp)
        return _invert(probs, uniforms[:, 0])[0]
    # To test one column takes a pass over the row, to find all that remain takes a sort. A column
    # that is drawn from the whole row and remains has the same distribution as one that is drawn
    # from what remains.
    chosen, totals = _invert(probs, uniforms[:, 0])
    for row in _excluded(probs, warp, chosen, totals):
        chosen[row] = _draw_again(probs[row : row + 1], warp.row(row), uniforms[row, 1:])
    return chosen


def _draw_again(probs: Tensor, warp: Warp, uniforms: Tensor) -> Tensor:
    """A column of one row [1, width], drawn until one remains; the last draw sorts the row."""
    if not _needs_sort(warp):
        for index in range(len(uniforms) - 1):
            chosen, totals = _invert(probs, uniforms[index : index + 1])
            if not _excluded(probs, warp, chosen, totals):
                return chosen[0]
    _truncate(probs, warp)
    return _invert(probs, uniforms[-1:])[0][0]


def _needs_sort(warp: Warp) -> bool:
    """Whether only a sort of a row can tell which columns remain: top_p of what top_k leaves."""
    if warp.top_k is None or warp.top_p is None:
        return False
    return bool(warp.top_k.item()) and warp.top_p.item() < 1


def _excluded(probs: Tensor, warp: Warp, columns: Tensor, totals: Tensor) -> list[int]:
    """The rows whose column may be one that min_p, top_k or top_p excludes.

    columns: [n], -1 for a row without any. totals: [n], the sums of the rows of `probs`.
    """
    if warp.min_p is None and warp.top_k is None and warp.top_p is None:
        return []
    drawn = probs.gather(1, columns.clamp(min=0).unsqueeze(1)).flatten().tolist()
    count = len(drawn)
    places = zip(
        probs,
        columns.tolist(),
        drawn,
        totals.tolist(),
        _values(warp.min_p, 0.0, count),
        _values(warp.top_k, 0, count),
        _values(warp.top_p, 1.0, count),
        strict=True,
    )
    return [
        row
        for row, (line, column, prob, total, min_p, top_k, top_p) in enumerate(places)
        if column >= 0 and not _remains(line, prob, total, min_p, int(top_k), top_p)
    ]


def _values(column: Tensor | None, default: float, count: int) -> list[float]:
    return [default] * count if column is None else column.flatten().tolist()


def _remains(
    probs: Tensor, prob: float, total: float, min_p: float, top_k: int, top_p: float
) -> bool:
    """Whether a column of probability `prob` remains in a row [width] whose sum is `total`.

    False too where only a sort can tell.
    """
    if top_k and top_p < 1:
        return False
    floor = min_p * float(probs.numpy().max()) if min_p else 0.0
    if prob < floor:
        return False
    if top_k:
        return int(np.count_nonzero(probs.numpy() > prob)) < top_k
    if top_p == 1:
        return True
    if floor:
        # `_mass_above` counts what is greater: the number before the floor includes the floor.
        total = _mass_above(probs, float(np.nextafter(np.float32(floor), np.float32(-1))))
    return _mass_above(probs, prob) < top_p * total


def _mass_above(probs: Tensor, floor: float) -> float:
    """The sum of the probabilities in a row [width] that are greater than `floor`."""
    # The fastest by far: numpy's sums with a condition take thirty times as long.
    return float(functional.threshold(probs, floor, 0.0).sum())


def _truncate(probs: Tensor, warp: Warp) -> None:
    """Set the probabilities that min_p, top_k and top_p exclude to zero, in place."""
    if warp.min_p is not None:
        probs.masked_fill_(probs < warp.min_p * probs.max(-1, keepdim=True).values, 0.0)
    if warp.top_k is None and warp.top_p is None:
        return
    ranked = _leading(probs, min(probs.shape[-1], _LEADING))
    if warp.top_k is not None:
        floor = _kth(probs, ranked, warp.top_k)
        probs.masked_fill_(probs < floor, 0.0)
    if warp.top_p is not None:
        floor = _nucleus(probs, ranked, warp.top_p)
        probs.masked_fill_(probs < floor, 0.0)


def _kth(probs: Tensor, ranked: Tensor, top_k: Tensor) -> Tensor:
    """The `top_k`-th greatest probability, [n, 1], 0 where it is off. ranked: as in `_nucleus`."""
    count = ranked.shape[-1]
    floor = torch.where(top_k > 0, ranked.gather(1, top_k.clamp(1, count) - 1), 0.0)
    # Row by row, so that one row with a large top_k costs the others little.
    for row in ((top_k > count) & (top_k < probs.shape[-1])).flatten().nonzero().flatten().tolist():
        floor[row] = _leading(probs[row : row + 1], int(top_k[row]))[0, -1]
    return torch.where(top_k < probs.shape[-1], floor, 0.0)


def _nucleus(probs: Tensor, ranked: Tensor, top_p: Tensor) -> Tensor:
    """The smallest probability that top_p includes, [n, 1], 0 where top_p is off.

    ranked: [n, m], the greatest probabilities of each row, descending.
    """
    target_mass = top_p * probs.sum(-1, keepdim=True, dtype=torch.float64)
    cumulative = ranked.cumsum(-1, dtype=torch.float64)
    first = torch.searchsorted(cumulative, target_mass).clamp(max=ranked.shape[-1] - 1)
    floor = torch.where(top_p < 1, ranked.gather(1, first), 0.0)
    if ranked.shape[-1] < probs.shape[-1]:
        # Flat distributions, row by row: one row fits the cache of the CPU, all rows do not.
        incomplete = (cumulative[:, -1:] < target_mass) & (top_p < 1)
        for row in incomplete.flatten().nonzero().flatten().tolist():
            flat = probs[row : row + 1]
            floor[row] = _nucleus(flat, _leading(flat, flat.shape[-1]), top_p[row : row + 1])[0]
    return floor


def _leading(probs: Tensor, count: int) -> Tensor:
    """The `count` greatest values of each row, descending."""
    if probs.device.type != "cpu":
        return probs.topk(count).values
    # numpy sorts ten times faster than torch, which also moves the indices.
    values = probs.numpy()
    if count < values.shape[-1]:
        values = np.partition(values, -count, axis=-1)[:, -count:]
    return torch.from_numpy(np.sort(values, axis=-1)[:, ::-1].copy())


def _invert(probs: Tensor, uniforms: Tensor) -> tuple[Tensor, Tensor]:
    """The column at which the running sum of `probs` passes `uniforms` of the total, and the total.

    Each is of shape [n]; the column is -1 for a row with NaN, or with zeros only. Two levels,
    blocks and then a block's columns: sums stay exact enough in float64, and nothing of the
    vocabulary's width is accumulated.
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
    return torch.where(torch.isfinite(total) & (total > 0), chosen, -1), total


def _locate(mass: Tensor, uniforms: Tensor) -> tuple[Tensor, Tensor]:
    """Find the columns at the fractions `uniforms` [n, 1] of the total of `mass` [n, m].

    Result: the indices [n, 1], and the position within each, [n, 1] in [0, 1]. An index whose mass
    is zero is returned only if the whole row is zero.
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
    """Tokens to penalise. ids: [m]. counts: [m], how often each was sampled (prompt: 0)."""

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


Logprobs = tuple[float, list[tuple[int, float]]]
"""The logprob of a row's token; the ids and logprobs of its most likely tokens, best first."""


@dataclass(frozen=True, slots=True)
class Ranked:
    """logprobs: [n, width]. values, ids: [n, top], each row's most likely tokens, best first."""

    logprobs: Tensor
    values: Tensor
    ids: Tensor


def rank(logits: Tensor, top: int) -> Ranked:
    """The log-softmax of each row of `logits` [n, width]. Does not wait for the device."""
    logprobs = torch.log_softmax(logits, -1)
    values, ids = logprobs.topk(top)
    return Ranked(logprobs, values, ids)


def logprobs_of(ranked: Ranked, tokens: list[int], tops: list[int]) -> list[Logprobs]:
    """The logprobs of `tokens` and of the `tops` most likely tokens, for each row.

    All of them are copied from the device at once.
    """
    chosen = torch.tensor(tokens, device=ranked.logprobs.device).unsqueeze(1)
    own = ranked.logprobs.gather(1, chosen)
    # Ids are exact in float32 up to 16 million.
    table = torch.cat([own, ranked.values, ranked.ids.to(own.dtype)], 1).tolist()
    results: list[Logprobs] = []
    width = ranked.values.shape[1]
    for line, top in zip(table, tops, strict=True):
        ids = map(int, line[width + 1 : width + 1 + top])
        results.append((line[0], list(zip(ids, line[1 : top + 1], strict=True))))
    return results


def unpack(bits: NDArray[np.int32], width: int, device: torch.device) -> Tensor:
    """The first `width` bits of each row of `bits` [n, words] as booleans [n, width].

    The packed bits are copied to the device, and unpacked there.
    """
    if device.type == "cpu":  # numpy takes a tenth of the time of torch there
        octets = np.unpackbits(bits.view(np.uint8), axis=1, count=width, bitorder="little")
        return torch.from_numpy(octets.view(bool))
    words = torch.from_numpy(bits).to(device).unsqueeze(2)
    shifts = torch.arange(32, dtype=torch.int32, device=device)
    flags = words.bitwise_right_shift(shifts).bitwise_and_(1)
    return flags.view(len(bits), -1)[:, :width].bool()
