"""Decoding of many prompts at once, for the evaluation; the same mathematics as training."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from demo.attention import attention
from demo.model import PRODUCTS, Body, Layer, rms_norm, rope_tables
from demo.weights import SHARPNESS
from harmony import vocab

_STOPS = torch.tensor(sorted(vocab.STOP_TOKENS))
_LONGEST = 4096
_BLOCK = 64
# The exponential of less than this is slow: it is not a normal float32.
_NEVER = -60.0

Pick = Callable[[Tensor], Tensor]
"""Chooses the next ids (rows) from logits (rows, vocabulary)."""


@dataclass(slots=True)
class _Rows:
    """The rows still being decoded: which prompts they are, their caches and their lengths."""

    index: Tensor
    keys: list[Tensor]
    values: list[Tensor]
    lengths: Tensor
    last: Tensor

    def keep(self, chosen: Tensor) -> None:
        self.index, self.lengths, self.last = (
            part[chosen] for part in (self.index, self.lengths, self.last)
        )
        self.keys = [cache[chosen] for cache in self.keys]
        self.values = [cache[chosen] for cache in self.values]


class Decoder:
    """A model with both whole vocabulary matrices, (vocabulary, hidden) each."""

    def __init__(self, body: Body, embeddings: Tensor, outputs: Tensor) -> None:
        self.body = body.to(PRODUCTS)
        self.embeddings = embeddings.to(PRODUCTS)
        self.outputs = outputs.to(PRODUCTS)
        self.tables = rope_tables(body.shape, _LONGEST)

    def greedy(self, prompts: Sequence[Sequence[int]], most: int) -> list[list[int]]:
        """Each prompt's continuation, up to and with its stop token, of at most `most` ids."""
        # max, not argmax: on a CPU five times as fast
        return self._continue(prompts, most, lambda logits: logits.max(-1).indices)

    def sample(
        self, prompts: Sequence[Sequence[int]], most: int, generator: torch.Generator
    ) -> list[list[int]]:
        """As `greedy`, but sampled as a server does at temperature 1 and top_p 1."""
        return self._continue(prompts, most, lambda logits: sampled(logits, generator))

    def among(
        self, prompts: Sequence[Sequence[int]], candidates: Sequence[Sequence[int]]
    ) -> list[int]:
        """The most likely next id of each prompt among its candidates."""

        def pick(logits: Tensor) -> Tensor:
            best = [
                max(ids, key=row.__getitem__) for row, ids in zip(logits, candidates, strict=True)
            ]
            return torch.tensor(best)

        return [ids[0] for ids in self._continue(prompts, 1, pick)]

    @torch.inference_mode()
    def _continue(self, prompts: Sequence[Sequence[int]], most: int, pick: Pick) -> list[list[int]]:
        outputs: list[list[int]] = [[] for _ in prompts]
        rows = self._prefill(prompts, most, pick)
        while True:
            for index, token in zip(rows.index.tolist(), rows.last.tolist(), strict=True):
                outputs[index].append(token)
            going = ~torch.isin(rows.last, _STOPS)
            if not going.any() or len(outputs[int(rows.index[going][0])]) >= most:
                return outputs
            if not going.all():
                rows.keep(going.nonzero()[:, 0])
            self._step(rows, pick)

    def _prefill(self, prompts: Sequence[Sequence[int]], most: int, pick: Pick) -> _Rows:
        lengths = torch.tensor([len(prompt) for prompt in prompts])
        batch, longest = len(prompts), int(lengths.max())
        ids = torch.zeros(batch, longest, dtype=torch.long)
        for row, prompt in enumerate(prompts):
            ids[row, : len(prompt)] = torch.tensor(prompt)
        x = self.embeddings[ids.view(-1)]
        cos, sin = (t[:longest].to(x.dtype).repeat(batch, 1)[:, None] for t in self.tables)
        keys, values = [], []
        for layer in self.body.typed_layers():
            q, k, v = (
                part.view(batch, longest, -1, self.body.shape.head_dim)
                for part in layer.project(x, cos, sin)
            )
            scale = self.body.shape.head_dim**-0.5
            out = attention(q, k, v, layer.sinks.float(), layer.window, scale)
            x = layer.finish(x, out.reshape(batch * longest, -1))
            room = (0, 0, 0, _whole_blocks(longest + most) - longest)
            keys.append(F.pad(k.transpose(1, 2), room))
            values.append(F.pad(v.transpose(1, 2), room))
        last = x.view(batch, longest, -1)[torch.arange(batch), lengths - 1]
        return _Rows(torch.arange(batch), keys, values, lengths, pick(self._logits(last)))

    def _step(self, rows: _Rows, pick: Pick) -> None:
        x = self.embeddings[rows.last]
        at = rows.lengths
        cos, sin = (table[at].to(x.dtype)[:, None] for table in self.tables)
        here = torch.arange(len(at))
        for number, layer in enumerate(self.body.typed_layers()):
            q, k, v = layer.project(x, cos, sin)
            keys, values = rows.keys[number], rows.values[number]
            keys[here, :, at], values[here, :, at] = k, v
            x = layer.finish(x, _attend(layer, q, keys, values, at))
        rows.lengths = at + 1
        rows.last = pick(self._logits(x))

    def _logits(self, x: Tensor) -> Tensor:
        return F.linear(rms_norm(x, self.body.norm, self.body.shape.eps), self.outputs)


