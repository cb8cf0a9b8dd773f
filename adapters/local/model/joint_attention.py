"""The attention layers of a model on a CPU, with packed weights.

The products of a small model are so short that most of their time is the call. Here one product
gives queries, keys and values, and one complex product rotates queries and keys. With the shape of
the demo checkpoint and few tokens, the first takes a third of the time of three products, and the
second a fifth of the time of transformers' rotation in float32.
"""

from typing import Any

import torch
from torch import Tensor, nn
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.models.gpt_oss.modeling_gpt_oss import eager_attention_forward

from adapters.local.memory import release_pages
from adapters.local.model.packed import PackedLayer, packed_kind

_NAMES = ("q_proj", "k_proj", "v_proj")


def join_projections(model: Any, dtype: torch.dtype) -> None:
    """Replace the attention layers of `model`, which will compute in `dtype`, if their weights
    permit it. The memory of the projections' weights is released.
    """
    attentions = [layer.self_attn for layer in model.model.layers]
    names = (*_NAMES, "o_proj")
    weights = [getattr(one, name).weight.detach() for one in attentions for name in names]
    kind = packed_kind(weights, dtype)
    if kind is None:
        return
    for layer in model.model.layers:
        layer.self_attn = JointAttention(layer.self_attn, kind, dtype)
    model.model.rotary_emb = Rotation(model.model.rotary_emb)


class Rotation(nn.Module):
    """The factors that rotate queries and keys: complex numbers, [batch, tokens, 1, half of the
    width of a head]."""

    def __init__(self, rotary: Any) -> None:
        """rotary: `GptOssRotaryEmbedding`."""
        super().__init__()
        self._rotary = rotary

    def forward(self, states: Tensor, position_ids: Tensor) -> Tensor:
        return torch.complex(*self._rotary(states.float(), position_ids)).unsqueeze(2)


class JointAttention(nn.Module):
    """Computes what `GptOssAttention` does.

    The two components that are rotated together stand side by side, in queries and keys alike, so
    that they are one complex number. The scores do not depend on the order of components.
    """

    def __init__(self, attention: Any, kind: type[PackedLayer], dtype: torch.dtype) -> None:
        """attention: `GptOssAttention`. The memory of its projections' weights is released."""
        super().__init__()
        self.config, self.layer_idx = attention.config, attention.layer_idx
        self.scaling, self.sliding_window = attention.scaling, attention.sliding_window
        self.num_key_value_groups = attention.num_key_value_groups
        self.sinks = attention.sinks
        self._half = attention.head_dim // 2
        projections = [getattr(attention, name) for name in _NAMES]
        self._heads = [one.out_features // attention.head_dim for one in projections]
        biases = [one.bias for one in projections if one.bias is not None]
        self._product = kind(
            self._joined([one.weight for one in projections]).to(dtype),
            self._joined(biases).to(dtype) if biases else None,
        )
        out = attention.o_proj
        bias = None if out.bias is None else out.bias.detach().to(dtype)
        self._out = kind(out.weight.detach().to(dtype), bias)
        for projection in [*projections, out]:
            release_pages(projection.weight)

    def _joined(self, parts: list[Tensor]) -> Tensor:
        """The rows of the three projections one after another."""
        query, key, value = (part.detach() for part in parts)
        pairs = [part.unflatten(0, (-1, 2, self._half)).transpose(1, 2) for part in (query, key)]
        return torch.cat([*(part.flatten(0, 2) for part in pairs), value])

    def forward(
        self,
        hidden_states: Tensor,
        position_embeddings: Tensor,
        attention_mask: Tensor | None,
        past_key_values: Any = None,
        **kwargs: Any,
    ) -> tuple[Tensor, Tensor | None]:
        """As that of `GptOssAttention`, with the `position_embeddings` of `Rotation`."""
        states = self._product(hidden_states).unflatten(-1, (sum(self._heads), -1))
        pairs = states[:, :, : -self._heads[-1]].unflatten(-1, (-1, 2))
        # In float32 this is no copy. There is no complex type for bfloat16.
        rotated = pairs.float()
        torch.view_as_complex(rotated).mul_(position_embeddings)
        pairs.copy_(rotated)
        query, key, value = states.transpose(1, 2).split(self._heads, 1)
        if past_key_values is not None:
            key, value = past_key_values.update(key, value, self.layer_idx)
        attend = ALL_ATTENTION_FUNCTIONS.get_interface(
            self.config._attn_implementation, eager_attention_forward
        )
        out, weights = attend(
            self,
            query,
            key,
            value,
            attention_mask,
            dropout=0.0,
            scaling=self.scaling,
            sliding_window=self.sliding_window,
            s_aux=self.sinks,
            **kwargs,
        )
        return self._out(out.reshape(*hidden_states.shape[:-1], -1)), weights
