"""Keeps training from undoing the routing heads before the rest has learned to use them.

At first the heads' votes are noise wherever no function is named, and training would rather silence
them than aim them. So their weights stay as they are, but for the lanes by which they tell whether
a name stands or is to be said; and nothing else learns to read their channel, or to write to it.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from demo.embedding import Rows
from demo.model import Body, Layer

SET_BY_HAND = ((1, 3), (2, 2))
"""The layers and groups of key-value heads that stay whole."""

MATCHING = (3, 3)
"""The group that compares topics: only what it compares by stays, and what it writes."""

COMPARED = torch.cat((torch.arange(20, 32), torch.arange(52, 64)))
"""The lanes of a head in which topics are compared: rotary pairs that hardly turn."""


def outside(channel: Tensor) -> Tensor:
    """The projection (hidden, hidden) onto all directions but those of `channel` (hidden, n)."""
    return torch.eye(len(channel)) - channel @ channel.T


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
        for parameter in _columns(layers):
            parameter.copy_(before[parameter] + rest @ (parameter - before[parameter]))
        for number, group in SET_BY_HAND:
            _restore(layers[number], group, torch.arange(body.shape.head_dim), before)
        _restore(layers[MATCHING[0]], MATCHING[1], COMPARED, before)


def _rows(rows: Rows, layers: list[Layer]) -> Iterator[Tensor]:
    """What reads the residual stream, or writes to it, along the last axis."""
    yield from (rows.tags, rows.deltas, rows.features, rows.spelling)
    for layer in layers:
        yield from (layer.q, layer.k, layer.v, layer.router)
    for layer in layers[:-1]:
        yield from (layer.o_bias, layer.down, layer.down_bias)


def _columns(layers: list[Layer]) -> Iterator[Tensor]:
    """What does so along the axis before the last."""
    for layer in layers:
        yield from (layer.gate, layer.up)
    for layer in layers[:-1]:
        yield layer.o


def _restore(layer: Layer, group: int, lanes: Tensor, before: dict[Tensor, Tensor]) -> None:
    """Put back these lanes of a group's queries and keys, and all that it copies and writes."""
    dim, heads = layer.shape.head_dim, layer.shape.heads // layer.shape.kv_heads
    queries = torch.cat([(group * heads + head) * dim + lanes for head in range(heads)])
    keys, values = group * dim + lanes, slice(group * dim, (group + 1) * dim)
    for parameter, places in (
        (layer.q, queries),
        (layer.q_bias, queries),
        (layer.k, keys),
        (layer.k_bias, keys),
        (layer.v, values),
        (layer.v_bias, values),
        (layer.sinks, slice(group * heads, (group + 1) * heads)),
    ):
        parameter[places] = before[parameter][places]
    written = slice(group * heads * dim, (group + 1) * heads * dim)
    layer.o[:, written] = before[layer.o][:, written]
