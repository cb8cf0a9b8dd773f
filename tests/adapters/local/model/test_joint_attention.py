import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import Cache, DynamicCache, GptOssConfig
from transformers.models.gpt_oss.modeling_gpt_oss import GptOssAttention, GptOssForCausalLM

from adapters.local.model import precision
from adapters.local.model.joint_attention import JointAttention, join_projections
from adapters.local.model.loading import load
from adapters.local.model.norm import Norm
from adapters.local.model.packed import Float16Linear, ReorderedLinear
from adapters.local.model.precision import multiplies_bfloat16
from adapters.local.options import Options
from tests.adapters.local.tiny import write_tiny

needs_bfloat16 = pytest.mark.skipif(not multiplies_bfloat16(), reason="no bfloat16 on this CPU")

CONFIG: dict[str, Any] = {
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


def outputs(model: Any, states: Tensor, past: Cache | None = None) -> list[Tensor]:
    """What each attention layer makes of `states`, [1, tokens, 32]."""
    seen = past.get_seq_length() if past is not None else 0
    places = torch.arange(seen, seen + states.shape[1]).unsqueeze(0)
    rotation = model.model.rotary_emb(states, places)
    length = seen + states.shape[1]
    mask = torch.full((states.shape[1], length), -torch.inf).triu(seen + 1)
    return [
        layer.self_attn(states, rotation, mask, past_key_values=past)[0]
        for layer in model.model.layers
    ]


@pytest.mark.parametrize("tokens", [1, 3, 100])
def test_it_computes_what_the_original_does(model: Any, tokens: int) -> None:
    states = torch.randn(1, tokens, 32)
    exact = copy.deepcopy(model).float()
    expected = outputs(exact, states)
    join_projections(model, torch.float32)
    assert all(isinstance(layer.self_attn, JointAttention) for layer in model.model.layers)
    for found, wanted in zip(outputs(model.float(), states), expected, strict=True):
        torch.testing.assert_close(found, wanted, atol=1e-4, rtol=1e-4)


def test_it_goes_on_after_what_a_cache_holds(model: Any) -> None:
    states = torch.randn(1, 9, 32)
    expected = outputs(copy.deepcopy(model).float(), states)
    join_projections(model, torch.float32)
    model.float()
    cache = DynamicCache()
    outputs(model, states[:, :5], cache)
    for found, wanted in zip(outputs(model, states[:, 5:], cache), expected, strict=True):
        torch.testing.assert_close(found, wanted[:, 5:], atol=1e-4, rtol=1e-4)


@needs_bfloat16
@pytest.mark.parametrize("tokens", [1, 100])
def test_bfloat16_is_as_close_as_its_digits_allow(model: Any, tokens: int) -> None:
    states = torch.randn(1, tokens, 32).bfloat16()
    expected = outputs(copy.deepcopy(model).float(), states.float())
    join_projections(model, torch.bfloat16)
    for found, wanted in zip(outputs(model, states), expected, strict=True):
        assert found.dtype == torch.bfloat16
        error = 2e-2 * float(wanted.abs().max())
        torch.testing.assert_close(found.float(), wanted, atol=error, rtol=0)


@pytest.mark.parametrize("name", ["k_proj", "o_proj"])
def test_weights_that_float16_has_not_stay_float32(model: Any, name: str) -> None:
    getattr(model.model.layers[1].self_attn, name).weight[3, 5] = 1e5
    states = torch.randn(1, 3, 32)
    expected = outputs(copy.deepcopy(model).float(), states)
    join_projections(model, torch.float32)
    for layer, found, wanted in zip(
        model.model.layers, outputs(model.float(), states), expected, strict=True
    ):
        assert type(layer.self_attn._product) is type(layer.self_attn._out) is ReorderedLinear
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5 * float(wanted.abs().max()))


def test_a_type_without_packed_layers_keeps_the_original(model: Any) -> None:
    rotation = model.model.rotary_emb
    join_projections(model, torch.float16)
    assert isinstance(model.model.layers[0].self_attn, GptOssAttention)
    assert model.model.rotary_emb is rotation


@pytest.fixture(
    params=[pytest.param(True, marks=needs_bfloat16), False], ids=["bfloat16", "float32"]
)
def loaded(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> tuple[Any, bool]:
    """A checkpoint, and whether its CPU computes it in float32."""
    monkeypatch.setattr(precision, "multiplies_bfloat16", lambda: request.param)
    folder = write_tiny(tmp_path)
    return load(str(folder), Options(device="cpu"), lambda *_: None), not request.param


def test_a_cpu_has_layers_of_its_own(loaded: tuple[Any, bool]) -> None:
    model, widened = loaded
    kind = Float16Linear if widened else ReorderedLinear
    assert isinstance(model.model.norm, Norm)
    for layer in model.model.layers:
        assert type(layer.self_attn._product) is type(layer.self_attn._out) is kind
        assert isinstance(layer.input_layernorm, Norm)
        assert isinstance(layer.post_attention_layernorm, Norm)
        assert type(layer.mlp.experts.packed._gates) is kind