def sampled(logits: Tensor, generator: torch.Generator) -> Tensor:
    """Ids (rows) drawn at temperature 1 from the logits that a checkpoint has: sharper than these.

    A block of tokens is drawn first, then one in it: so no sum is over the whole vocabulary, which
    float32 could not hold exactly enough.
    """
    sharp = logits.float() * SHARPNESS
    differences = (sharp - sharp.amax(-1, keepdim=True)).clamp(min=_NEVER)
    chances = F.pad(differences.exp(), (0, -logits.shape[-1] % _BLOCK))
    blocks = chances.unflatten(-1, (-1, _BLOCK))
    block = _one(blocks.sum(-1), generator)
    return block * _BLOCK + _one(blocks[torch.arange(len(block)), block], generator)


def _one(shares: Tensor, generator: torch.Generator) -> Tensor:
    sums = shares.double().cumsum(-1)
    point = torch.rand(len(sums), 1, generator=generator, dtype=torch.float64) * sums[:, -1:]
    return torch.searchsorted(sums, point, right=True)[:, 0]


def _whole_blocks(size: int) -> int:
    """At least `size`. Kernels are compiled for each size: there should be few."""
    return -(-size // _BLOCK) * _BLOCK


def _attend(layer: Layer, q: Tensor, keys: Tensor, values: Tensor, at: Tensor) -> Tensor:
    """One query a row, q (b, heads, d) at the places `at`, on caches (b, kv, t, d).

    Returns (b, heads * d).
    """
    shape, size = layer.shape, _whole_blocks(int(at.max()) + 1)
    if layer.window is not None and layer.window < size:
        seen = at[:, None] - torch.arange(layer.window)
        place = torch.arange(len(q))[:, None], slice(None), seen.clamp(min=0)
        keys, values = (cache[place].transpose(1, 2) for cache in (keys, values))
        hidden = seen < 0
    else:
        keys, values = keys[:, :, :size], values[:, :, :size]
        hidden = torch.arange(keys.shape[2]) > at[:, None]
    grouped = q.view(len(q), shape.kv_heads, -1, shape.head_dim)
    scores = (keys @ grouped.transpose(-1, -2)).transpose(-1, -2).float() * shape.head_dim**-0.5
    scores = scores.masked_fill(hidden[:, None, None], -1e9)
    sink = layer.sinks.float().view(1, shape.kv_heads, -1, 1).expand(len(q), -1, -1, 1)
    share = torch.cat((scores, sink), dim=-1).softmax(-1)[..., :-1].to(values.dtype)
    return (share @ values).reshape(len(q), -1)
