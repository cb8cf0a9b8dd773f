"""The queries, keys and values of a layer by one product, for a CPU that computes in float32.

The products of a small model are so short that most of their time is the call. With the shape of
the demo checkpoint, on AVX2, one call with float16 weights takes a third of the time of three with
few tokens, and a fifth less with 4,096.
"""

from typing import Any

import torch
from torch import Tensor, nn

from adapters.local.memory import release_pages
from adapters.local.model.packed import Float16Linear, float16_serves

_NAMES = ("q_proj", "k_proj", "v_proj")


class _Joint:
    """The three projections of an attention layer, of which transformers asks in this order."""

    def __init__(self, layers: list[nn.Linear]) -> None:
        self._sizes = [layer.out_features for layer in layers]
        parameters = [dict(layer.named_parameters()) for layer in layers]
        biases = [own["bias"].detach() for own in parameters if "bias" in own]
        self._product = Float16Linear(
            torch.cat([layer.weight.detach() for layer in layers]).float(),
            torch.cat(biases).float() if biases else None,
        )
        self._last: tuple[Tensor | None, tuple[Tensor, ...]] = None, ()

    def part(self, place: int, states: Tensor) -> Tensor:
        """One projection of `states`. The first call for these states computes all of them."""
        known, parts = self._last
        if states is not known:
            parts = self._product(states).split(self._sizes, -1)
        # After the last one no reference is kept.
        self._last = (None, ()) if place == len(self._sizes) - 1 else (states, parts)
        return parts[place]


class _Projection(nn.Module):
    """One of the projections, in the place of a linear layer. It has no parameters."""

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
    if not float16_serves(layer.weight for layers in replaced for layer in layers):
        return
    for attention, layers in zip(attentions, replaced, strict=True):
        joint = _Joint(layers)
        for place, (name, layer) in enumerate(zip(_NAMES, layers, strict=True)):
            setattr(attention, name, _Projection(joint, place))
            release_pages(layer.weight)
