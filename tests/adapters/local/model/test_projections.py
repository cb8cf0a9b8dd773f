from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers import GptOssConfig
from transformers.models.gpt_oss.modeling_gpt_oss import GptOssForCausalLM

from adapters.local.model.loading import load
from adapters.local.model.precision import multiplies_bfloat16
from adapters.local.model.projections import join_projections
from adapters.local.options import Options

CONFIG = GptOssConfig(
    vocab_size=100,
    hidden_size=32,
    intermediate_size=24,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    head_dim=16,
    num_local_experts=2,
    num_experts_per_tok=1,
)


@pytest.fixture
def model() -> Any:
    torch.manual_seed(0)
    model = GptOssForCausalLM(CONFIG).requires_grad_(False).bfloat16()
    for parameter in model.parameters():
        parameter.normal_(0, 0.3)
    return model


def projected(attention: Any, states: Tensor) -> list[Tensor]:
    return [
        projection(states) for projection in (attention.q_proj, attention.k_proj, attention.v_proj)
    ]


@pytest.mark.parametrize("tokens", [1, 3, 100])
def test_a_joint_product_has_the_three_projections(model: Any, tokens: int) -> None:
    states = torch.randn(1, tokens, 32)
    attentions = [layer.self_attn for layer in model.model.layers]
    expected = [
        [nn.functional.linear(states, one.weight.float(), one.bias.float()) for one in ones]
        for ones in ([a.q_proj, a.k_proj, a.v_proj] for a in attentions)
    ]
    join_projections(model)
    for attention, parts in zip(attentions, expected, strict=True):
        for found, part in zip(projected(attention, states), parts, strict=True):
            torch.testing.assert_close(found, part, atol=1e-5, rtol=1e-5)


def test_other_states_have_projections_of_their_own(model: Any) -> None:
    attention = model.model.layers[0].self_attn
    join_projections(model)
    first, second = torch.randn(1, 2, 32), torch.randn(1, 2, 32)
    expected = projected(attention, second)
    attention.q_proj(first)
    for found, part in zip(projected(attention, second), expected, strict=True):
        assert torch.equal(found, part)


def test_the_same_memory_with_other_states_is_projected_again(model: Any) -> None:
    """A step may write its states where those of the last step were."""
    attention = model.model.layers[0].self_attn
    join_projections(model)
    states = torch.randn(1, 2, 32)
    before = projected(attention, states)
    after = projected(attention, states.zero_())
    assert not any(map(torch.equal, before, after))


def test_weights_that_float16_has_not_stay_as_they_are(model: Any) -> None:
    model.model.layers[1].self_attn.k_proj.weight[3, 5] = 1e5
    join_projections(model)
    assert isinstance(model.model.layers[0].self_attn.q_proj, nn.Linear)


def test_a_checkpoint_that_computes_in_float32_has_them(
    make_tiny: Callable[[Path], Path], tmp_path: Path
) -> None:
    loaded = load(str(make_tiny(tmp_path)), Options(device="cpu"), lambda *_: None)
    widened = not multiplies_bfloat16()
    for layer in loaded.model.layers:
        assert isinstance(layer.self_attn.q_proj, nn.Linear) is not widened
