import logging
from pathlib import Path
from queue import SimpleQueue
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from adapters.base import BackendConfig, GenerationRequest, SamplingParams
from adapters.local.model import packed
from adapters.local.model.loading import load
from adapters.local.model.output_layer import keep_needed_logits, pack_output_layer
from adapters.local.model.packed import Float16Linear, PackedLayer, ReorderedLinear
from adapters.local.model.precision import multiplies_bfloat16
from adapters.local.options import Options
from tests.adapters.local.conftest import started
from tests.adapters.local.tiny import write_tiny
from tests.adapters.sampling import sample

TYPES = [
    torch.float32,
    pytest.param(
        torch.bfloat16,
        marks=pytest.mark.skipif(not multiplies_bfloat16(), reason="no bfloat16 on this CPU"),
    ),
]


def head(dtype: torch.dtype = torch.float32) -> Any:
    torch.manual_seed(0)
    embedding = nn.Embedding(5000, 64, dtype=dtype)
    layer = nn.Linear(64, 5000, bias=False, dtype=dtype)
    return SimpleNamespace(lm_head=layer, get_input_embeddings=lambda: embedding)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("rows", [1, 2, 16, 17, 64])
def test_packed_weights_compute_what_the_layer_computes(rows: int, dtype: torch.dtype) -> None:
    model = head(torch.bfloat16)
    weight = model.lm_head.weight.detach().float().clone()
    assert pack_output_layer(model, dtype)
    states = torch.randn(1, rows, 64).to(dtype)
    found = model.lm_head(states)
    assert found.dtype == dtype
    expected = states.float() @ weight.t()
    torch.testing.assert_close(found.float(), expected, atol=1e-2, rtol=1e-2)


@pytest.mark.parametrize("stored", [torch.bfloat16, torch.float16])
def test_widened_weights_are_kept_as_float16(stored: torch.dtype) -> None:
    model = head(stored)
    assert pack_output_layer(model, torch.float32)
    assert isinstance(model.lm_head, Float16Linear)


@pytest.mark.parametrize("value", [1e5, -1e5, float("inf"), float("nan")])
def test_weights_that_float16_has_not_stay_float32(value: float) -> None:
    model = head(torch.bfloat16)
    with torch.no_grad():
        model.lm_head.weight[4000, 3] = value
    assert pack_output_layer(model, torch.float32)
    assert isinstance(model.lm_head, ReorderedLinear)


def test_float32_weights_lose_no_digits() -> None:
    model = head(torch.float32)
    assert pack_output_layer(model, torch.float32)
    assert isinstance(model.lm_head, ReorderedLinear)


def test_where_float16_does_not_work_float32_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object) -> None:
        raise RuntimeError("not on this CPU")

    monkeypatch.setattr(Float16Linear, "_pack", missing)
    model = head(torch.bfloat16)
    assert pack_output_layer(model, torch.float32)
    assert isinstance(model.lm_head, ReorderedLinear)


@pytest.mark.parametrize("dtype", TYPES)
def test_weights_of_the_embedding_stay(dtype: torch.dtype) -> None:
    model = head(dtype)
    model.lm_head.weight = model.get_input_embeddings().weight
    expected = model.lm_head.weight.detach().clone()
    assert pack_output_layer(model, dtype)
    assert torch.equal(model.get_input_embeddings().weight, expected)


def test_huge_pages_are_asked_for_the_packed_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: SimpleQueue[int] = SimpleQueue()
    monkeypatch.setattr(packed, "use_huge_pages", lambda address, size: asked.put(size))
    assert pack_output_layer(head(), torch.float32)
    assert asked.get(timeout=60) >= 5000 * 64 * 4


def test_other_types_stay_as_they_are() -> None:
    model = head(torch.float16)
    layer = model.lm_head
    assert not pack_output_layer(model, torch.float16)
    assert model.lm_head is layer


@pytest.mark.parametrize("stored", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("wrong", [0.5, float("nan")])
def test_wrong_results_are_not_used(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    wrong: float,
    stored: torch.dtype,
) -> None:
    right = PackedLayer.forward

    def off(self: PackedLayer, states: Tensor) -> Tensor:
        return right(self, states) + wrong

    monkeypatch.setattr(PackedLayer, "forward", off)
    model = head(stored)
    with caplog.at_level(logging.WARNING):
        assert not pack_output_layer(model, torch.float32)
    assert "has an error of" in caplog.text
    assert "are not packed" in caplog.text
    assert isinstance(model.lm_head, nn.Linear)


def test_a_missing_operator_is_not_used(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def missing(*_: object) -> None:
        raise AttributeError("no such operator")

    monkeypatch.setattr(ReorderedLinear, "_pack", missing)
    model = head()
    with caplog.at_level(logging.WARNING):
        assert not pack_output_layer(model, torch.float32)
    assert "are not packed" in caplog.text
    assert isinstance(model.lm_head, nn.Linear)


def test_a_checkpoint_on_a_cpu_gets_packed_weights(tmp_path: Path) -> None:
    loaded = load(str(write_tiny(tmp_path)), Options(device="cpu"), lambda *_: None)
    assert type(loaded.lm_head) is (ReorderedLinear if multiplies_bfloat16() else Float16Linear)


def test_logits_are_those_of_sequences_with_a_new_token() -> None:
    ios = SimpleNamespace(
        requests_in_batch=[SimpleNamespace(has_new_token=new) for new in (True, True, False)],
        get_model_kwargs=lambda use_padding: {"logits_indices": [4, 5, 0], "padded": use_padding},
    )
    keep_needed_logits(ios)
    assert ios.get_model_kwargs(use_padding=False) == {"logits_indices": [4, 5], "padded": False}


async def test_steps_inside_a_prompt_compute_no_logits(
    small_config: BackendConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with started(small_config) as backend:
        engine: Any = backend._engine
        rows: list[int] = []
        step = engine._step
        runner = engine._manager.batch_processor.model_runner

        def counted(scores: Tensor, output_ids: Tensor) -> None:
            rows.append(scores.shape[1])
            step(scores, output_ids)

        monkeypatch.setattr(runner, "_sample", counted)
        limit = int(engine._manager.batch_processor.cache.max_batch_tokens)
        prompt = tuple(place % 900 for place in range(2 * limit + 5))
        request = GenerationRequest("r", prompt, 2, frozenset(), SamplingParams(temperature=0))
        assert len(await sample(backend, request)) == 2
    assert rows == [0, 0, 1, 1]
