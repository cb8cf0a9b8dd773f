from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import GptOssConfig
from transformers.integrations.moe import ALL_EXPERTS_FUNCTIONS
from transformers.models.gpt_oss.modeling_gpt_oss import GptOssExperts, GptOssForCausalLM

from adapters.local.model import experts
from adapters.local.model.experts import NAME, PackedExperts, all_experts, select_experts
from adapters.local.model.loading import load
from adapters.local.model.packed import Float16Linear, PackedLayer, ReorderedLinear
from adapters.local.model.precision import multiplies_bfloat16
from adapters.local.options import Options
from tests.adapters.local.tiny import write_tiny

needs_bfloat16 = pytest.mark.skipif(not multiplies_bfloat16(), reason="no bfloat16 on this CPU")
TYPES = [torch.float32, pytest.param(torch.bfloat16, marks=needs_bfloat16)]


def small(**fields: int) -> Any:
    """A model of two layers, with four experts of which two are chosen, in bfloat16."""
    config: dict[str, Any] = {
        "vocab_size": 100,
        "hidden_size": 32,
        "intermediate_size": 24,
        "num_hidden_layers": 2,
        "num_local_experts": 4,
        "num_experts_per_tok": 2,
    }
    return GptOssForCausalLM(GptOssConfig(**config | fields)).bfloat16()


def bound(expected: Tensor, dtype: torch.dtype) -> float:
    """Terms that cancel each other leave their rounding, which is relative to the largest sums."""
    error = 1e-5 if dtype == torch.float32 else 2e-2
    return error * float(expected.abs().max()) if expected.numel() else 0.0


def drawn(config: GptOssConfig, tokens: int, dtype: torch.dtype) -> tuple[Any, tuple[Tensor, ...]]:
    """Experts with random weights, and states with the experts that a router chose for them."""
    torch.manual_seed(0)
    module: Any = GptOssExperts(config).to(dtype)
    for parameter in module.parameters():
        parameter.requires_grad_(False).normal_(0, 0.3)
    states = torch.randn(tokens, config.hidden_size).to(dtype)
    values, chosen = torch.randn(tokens, config.num_local_experts).topk(config.num_experts_per_tok)
    return module, (states, chosen, values.softmax(-1).to(dtype))


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("tokens", [0, 1, 3, 256, 257, 1000])
@pytest.mark.parametrize(("number", "top_k"), [(4, 2), (2, 1), (3, 3)])
def test_the_sum_is_that_of_the_chosen_experts(
    number: int, top_k: int, tokens: int, dtype: torch.dtype
) -> None:
    config = GptOssConfig(
        hidden_size=32,
        intermediate_size=24,
        num_local_experts=number,
        num_experts_per_tok=top_k,
    )
    config._experts_implementation = "eager"
    module, arguments = drawn(config, tokens, dtype)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(parameter.bfloat16())
    expected = module(*arguments)
    kind = Float16Linear if dtype == torch.float32 else ReorderedLinear
    module.packed = PackedExperts(module, kind, dtype)
    found = all_experts(module, *arguments)
    assert found.dtype == dtype
    torch.testing.assert_close(found, expected, atol=bound(expected, dtype), rtol=0)


def test_states_above_the_limit_are_cut_off() -> None:
    config = GptOssConfig(
        hidden_size=32, intermediate_size=24, num_local_experts=2, num_experts_per_tok=1
    )
    config._experts_implementation = "eager"
    module, (states, *chosen) = drawn(config, 9, torch.float32)
    states *= 100
    expected = module(states, *chosen)
    module.packed = PackedExperts(module, ReorderedLinear, torch.float32)
    torch.testing.assert_close(all_experts(module, states, *chosen), expected, atol=1e-3, rtol=1e-4)


@pytest.mark.parametrize(("tokens", "packed"), [(256, True), (257, False)])
def test_few_tokens_use_the_packed_experts(tokens: int, packed: bool) -> None:
    config = GptOssConfig(
        hidden_size=32, intermediate_size=24, num_local_experts=2, num_experts_per_tok=1
    )
    module, arguments = drawn(config, tokens, torch.float32)
    module.packed = PackedExperts(module, ReorderedLinear, torch.float32)
    used = []
    module.packed.register_forward_hook(lambda *_: used.append(True))
    all_experts(module, *arguments)
    assert used == [True] * packed


@pytest.mark.parametrize(
    ("dtype", "value", "kind"),
    [
        pytest.param(torch.bfloat16, 1e5, ReorderedLinear, marks=needs_bfloat16),
        (torch.float32, 1.0, Float16Linear),
        (torch.float32, 1e5, ReorderedLinear),
        (torch.float16, 1.0, None),
    ],
)
def test_experts_are_packed_as_their_weights_permit(
    dtype: torch.dtype, value: float, kind: type[PackedLayer] | None
) -> None:
    model = small()
    with torch.no_grad():
        model.model.layers[1].mlp.experts.down_proj[3, 2, 1] = value
    select_experts(model, dtype)
    for layer in model.model.layers:
        packed = getattr(layer.mlp.experts, "packed", None)
        assert (packed and type(packed._gates)) is kind
    assert (model.config._experts_implementation == NAME) is (kind is not None)


def test_the_memory_of_their_weights_is_released(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps of many tokens read them again."""
    released: list[int] = []
    monkeypatch.setattr(
        experts,
        "release_file_pages",
        lambda *weights: released.extend(one.data_ptr() for one in weights),
    )
    model = small()
    select_experts(model, torch.float32)
    assert released == [
        weight.data_ptr()
        for layer in model.model.layers
        for weight in (layer.mlp.experts.gate_up_proj, layer.mlp.experts.down_proj)
    ]


@pytest.mark.parametrize(("number", "selected"), [(2, True), (4, True), (5, False), (32, False)])
def test_they_are_selected_where_a_token_uses_half_of_them(number: int, selected: bool) -> None:
    model = small(num_local_experts=number, num_experts_per_tok=min(number, 2))
    select_experts(model, torch.float32)
    assert (model.config._experts_implementation == NAME) is selected


def test_a_checkpoint_on_a_cpu_uses_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = load(str(write_tiny(tmp_path)), Options(device="cpu"), lambda *_: None)
    used = []

    def counted(module: Any, *arguments: Tensor) -> Tensor:
        used.append(module)
        return all_experts(module, *arguments)

    monkeypatch.setitem(ALL_EXPERTS_FUNCTIONS._global_mapping, NAME, counted)
    loaded.set_attn_implementation("eager")
    with torch.no_grad():
        loaded(input_ids=torch.tensor([[1, 2, 3]]))
    assert used == [layer.mlp.experts for layer in loaded.model.layers]
