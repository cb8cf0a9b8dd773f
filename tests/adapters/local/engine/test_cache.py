import dataclasses
import json
import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, GptOssConfig
from transformers.generation.continuous_batching import cache as paged
from transformers.generation.continuous_batching.cache_allocators import (
    FullAttentionCacheAllocator,
)
from transformers.generation.continuous_batching.input_outputs import ContinuousBatchingIOs

from adapters.base import BackendConfig, GenerationRequest, SamplingParams
from adapters.local.engine.cache import (
    SharedPages,
    WindowPages,
    keep_tokens_on_host,
    longest_request,
    read_indices,
    sharing_allocators,
)
from tests.adapters.local.conftest import started
from tests.adapters.local.tiny import write_tiny
from tests.adapters.sampling import sample


def allocator(pages: int, per_sector: int) -> SimpleNamespace:
    return SimpleNamespace(num_blocks=pages, blocks_per_sector=per_sector, tokens_per_page=32)


def paged_cache(sectors: int, *allocators: SimpleNamespace) -> SimpleNamespace:
    named = {str(place): one for place, one in enumerate(allocators)}
    return SimpleNamespace(num_sectors=sectors, cache_allocators=named)


@pytest.mark.parametrize(
    ("cache", "tokens"),
    [
        # Both kinds of layers need a sector for each page.
        (paged_cache(10, allocator(10, 1), allocator(10, 1)), 5 * 32),
        # One kind has three pages to a sector: 7 pages need 7 + 3 sectors.
        (paged_cache(10, allocator(10, 1), allocator(30, 3)), 7 * 32),
        (paged_cache(10, allocator(10, 1)), 10 * 32),
        (paged_cache(1, allocator(1, 1), allocator(1, 1)), 0),
    ],
)
def test_the_longest_request_fills_every_sector(cache: SimpleNamespace, tokens: int) -> None:
    assert longest_request(cache) == tokens


def test_transformers_own_allocators_are_back_afterwards() -> None:
    original = dict(paged.ATTN_TYPE_TO_ALLOCATOR)
    with sharing_allocators():
        assert {*paged.ATTN_TYPE_TO_ALLOCATOR.values()} == {SharedPages, WindowPages}
    assert original == paged.ATTN_TYPE_TO_ALLOCATOR


@pytest.mark.parametrize("page", [1, 16, 32])
def test_read_indices_are_those_that_the_allocators_list(page: int) -> None:
    source = random.Random(page)
    lengths = [(0, 1), (0, 300), (1, 1), (31, 1), (32, 1), (127, 2), (128, 1), (129, 64), (500, 77)]
    batch = [(str(place), *length) for place, length in enumerate(lengths)]
    kinds: list[Any] = [FullAttentionCacheAllocator, WindowPages]
    allocators = [
        kind(
            index=index,
            config=GptOssConfig(num_hidden_layers=2),
            num_key_value_heads=1,
            cache_dtype=torch.bfloat16,
            page_size=page,
            layer_indices=[0, 1],
            allow_block_sharing=True,
        )
        for index, kind in enumerate(kinds)
    ]
    for allocator in allocators:
        allocator.block_physical_stride = 5 * page
        for request_id, past, queries in batch:
            pages = -(-(past + queries) // page) + source.randrange(3)
            allocator.block_table[request_id] = [source.randrange(10_000) for _ in range(pages)]
    expected = [
        [index for one in batch for index in allocator.get_read_indices(*one)]
        for allocator in allocators
    ]
    found = read_indices(allocators, batch, torch.device("cpu"))
    assert [one.dtype for one in found] == [torch.int64] * 2
    assert [one.tolist() for one in found] == expected


def test_tokens_stay_on_the_host() -> None:
    """No step waits for a device to store or to read them."""
    ios = SimpleNamespace(output_ids=torch.ones((1, 5), dtype=torch.int32, device="meta"))
    keep_tokens_on_host(ios)
    assert ios.output_ids.device.type == "cpu"
    assert torch.equal(ios.output_ids, torch.zeros((1, 5), dtype=torch.int32))


async def test_steps_are_computed_where_their_inputs_are_written(
    small_config: BackendConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on CUDA, where transformers makes a second stream."""
    init = ContinuousBatchingIOs.__init__

    def with_a_stream(self: Any, *arguments: Any, **keywords: Any) -> None:
        init(self, *arguments, **keywords)
        self.compute_stream = object()

    monkeypatch.setattr(ContinuousBatchingIOs, "__init__", with_a_stream)
    async with started(small_config) as backend:
        processor = backend._engine._manager.batch_processor  # type: ignore[union-attr]
        assert processor.inputs_and_outputs.compute_stream is None
        assert processor.offloading_manager._compute_stream is None
        assert await sample(backend, GenerationRequest("r", (1, 2, 3), 2, frozenset()))


async def test_a_model_without_layers_that_attend_to_all_keys_is_served(
    small_config: BackendConfig, tmp_path: Path
) -> None:
    """As one with a single layer. Its answer leaves the window of 8 tokens."""
    config = write_tiny(tmp_path) / "config.json"
    kinds = {"layer_types": ["sliding_attention"] * 2, "sliding_window": 8}
    config.write_text(json.dumps({**json.loads(config.read_text()), **kinds}))
    model: Any = AutoModelForCausalLM.from_pretrained(
        str(tmp_path), dtype=torch.float32, attn_implementation="eager"
    )
    prompt = tuple(range(5, 45))
    expected = model.generate(torch.tensor([prompt]), max_new_tokens=12, do_sample=False)
    request = GenerationRequest("r", prompt, 12, frozenset(), SamplingParams(temperature=0))
    async with started(dataclasses.replace(small_config, model=str(tmp_path))) as backend:
        assert await sample(backend, request) == expected[0, len(prompt) :].tolist()
