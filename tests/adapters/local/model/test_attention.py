import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import AutoModelForCausalLM

from adapters.local.model import attention
from adapters.local.model.attention import (
    Batch,
    attend,
    paged_attention,
    plain,
    planned_shape,
    works,
)
from adapters.local.model.cpu_attention import Shape
from tests.adapters.local.model.batches import SCALING, batch_of
from tests.adapters.local.tiny import write_tiny

CPU = torch.device("cpu")


def heads(query: int, key: int, width: int = 64) -> SimpleNamespace:
    return SimpleNamespace(num_attention_heads=query, num_key_value_heads=key, head_dim=width)


def ends(lengths: list[int]) -> Tensor:
    return torch.tensor([0, *lengths]).cumsum(0).int()


def case(
    sequences: list[tuple[int, int]], dtype: torch.dtype = torch.float32, scale: float = 1.0
) -> dict[str, Tensor]:
    """Noise for sequences of (queries, keys before them), eight heads on four."""
    generator = torch.Generator().manual_seed(0)
    queries = [queries for queries, _ in sequences]
    keys = [queries + past for queries, past in sequences]

    def noise(*shape: int) -> Tensor:
        return (torch.randn(shape, generator=generator) * scale).to(dtype)

    return {
        "query": noise(sum(queries), 8, 64),
        "key": noise(sum(keys), 4, 64),
        "value": noise(sum(keys), 4, 64),
        "ends_q": ends(queries),
        "ends_k": ends(keys),
        "sinks": noise(8),
    }


def batch(tensors: dict[str, Tensor], window: int | None) -> Batch:
    return batch_of(
        **{name: one for name, one in tensors.items() if name != "sinks"}, window=window
    )


def run(tensors: dict[str, Tensor], window: int | None) -> Tensor:
    return attend(batch(tensors, window), tensors["sinks"])


def defined(tensors: dict[str, Tensor], window: int | None) -> Tensor:
    return plain(batch(tensors, window), tensors["sinks"])


@pytest.mark.parametrize(
    ("sequences", "window"),
    [
        ([(1, 0)], None),
        ([(1, 700)], None),
        ([(300, 0)], None),
        ([(300, 500)], None),
        ([(1, 90), (40, 0), (200, 333), (1, 5)], None),
        ([(1, 300)] * 4, None),
        ([(1, 9), (1, 70), (4, 70), (1, 71), (1, 600), (1, 0)], None),
        ([(1, 9), (1, 70), (1, 70), (4, 70), (1, 70), (1, 70), (1, 70), (1, 0)], None),
        ([(3, 127), (1, 127), (1, 127), (1, 127), (1, 50)], 128),
        ([(1, 0)], 128),
        ([(1, 127)], 128),
        ([(127, 0), (128, 0), (129, 0), (500, 0)], 128),
        ([(1, 127), (300, 127), (5, 127), (5, 3), (256, 1), (1, 9)], 128),
        ([(9, 2), (1, 2)], 3),
        ([(4, 0), (1, 0)], 1),
    ],
    ids=str,
)
def test_attention_follows_its_definition(
    sequences: list[tuple[int, int]], window: int | None
) -> None:
    tensors = case(sequences)
    expected = defined(tensors, window)
    torch.testing.assert_close(run(tensors, window), expected, atol=2e-6, rtol=0)


def test_a_sequence_that_is_not_numbers_affects_no_neighbour() -> None:
    tensors = case([(1, 20)] * 3)
    tensors["key"][21:42] = tensors["value"][21:42] = torch.nan
    found = run(tensors, None)
    assert found[1].isnan().all()
    assert found[[0, 2]].isfinite().all()


def test_a_sink_takes_its_share() -> None:
    """Where all scores are equal, it is one more key without a value."""
    tensors = case([(1, 3)]) | {"query": torch.zeros(1, 8, 64), "sinks": torch.zeros(8)}
    value = tensors["value"].repeat_interleave(2, 1)
    torch.testing.assert_close(run(tensors, None)[0], value.sum(0) / 5)


def test_a_sink_far_above_all_scores_leaves_nothing_and_far_below_changes_nothing() -> None:
    tensors = case([(5, 100)])
    above = run(tensors | {"sinks": torch.full((8,), 1e4)}, None)
    assert not above.any()
    below = tensors | {"sinks": torch.full((8,), -1e4)}
    expected = defined(below, None)
    torch.testing.assert_close(run(below, None), expected, atol=2e-6, rtol=0)


def test_scores_that_overflow_an_exponential_are_served() -> None:
    tensors = case([(40, 300), (1, 12)], scale=30.0)
    expected = defined(tensors, None)
    torch.testing.assert_close(run(tensors, None), expected, atol=1e-3, rtol=1e-4)


@pytest.mark.parametrize("window", [None, 128])
def test_bfloat16_is_as_close_as_its_digits_allow(window: int | None) -> None:
    tensors = case([(200, 127), (1, 100)], torch.bfloat16)
    found = run(tensors, window)
    assert found.dtype == torch.bfloat16
    expected = defined(tensors, window)
    torch.testing.assert_close(found.float(), expected, atol=2e-2, rtol=0)


