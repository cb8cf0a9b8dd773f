"""Greedy decoding of many prompts at once, for the evaluation; the same mathematics as training."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from demo.model import Body, Layer, attention, rms_norm, rope_tables
from harmony import vocab

_STOPS = torch.tensor(sorted(vocab.STOP_TOKENS))
_LONGEST = 4096


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
        self.body = body
        self.embeddings = embeddings
        self.outputs = outputs
        self.tables = rope_tables(body.shape, _LONGEST)

    @torch.inference_mode()
    def greedy(self, prompts: Sequence[Sequence[int]], most: int) -> list[list[int]]:
        """Each prompt's continuation, up to and with its stop token, of at most `most` ids."""
        outputs: list[list[int]] = [[] for _ in prompts]
        rows = self._prefill(prompts, most)
        while True:
            for index, token in zip(rows.index.tolist(), rows.last.tolist(), strict=True):
                outputs[index].append(token)
            going = ~torch.isin(rows.last, _STOPS)
            if not going.any() or len(outputs[int(rows.index[going][0])]) >= most:
                return outputs
            rows.keep(going.nonzero()[:, 0])
            self._step(rows)

    def _prefill(self, prompts: Sequence[Sequence[int]], most: int) -> _Rows:
        lengths = torch.tensor([len(prompt) for prompt in prompts])
        batch, longest = len(prompts), int(lengths.max())
        ids = torch.zeros(batch, longest, dtype=torch.long)
        for row, prompt in enumerate(prompts):
            ids[row, : len(prompt)] = torch.tensor(prompt)
        x = self.embeddings[ids.view(-1)]
        cos, sin = (t[:longest].to(x.dtype).repeat(batch, 1)[:, None] for t in self.tables)
        keys, values = [], []
        for layer in self._layers():
            q, k, v = (
                part.view(batch, longest, -1, self.body.shape.head_dim)
                for part in layer.project(x, cos, sin)
            )
            scale = self.body.shape.head_dim**-0.5
            out = attention(q, k, v, layer.sinks.float(), layer.window, scale)
            x = layer.finish(x, out.reshape(batch * longest, -1))
            room = (0, 0, 0, 0, 0, most)
            keys.append(F.pad(k, room))
            values.append(F.pad(v, room))
        last = x.view(batch, longest, -1)[torch.arange(batch), lengths - 1]
        return _Rows(torch.arange(batch), keys, values, lengths, self._pick(last))

    def _step(self, rows: _Rows) -> None:
        x = self.embeddings[rows.last]
        at = rows.lengths
        cos, sin = (table[at].to(x.dtype)[:, None] for table in self.tables)
        here = torch.arange(len(at))
        distance = at[:, None] - torch.arange(int(at.max()) + 1)
        for number, layer in enumerate(self._layers()):
            q, k, v = layer.project(x, cos, sin)
            keys, values = rows.keys[number], rows.values[number]
            keys[here, at], values[here, at] = k, v
            size = distance.shape[1]
            out = _attend(layer, q, keys[:, :size], values[:, :size], distance)
            x = layer.finish(x, out)
        rows.lengths = at + 1
        rows.last = self._pick(x)

    def _pick(self, x: Tensor) -> Tensor:
        # max, not argmax: on a CPU five times as fast
        normed = rms_norm(x, self.body.norm, self.body.shape.eps)
        return F.linear(normed, self.outputs).max(-1).indices

    def _layers(self) -> list[Layer]:
        return [layer for layer in self.body.layers if isinstance(layer, Layer)]


def _attend(layer: Layer, q: Tensor, keys: Tensor, values: Tensor, distance: Tensor) -> Tensor:
    """One query a row, q (b, heads, d), on caches (b, t, kv, d); returns (b, heads * d)."""
    shape = layer.shape
    hidden = distance < 0
    if layer.window is not None:
        hidden |= distance >= layer.window
    grouped = q.view(len(q), shape.kv_heads, -1, shape.head_dim)
    scores = torch.einsum("bkgd,btkd->bkgt", grouped, keys).float() * shape.head_dim**-0.5
    scores = scores.masked_fill(hidden[:, None, None], -1e9)
    sink = layer.sinks.float().view(1, shape.kv_heads, -1, 1).expand(len(q), -1, -1, 1)
    share = torch.cat((scores, sink), dim=-1).softmax(-1)[..., :-1].to(values.dtype)
    return torch.einsum("bkgt,btkd->bkgd", share, values).reshape(len(q), -1)
