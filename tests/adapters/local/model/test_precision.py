from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn
from transformers import AutoModelForCausalLM

from adapters.local.model.precision import compute_in_float32, multiplies_bfloat16
from tests.adapters.local.tiny import write_tiny


@pytest.fixture
def model(tmp_path: Path) -> Any:
    load: Any = AutoModelForCausalLM.from_pretrained
    return load(write_tiny(tmp_path), dtype="auto")


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


def test_all_but_the_embedding_becomes_float32(model: Any) -> None:
    compute_in_float32(model)
    assert model.dtype == torch.float32
    assert {weight.dtype for weight in model.parameters()} == {torch.float32}
    assert model.get_input_embeddings().weight.dtype == torch.bfloat16


def test_rows_of_the_embedding_are_those_of_before_as_float32(model: Any) -> None:
    ids = torch.tensor([[1, 5, 99]])
    expected = nn.functional.embedding(ids, model.get_input_embeddings().weight).float()
    compute_in_float32(model)
    found = model.get_input_embeddings()(ids)
    assert found.dtype == torch.float32
    assert torch.equal(found, expected)


def test_an_embedding_that_is_the_output_layer_too_stays_as_it_is(model: Any) -> None:
    model.lm_head.weight = model.get_input_embeddings().weight
    stored = model.lm_head.weight.detach().clone()
    compute_in_float32(model)
    assert torch.equal(model.get_input_embeddings().weight, stored)
    assert torch.equal(model.lm_head.weight, stored.float())


def test_the_values_of_the_other_weights_stay(model: Any) -> None:
    before = {name: weight.detach().clone() for name, weight in model.named_parameters()}
    compute_in_float32(model)
    for name, weight in model.named_parameters():
        assert torch.equal(weight, before[name].float())