def flash_kernel(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    ends_q: Tensor,
    ends_k: Tensor,
    longest_q: int,
    longest_k: int,
    dropout: float,
    causal: bool,
    debug: bool,
    *,
    scale: float,
    window_size_left: int | None,
    window_size_right: int | None,
) -> tuple[Tensor, ...]:
    """What torch's CUDA operator computes: causal from the last key on, windows by what is left."""
    assert causal
    assert not dropout
    assert not debug
    assert ends_q.dtype == ends_k.dtype == torch.int32
    assert (longest_q, longest_k) == (int(ends_q.diff().max()), int(ends_k.diff().max()))
    assert (window_size_left is None) == (window_size_right is None)
    window = None if window_size_left is None else window_size_left + 1
    assert scale == SCALING
    sinks = torch.full((query.shape[1],), -torch.inf)
    out = plain(batch_of(query, key, value, ends_q, ends_k, window), sinks).to(query.dtype)
    lse = torch.empty(query.shape[1], query.shape[0])
    for place in range(len(ends_q) - 1):
        rows = slice(int(ends_q[place]), int(ends_q[place + 1]))
        keys = key[ends_k[place] : ends_k[place + 1]].float().repeat_interleave(2, 1)
        scores = torch.einsum("qhd,khd->hqk", query[rows].float(), keys) * scale
        past = scores.shape[2] - scores.shape[1]
        seen = torch.ones(scores.shape[1:], dtype=torch.bool).tril(past)
        if window is not None:
            seen = seen.triu(past - window + 1)
        lse[:, rows] = scores.masked_fill(~seen, -torch.inf).logsumexp(-1)
    nothing = torch.empty(0)
    return out, lse, nothing, nothing, nothing


@pytest.mark.parametrize("window", [None, 128])
def test_the_cuda_operator_is_called_as_it_is_defined(
    monkeypatch: pytest.MonkeyPatch, window: int | None
) -> None:
    """Its twin on the CPU stands in for it."""
    monkeypatch.setattr(attention, "_on_cpu", attention._on_cuda)
    monkeypatch.setattr(torch.ops.aten, "_flash_attention_forward", flash_kernel)
    tensors = case([(200, 127), (1, 100), (3, 0)])
    found = run(tensors, window)
    expected = defined(tensors, window)
    torch.testing.assert_close(found, expected, atol=2e-6, rtol=0)


def test_a_device_that_is_no_cpu_takes_the_cuda_operator(monkeypatch: pytest.MonkeyPatch) -> None:
    passed: list[Batch] = []

    def operator(batch: Batch) -> tuple[Tensor, Tensor]:
        passed.append(batch)
        return torch.empty_like(batch.query), torch.empty(8, len(batch.query), device="meta")

    monkeypatch.setattr(attention, "_on_cuda", operator)
    tensors = {name: tensor.to("meta") for name, tensor in case([(3, 4), (1, 0)]).items()}
    sinks = tensors.pop("sinks")
    given = Batch(**tensors, longest_q=3, longest_k=7, scaling=SCALING, window=128)
    assert attend(given, sinks).shape == (4, 8, 64)
    assert passed == [given]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_check_passes_on_this_cpu(dtype: torch.dtype) -> None:
    assert works(heads(8, 4), dtype, CPU)


def test_an_operator_that_is_missing_is_not_used(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def missing(*_: object, **__: object) -> None:
        raise AttributeError("no such operator")

    monkeypatch.setattr(attention, "_on_cpu", missing)
    with caplog.at_level(logging.WARNING):
        assert not works(heads(2, 1), torch.float32, CPU)
    assert "no such operator" in caplog.text


@pytest.mark.parametrize("wrong", [0.01, float("nan")])
@pytest.mark.parametrize("window", [None, 128])
def test_an_operator_that_computes_something_else_is_not_used(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    wrong: float,
    window: int | None,
) -> None:
    """Also where only the results with or without a window are wrong."""
    right = attention._on_cpu

    def off(batch: Batch) -> tuple[Tensor, Tensor]:
        out, lse = right(batch)
        return out + (wrong if batch.window == window else 0), lse

    monkeypatch.setattr(attention, "_on_cpu", off)
    with caplog.at_level(logging.WARNING):
        assert not works(heads(2, 1), torch.float32, CPU)
    assert "has an error of" in caplog.text


def test_it_is_for_continuous_batching_alone() -> None:
    nothing = torch.empty(1, 1, 1, 1)
    with pytest.raises(ValueError, match="paged cache"):
        paged_attention(None, nothing, nothing, nothing, None, SCALING)


def test_a_model_with_it_needs_no_masks(tmp_path: Path) -> None:
    """transformers neither builds any nor plans memory for them."""
    from transformers.generation.continuous_batching.utils import attn_mask_is_needed
    from transformers.utils.generic import is_flash_attention_requested

    model: Any = AutoModelForCausalLM.from_pretrained(write_tiny(tmp_path))
    model.config._attn_implementation = attention.NAME
    assert not attn_mask_is_needed(model.config)
    assert is_flash_attention_requested(model.config)


@pytest.mark.parametrize(
    ("implementation", "device", "planned"),
    [(attention.NAME, "cpu", True), (attention.NAME, "meta", False), ("eager", "cpu", False)],
)
def test_plans_are_made_for_a_cpu(implementation: str, device: str, planned: bool) -> None:
    config = SimpleNamespace(
        _attn_implementation=implementation,
        num_attention_heads=8,
        num_key_value_heads=4,
        head_dim=64,
    )
    model = SimpleNamespace(config=config, device=torch.device(device), dtype=torch.bfloat16)
    shape = Shape(8, 256, torch.bfloat16) if planned else None
    assert planned_shape(model) == shape
