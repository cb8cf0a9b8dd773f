"""The queries, keys and values of a layer by one product, for a CPU that computes in float32.

The products of a small model are so short that most of their time is the call. One call with
float16 weights takes a third of the time of three with few tokens, and a fifth less with many.
"""

from typing import Any

import torch
from torch import Tensor, nn

from adapters.local.memory import release_pages
from adapters.local.model.packed import Float16Linear, float16_serves

_NAMES = ("q_proj", "k_proj", "v_proj")


class _Joint:
    """The three projections of an attention layer."""

    def __init__(self, layers: list[nn.Linear]) -> None:
        self._sizes = [layer.out_features for layer in layers]
        weights = torch.cat([layer.weight.detach() for layer in layers]).float()
        biases = torch.cat([layer.bias.detach() for layer in layers]).float()
        self._product = Float16Linear(weights, biases)
        self._states: Tensor | None = None
        self._parts: tuple[Tensor, ...] = ()

    def part(self, place: int, states: Tensor) -> Tensor:
        """One projection of `states`. The first call for these states computes all of them."""
        if states is not self._states:
            self._states = states
            self._parts = self._product(states).split(self._sizes, -1)
        part = self._parts[place]
        if place == len(self._sizes) - 1:  # the last one: their memory is free afterwards
            self._states, self._parts = None, ()
        return part


class _Projection(nn.Module):
    """One of the projections, in the place of a linear layer."""

    def __init__(self, joint: _Joint, place: int) -> None:
        super().__init__()
        self._joint, self._place = joint, place

    def forward(self, states: Tensor) -> Tensor:
        return self._joint.part(self._place, states)


def join_projections(model: Any) -> None:
    """Replace the projections of each layer of `model`, which will compute in float32, if their
    weights permit it. The memory of the weights is released.
    """
    attentions = [layer.self_attn for layer in model.model.layers]
    replaced = [[getattr(one, name) for name in _NAMES] for one in attentions]
    if not float16_serves([layer.weight for layers in replaced for layer in layers]):
        return
    for attention, layers in zip(attentions, replaced, strict=True):
        joint = _Joint(layers)
        for place, (name, layer) in enumerate(zip(_NAMES, layers, strict=True)):
            setattr(attention, name, _Projection(joint, place))
            release_pages(layer.weight)
