from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn
from transformers import AutoModelForCausalLM, GptOssConfig

from adapters.local.precision import compute_in_float32, multiplies_bfloat16


def tiny() -> Any:
    config = GptOssConfig(
        vocab_size=100,
        hidden_size=64,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=32,
        num_local_experts=2,
        num_experts_per_tok=1,
        pad_token_id=0,
    )
    build: Any = AutoModelForCausalLM.from_config
    return build(config, dtype=torch.bfloat16)


@pytest.mark.parametrize("supported", [True, False])
def test_onednn_says_whether_it_multiplies_bfloat16(
    monkeypatch: pytest.MonkeyPatch, supported: bool
) -> None:
    operators = SimpleNamespace(_is_mkldnn_bf16_supported=lambda: supported)
    monkeypatch.setattr(torch.ops, "mkldnn", operators)
    assert multiplies_bfloat16() is supported


def test_a_torch_that_cannot_say_it_is_believed_to_multiply_bfloat16(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(torch.ops, "mkldnn", SimpleNamespace())
    assert multiplies_bfloat16()


def test_all_but_the_embedding_becomes_float32() -> None:
    model = tiny()
    compute_in_float32(model)
    assert model.dtype == torch.float32
    assert {weight.dtype for weight in model.parameters()} == {torch.float32}
    assert model.get_input_embeddings().weight.dtype == torch.bfloat16


def test_rows_of_the_embedding_are_those_of_before_as_float32() -> None:
    model = tiny()
    ids = torch.tensor([[1, 5, 99]])
    expected = nn.functional.embedding(ids, model.get_input_embeddings().weight).float()
    compute_in_float32(model)
    found = model.get_input_embeddings()(ids)
    assert found.dtype == torch.float32
    assert torch.equal(found, expected)


def test_an_embedding_that_is_the_output_layer_too_stays_as_it_is() -> None:
    model = tiny()
    model.lm_head.weight = model.get_input_embeddings().weight
    stored = model.lm_head.weight.detach().clone()
    compute_in_float32(model)
    assert torch.equal(model.get_input_embeddings().weight, stored)
    assert torch.equal(model.lm_head.weight, stored.float())


def test_the_values_of_the_other_weights_stay() -> None:
    model = tiny()
    before = {name: weight.detach().clone() for name, weight in model.named_parameters()}
    compute_in_float32(model)
    for name, weight in model.named_parameters():
        assert torch.equal(weight, before[name].float())
