"""The experts of small models, such as the demo checkpoint, for steps of few tokens on a CPU.

transformers sorts tokens by their experts and multiplies the tokens of each expert. With few tokens
most of that time is spent on a dozen small operations. Three products of all tokens and all experts
take half of the time if a token uses half of the experts anyway; the weight of an expert that was
not chosen is zero. gpt-oss-20b, of whose 32 experts a token uses 4, is computed by transformers.
"""

from typing import Any

from torch import Tensor
from transformers.integrations.moe import ALL_EXPERTS_FUNCTIONS, grouped_mm_experts_forward

NAME = "all_experts"
"""Its name in transformers."""

# Measured with 4 experts of which 2 are chosen: with more tokens the sorted ones are faster.
_MOST_TOKENS = 64


def select_experts(model: Any) -> None:
    """Let `model` use `all_experts` if a token uses at least half of its experts."""
    config = model.config
    if 2 * config.num_experts_per_tok >= config.num_local_experts:
        model.set_experts_implementation(NAME)


def all_experts(module: Any, states: Tensor, chosen: Tensor, weights: Tensor) -> Tensor:
    """The sum of the chosen experts' outputs, [tokens, hidden].

    module: `GptOssExperts`. states: [tokens, hidden]. chosen: [tokens, experts of a token], and
    weights: theirs.
    """
    count = len(states)
    if count > _MOST_TOKENS:
        result: Tensor = grouped_mm_experts_forward(module, states, chosen, weights)
        return result
    experts = module.num_experts
    shares = states.new_zeros(count, experts).scatter_(1, chosen, weights)
    inputs = states.expand(experts, *states.shape)
    gates = module.gate_up_proj_bias.unsqueeze(1).baddbmm(inputs, module.gate_up_proj)
    inner = module._apply_gate(gates).mul_(shares.t().unsqueeze(2))
    # One product over the inner states of all experts adds up their outputs.
    rows = inner.transpose(0, 1).flatten(1)
    biases: Tensor = shares @ module.down_proj_bias
    return biases.addmm_(rows, module.down_proj.flatten(0, 1))


ALL_EXPERTS_FUNCTIONS.register(NAME, all_experts)
