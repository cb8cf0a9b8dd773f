from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import GptOssConfig
from transformers.integrations.moe import ALL_EXPERTS_FUNCTIONS
from transformers.models.gpt_oss.modeling_gpt_oss import GptOssExperts, GptOssForCausalLM

from adapters.local.model.experts import NAME, PackedExperts, all_experts, select_experts
from adapters.local.model.loading import load
from adapters.local.model.precision import multiplies_bfloat16
from adapters.local.options import Options


def drawn(config: GptOssConfig, tokens: int, dtype: torch.dtype) -> tuple[Any, tuple[Tensor, ...]]:
    """Experts with random weights, and states with the experts that a router chose for them."""
    torch.manual_seed(0)
    module: Any = GptOssExperts(config).to(dtype)
    for parameter in module.parameters():
        parameter.requires_grad_(False).normal_(0, 0.3)
    states = torch.randn(tokens, config.hidden_size).to(dtype)
    values, chosen = torch.randn(tokens, config.num_local_experts).topk(config.num_experts_per_tok)
    return module, (states, chosen, values.softmax(-1).to(dtype))


@pytest.mark.parametrize(
    "dtype",
    [
        torch.float32,
        pytest.param(
            torch.bfloat16,
            marks=pytest.mark.skipif(not multiplies_bfloat16(), reason="no bfloat16 on this CPU"),
        ),
    ],
)
@pytest.mark.parametrize("tokens", [0, 1, 3, 128, 129, 1000])
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
    found = all_experts(module, *arguments)
    expected = module(*arguments)
    assert found.dtype == dtype
    # Terms that cancel each other leave their rounding, which is relative to the largest sums.
    bound = (
        (1e-5 if dtype == torch.float32 else 2e-2) * float(expected.abs().max()) if tokens else 0
    )
    torch.testing.assert_close(found, expected, atol=bound, rtol=0)


@pytest.mark.parametrize("tokens", [0, 1, 3, 128, 129])
def test_packed_experts_compute_what_the_experts_compute(tokens: int) -> None:
    config = GptOssConfig(
        hidden_size=32, intermediate_size=24, num_local_experts=4, num_experts_per_tok=2
    )
    config._experts_implementation = "eager"
    module, arguments = drawn(config, tokens, torch.float32)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(parameter.bfloat16())
    expected = module(*arguments)
    module.packed = PackedExperts(module)
    torch.testing.assert_close(all_experts(module, *arguments), expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(
    ("widened", "value", "packed"), [(False, 1.0, False), (True, 1.0, True), (True, 1e5, False)]
)
def test_experts_are_packed_for_float32_if_float16_has_their_weights(
    widened: bool, value: float, packed: bool
) -> None:
    config = GptOssConfig(
        vocab_size=100,
        hidden_size=32,
        intermediate_size=24,
        num_hidden_layers=2,
        num_local_experts=4,
        num_experts_per_tok=2,
    )
    model = GptOssForCausalLM(config).bfloat16()
    with torch.no_grad():
        model.model.layers[1].mlp.experts.down_proj[3, 2, 1] = value
    select_experts(model, widened=widened)
    for layer in model.model.layers:
        assert isinstance(getattr(layer.mlp.experts, "packed", None), PackedExperts) is packed


@pytest.mark.parametrize(("number", "selected"), [(2, True), (4, True), (5, False), (32, False)])
def test_they_are_selected_where_a_token_uses_half_of_them(number: int, selected: bool) -> None:
    config = GptOssConfig(
        num_hidden_layers=1, num_local_experts=number, num_experts_per_tok=min(number, 2)
    )
    with torch.device("meta"):
        model = GptOssForCausalLM(config)
    select_experts(model, widened=False)
    assert (model.config._experts_implementation == NAME) is selected


def test_a_checkpoint_on_a_cpu_uses_them(
    make_tiny: Callable[[Path], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = load(str(make_tiny(tmp_path)), Options(device="cpu"), lambda *_: None)
    used = []

    def counted(module: Any, *arguments: Tensor) -> Tensor:
        used.append(module)
        return all_experts(module, *arguments)

    monkeypatch.setitem(ALL_EXPERTS_FUNCTIONS._global_mapping, NAME, counted)
    loaded.set_attn_implementation("eager")
    loaded(input_ids=torch.tensor([[1, 2, 3]]))
    assert used == [layer.mlp.experts for layer in loaded.model.layers]
