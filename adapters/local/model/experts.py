"""The experts of small models, such as the demo checkpoint, on a CPU.

transformers sorts tokens by their experts and multiplies the tokens of each expert. With few tokens
most of that time is spent on a dozen small operations. Three products of all tokens and all experts
take half of the time if a token uses half of the experts anyway; the weight of an expert that was
not chosen is zero. Where the CPU computes in float32, two products with float16 weights do the same
and read half of the bytes. With many tokens, the time goes into passes over the states of all
experts: one expert after the other takes a third of it, because its states stay in the cache of
the CPU, and its products add the biases. gpt-oss-20b, of whose 32 experts a token uses 4, is
computed by transformers.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers.integrations.moe import ALL_EXPERTS_FUNCTIONS

from adapters.local.model.packed import Float16Linear, float16_serves

NAME = "all_experts"
"""Its name in transformers."""

# Measured with 4 experts of which 2 are chosen: with more tokens the sorted ones are faster.
_MOST_TOKENS = 128
# oneDNN compiles a product for each number of rows, which takes half a millisecond.
_ROWS = 64


def are_computed_at_once(config: Any) -> bool:
    """Whether a token uses at least half of the experts."""
    return bool(2 * config.num_experts_per_tok >= config.num_local_experts)


def select_experts(model: Any, *, widened: bool) -> None:
    """Let `model` use `all_experts` if its experts are computed at once.

    widened: whether `model`, whose weights are as stored, will compute in float32. Each layer then
    gets its `PackedExperts` too, if the weights permit it.
    """
    if not are_computed_at_once(model.config):
        return
    model.set_experts_implementation(NAME)
    if not widened:
        return
    modules = [layer.mlp.experts for layer in model.model.layers]
    if float16_serves(weight for one in modules for weight in (one.gate_up_proj, one.down_proj)):
        for module in modules:
            module.packed = PackedExperts(module)


class PackedExperts(nn.Module):
    """All experts of a layer for states of float32, as two layers with float16 weights.

    They are a second copy of the weights: steps of many tokens use the first.
    """

    def __init__(self, experts: Any) -> None:
        """experts: `GptOssExperts`."""
        super().__init__()
        self.gate_up = Float16Linear(
            experts.gate_up_proj.detach().transpose(1, 2).flatten(0, 1).float(),
            experts.gate_up_proj_bias.detach().flatten().float(),
        )
        self.down = Float16Linear(experts.down_proj.detach().flatten(0, 1).t().float())


def all_experts(module: Any, states: Tensor, chosen: Tensor, weights: Tensor) -> Tensor:
    """The sum of the chosen experts' outputs, [tokens, hidden].

    module: `GptOssExperts`. states: [tokens, hidden]. chosen: [tokens, experts of a token], and
    weights: theirs.
    """
    if len(states) > _MOST_TOKENS:
        return _one_by_one(module, states, chosen, weights)
    shares = states.new_zeros(len(states), module.num_experts).scatter_(1, chosen, weights)
    inner = module._apply_gate(_gates(module, states)).mul_(shares.unsqueeze(2))
    return _outputs(module, inner.flatten(1), shares)


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


def _gates(module: Any, states: Tensor) -> Tensor:
    """The gates of all experts, [tokens, experts, 2 * inner]."""
    if packed := _packed(module):
        gates: Tensor = packed.gate_up(states)
        return gates.view(len(states), module.num_experts, 2 * module.intermediate_size)
    inputs = states.expand(module.num_experts, *states.shape)
    products: Tensor = module.gate_up_proj_bias.unsqueeze(1).baddbmm(inputs, module.gate_up_proj)
    return products.transpose(0, 1)


def _outputs(module: Any, inner: Tensor, shares: Tensor) -> Tensor:
    """[tokens, hidden] of `inner` [tokens, experts * inner], which has the shares of the experts.

    One product over the inner states of all experts adds up their outputs.
    """
    if packed := _packed(module):
        outputs: Tensor = packed.down(inner)
        return outputs.addmm_(shares, module.down_proj_bias)
    biases: Tensor = shares @ module.down_proj_bias
    return biases.addmm_(inner, module.down_proj.flatten(0, 1))


def _packed(module: Any) -> PackedExperts | None:
    return getattr(module, "packed", None)


ALL_EXPERTS_FUNCTIONS.register(NAME, all_experts)
