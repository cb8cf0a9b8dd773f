"""The experts of small models, such as the demo checkpoint, on a CPU.

transformers sorts tokens by their experts and multiplies the tokens of each expert. With few tokens
most of that time is spent on a dozen small operations. Two products of all tokens and all experts
take a third of the time if a token uses half of the experts anyway, and the weights are packed;
the share of an expert that was not chosen is zero. With many tokens, the time goes into passes over
the states of all experts: one expert after the other takes a third of it, because its states stay
in the cache of the CPU, and its products add the biases. gpt-oss-20b, of whose 32 experts a token
uses 4, is computed by transformers.
"""

import logging
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers.integrations.moe import ALL_EXPERTS_FUNCTIONS

from adapters.local.memory import release_file_pages
from adapters.local.model.packed import PackedLayer, packed_kind

logger = logging.getLogger(__name__)

NAME = "all_experts"
"""Its name in transformers."""

# Measured with 4 experts of which 2 are chosen: with more tokens the sorted ones are faster.
_MOST_TOKENS = 256
# oneDNN compiles a product for each number of rows, which takes half a millisecond.
_ROWS = 64


def are_computed_at_once(config: Any) -> bool:
    """Whether a token uses at least half of the experts."""
    return bool(2 * config.num_experts_per_tok >= config.num_local_experts)


def select_experts(model: Any, dtype: torch.dtype) -> None:
    """Let `model` use `all_experts`, if its experts are computed at once and their weights can be
    packed.

    dtype: in which `model`, whose weights are as stored, will compute.
    """
    if not are_computed_at_once(model.config):
        return
    modules = [layer.mlp.experts for layer in model.model.layers]
    weights = [
        one.detach() for module in modules for one in (module.gate_up_proj, module.down_proj)
    ]
    kind = packed_kind(weights, dtype)
    if kind is None:
        logger.info("the weights of the experts are not packed, so that steps take longer")
        return
    model.set_experts_implementation(NAME)
    for module in modules:
        module.packed = PackedExperts(module, kind, dtype)
    release_file_pages(*weights)


class PackedExperts(nn.Module):
    """All experts of a layer as two packed layers, for steps of few tokens.

    They are a second copy of the weights: steps of many tokens use the first.
    """

    _down_bias: Tensor

    def __init__(self, experts: Any, kind: type[PackedLayer], dtype: torch.dtype) -> None:
        """experts: `GptOssExperts`. dtype: of the states."""
        super().__init__()
        self._experts, self._inner = experts.num_experts, experts.intermediate_size
        self._limit, self._alpha = experts.limit, experts.alpha
        self._gates = kind(
            _by_halves(experts.gate_up_proj.detach().transpose(1, 2)).to(dtype),
            _by_halves(experts.gate_up_proj_bias.detach()).to(dtype),
        )
        self._down = kind(experts.down_proj.detach().flatten(0, 1).t().to(dtype).contiguous())
        self.register_buffer("_down_bias", experts.down_proj_bias.detach().to(dtype))

    def forward(self, states: Tensor, chosen: Tensor, weights: Tensor) -> Tensor:
        """As `all_experts`."""
        shares = states.new_zeros(len(states), self._experts).scatter_(1, chosen, weights)
        halves = self._gates(states).view(len(states), 2, self._experts, self._inner)
        gate, up = halves.unbind(1)
        gate.clamp_(max=self._limit)
        up.clamp_(-self._limit, self._limit)
        inner = torch.sigmoid(gate * self._alpha).mul_(gate)
        # gate * sigmoid(alpha * gate) * (up + 1)
        inner.addcmul_(inner, up).mul_(shares.unsqueeze(2))
        # One product over the inner states of all experts adds up their outputs.
        outputs: Tensor = self._down(inner.flatten(1))
        outputs.addmm_(shares, self._down_bias)
        return outputs


def _by_halves(states: Tensor) -> Tensor:
    """[experts, 2 * inner, ...], in which gates and ups alternate, as [2 * experts * inner, ...]:
    first the gates of all experts, then the ups.
    """
    halves: Tensor = states.unflatten(1, (-1, 2)).movedim(2, 0)
    return halves.flatten(0, 2)


def all_experts(module: Any, states: Tensor, chosen: Tensor, weights: Tensor) -> Tensor:
    """The sum of the chosen experts' outputs, [tokens, hidden].

    module: `GptOssExperts` with its `PackedExperts` as `packed`. states: [tokens, hidden]. chosen:
    [tokens, experts of a token], and weights: theirs.
    """
    if len(states) > _MOST_TOKENS:
        return _one_by_one(module, states, chosen, weights)
    outputs: Tensor = module.packed(states, chosen, weights)
    return outputs


def _one_by_one(module: Any, states: Tensor, chosen: Tensor, weights: Tensor) -> Tensor:
    """The same as `all_experts`, by the tokens of each expert."""
    experts = chosen.flatten()
    order = experts.argsort()
    tokens = order // chosen.shape[1]
    inputs = states.index_select(0, functional.pad(tokens, (0, _ROWS)))
    outputs = torch.empty_like(inputs)
    start = 0
    for expert, count in enumerate(experts.bincount(minlength=module.num_experts).tolist()):
        # More rows than the expert has: the next expert overwrites the outputs of its own.
        rows = slice(start, start + -(-count // _ROWS) * _ROWS)
        gates = module.gate_up_proj_bias[expert].addmm(inputs[rows], module.gate_up_proj[expert])
        inner = module._apply_gate(gates)
        bias, down = module.down_proj_bias[expert], module.down_proj[expert]
        torch.addmm(bias, inner, down, out=outputs[rows])
        start += count
    outputs = outputs[: len(order)].mul_(weights.flatten()[order].unsqueeze(1))
    return torch.zeros_like(states).index_add_(0, tokens, outputs)


ALL_EXPERTS_FUNCTIONS.register(NAME, all_experts)
