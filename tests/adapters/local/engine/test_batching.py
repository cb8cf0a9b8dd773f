from types import SimpleNamespace
from typing import Any

import pytest
import torch
from transformers import GptOssConfig

from adapters.local.engine import batching as batchings
from adapters.local.engine.batching import batching
from adapters.local.model import attention
from adapters.local.options import Options


def model(device: str, implementation: str, parameters: int = 20_000_000) -> Any:
    config = GptOssConfig(num_hidden_layers=24)
    config._attn_implementation = implementation
    return SimpleNamespace(
        config=config,
        device=torch.device(device),
        dtype=torch.bfloat16,
        num_parameters=lambda: parameters,
    )


@pytest.mark.parametrize(
    ("device", "implementation", "tokens"),
    [
        ("cpu", attention.NAME, 4096),
        ("cuda", attention.NAME, 4096),
        ("cuda", "kernels-community/vllm-flash-attn3", 4096),
        ("cpu", "eager", 512),
        ("mps", "paged|eager", 512),
        ("cuda", "eager", 128),
    ],
)
def test_steps_are_as_large_as_the_attention_bears(
    monkeypatch: pytest.MonkeyPatch, device: str, implementation: str, tokens: int
) -> None:
    monkeypatch.setattr(batchings, "free_memory", lambda device: 10e9)
    made = model(device, implementation)
    assert batching(made, Options()).max_batch_tokens == tokens
    assert batching(made, Options(batch_tokens=64)).max_batch_tokens == 64
    assert batching(made, Options(batch_tokens=64)).max_requests_per_batch == 64


def test_a_large_model_takes_small_steps_on_a_cpu() -> None:
    billions = 20_000_000_000
    assert batching(model("cpu", attention.NAME, billions), Options()).max_batch_tokens == 512
    assert batching(model("cuda", attention.NAME, billions), Options()).max_batch_tokens == 4096


def test_the_cache_takes_what_is_left_where_flash_attention_computes() -> None:
    assert batching(model("cuda", attention.NAME), Options()).num_blocks is None
    assert batching(model("cpu", attention.NAME), Options()).num_blocks == 1024
    assert batching(model("cuda", attention.NAME), Options(cache_tokens=100)).num_blocks == 4


@pytest.mark.parametrize("free", [2e9, 10e9])
def test_eager_attention_on_a_gpu_has_a_cache_that_leaves_room_for_its_scores(
    monkeypatch: pytest.MonkeyPatch, free: float
) -> None:
    monkeypatch.setattr(batchings, "free_memory", lambda device: free)
    blocks = batching(model("cuda", "eager"), Options()).num_blocks
    assert blocks is not None
    tokens = blocks * 32
    states = tokens * 2 * 24 * 8 * 64 * 2
    scores = tokens * 346e3 * 128 / 512  # as measured
    assert 0.7 * free < states + scores < 0.85 * free


def test_a_gpu_without_memory_has_the_smallest_cache_that_works(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(batchings, "free_memory", lambda device: 0)
    assert batching(model("cuda", "eager"), Options()).num_blocks == 2
