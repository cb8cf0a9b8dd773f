import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers import GptOssConfig
from transformers.models.gpt_oss.modeling_gpt_oss import GptOssForCausalLM

from adapters.local.model import precision
from adapters.local.model.experts import PackedExperts
from adapters.local.model.loading import load
from adapters.local.model.packed import Float16Linear
from adapters.local.model.projections import join_projections
from adapters.local.options import Options

CONFIG = {
    "vocab_size": 100,
    "hidden_size": 32,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "num_local_experts": 2,
    "num_experts_per_tok": 1,
}


@pytest.fixture(params=[True, False], ids=["bias", "no bias"])
def model(request: pytest.FixtureRequest) -> Any:
    torch.manual_seed(0)
    config = GptOssConfig(**CONFIG, attention_bias=request.param)
    model = GptOssForCausalLM(config).requires_grad_(False).bfloat16()
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
    with torch.no_grad():
        exact = copy.deepcopy(model).float()
    expected = [projected(layer.self_attn, states) for layer in exact.model.layers]
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


def test_states_after_a_failed_product_are_projected_again(
    model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    attention = model.model.layers[0].self_attn
    join_projections(model)
    first, second = torch.randn(1, 2, 32), torch.randn(1, 2, 32)
    expected = projected(attention, second)
    attention.q_proj(first)

    def failing(*_: object) -> None:
        raise RuntimeError("out of memory")

    with monkeypatch.context() as patch:
        patch.setattr(Float16Linear, "_product", failing)
        with pytest.raises(RuntimeError, match="out of memory"):
            attention.q_proj(second)
    assert all(map(torch.equal, projected(attention, second), expected))


@pytest.fixture(params=[True, False], ids=["bfloat16", "float32"])
def loaded(
    request: pytest.FixtureRequest,
    make_tiny: Callable[[Path], Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> tuple[Any, bool]:
    """A checkpoint, and whether its CPU computes it in float32."""
    monkeypatch.setattr(precision, "multiplies_bfloat16", lambda: request.param)
    folder = make_tiny(tmp_path)
    return load(str(folder), Options(device="cpu"), lambda *_: None), not request.param


def test_what_computes_in_float32_has_joint_projections_and_packed_experts(
    loaded: tuple[Any, bool],
) -> None:
    model, widened = loaded
    for layer in model.model.layers:
        assert isinstance(layer.self_attn.q_proj, nn.Linear) == (not widened)
        assert isinstance(getattr(layer.mlp.experts, "packed", None), PackedExperts) == widened


@pytest.mark.parametrize("loaded", [False], ids=["float32"], indirect=True)
def test_a_layer_computes_one_product_for_its_projections(
    loaded: tuple[Any, bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """So transformers asks for the projections in the order that is expected."""
    model, _ = loaded
    model.set_attn_implementation("eager")
    product = Float16Linear._product
    computed = []

    def counted(self: Float16Linear, states: Tensor) -> Tensor:
        computed.append(self)
        return product(self, states)

    monkeypatch.setattr(Float16Linear, "_product", counted)
    with torch.no_grad():
        model(input_ids=torch.tensor([[1, 2, 3]]))
    for layer in model.model.layers:
        joint = layer.self_attn.q_proj._joint
        assert computed.count(joint._product) == 1
        assert joint._last == (None, ())
