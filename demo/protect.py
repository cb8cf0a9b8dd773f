"""Keeps training from undoing the routing heads before the rest has learned to use them.

At first the heads' votes are noise wherever no function is named, and training would rather silence
them than aim them. So their weights stay as they are, but for the lanes by which they tell whether
a name stands or is to be said, and nothing else learns to write to their channel.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from demo.embedding import Rows
from demo.model import Body, Layer

SPEAKING, GATHERING, MATCHING = 1, 2, 3
"""The layers whose last group of heads tells who speaks, gathers topics, and compares them."""

SET_BY_HAND = (SPEAKING, GATHERING)
"""The layers whose last group of heads stays whole. Of the one that compares, only what it compares
by stays, and what it copies."""

COMPARED = torch.cat((torch.arange(20, 30), torch.arange(52, 62)))
"""The lanes of a head in which topics are compared: rotary pairs that hardly turn."""


def outside(channel: Tensor) -> Tensor:
    """The projection (hidden, hidden) onto all directions but those of `channel` (hidden, n)."""
    return torch.eye(len(channel)) - channel @ channel.T


def taken(weights: dict[str, Tensor]) -> Tensor | None:
    """Take the channel out of packaged `weights`, orthonormal again after rounding; None if there
    is none."""
    channel = weights.pop("channel", None)
    return None if channel is None else torch.linalg.qr(channel)[0]


@contextmanager
def protected(rows: Rows, body: Body, channel: Tensor) -> Iterator[None]:
    """Undo afterwards what an update in between changes in the routing heads or their channel.

    channel: its directions in the residual stream, (hidden, n), orthonormal. Gradients are not
    changed: an optimizer that scales each component would still write to the channel.
    """
    layers = [layer for layer in body.layers if isinstance(layer, Layer)]
    parameters = (*rows.parameters(), *body.parameters())
    before: dict[Tensor, Tensor] = {
        parameter: parameter.detach().clone() for parameter in parameters
    }
    yield
    rest = outside(channel)
    with torch.no_grad():
        for parameter in _rows(rows, layers):
            parameter.copy_(before[parameter] + (parameter - before[parameter]) @ rest)
        for layer in layers[:-1]:
            layer.o.copy_(before[layer.o] + rest @ (layer.o - before[layer.o]))
        for number in (*SET_BY_HAND, MATCHING):
            layers[number].input_norm.copy_(before[layers[number].input_norm])
        for number in SET_BY_HAND:
            _restore(layers[number], torch.arange(body.shape.head_dim), before)
        _restore(layers[MATCHING], COMPARED, before)


def _rows(rows: Rows, layers: list[Layer]) -> Iterator[Tensor]:
    """What writes to the residual stream before the last layer along the last axis."""
    yield from (rows.tags, rows.deltas, rows.features, rows.spelling)
    for layer in layers[:-1]:
        yield from (layer.o_bias, layer.down, layer.down_bias)


def _restore(layer: Layer, lanes: Tensor, before: dict[Tensor, Tensor]) -> None:
    """Put back these lanes of the last group's queries and keys, and all that it copies and
    writes."""
    dim, heads = layer.shape.head_dim, layer.shape.heads // layer.shape.kv_heads
    queries = torch.cat([(layer.shape.heads - heads + head) * dim + lanes for head in range(heads)])
    keys, values = (layer.shape.kv_heads - 1) * dim + lanes, slice(-dim, None)
    for parameter, places in (
        (layer.q, queries),
        (layer.q_bias, queries),
        (layer.k, keys),
        (layer.k_bias, keys),
        (layer.v, values),
        (layer.v_bias, values),
    ):
        parameter[places] = before[parameter][places]
    layer.o[:, -heads * dim :] = before[layer.o][:, -heads * dim :]
