"""The paged key-value cache, changed so that requests share the prefixes of prompts.

transformers stores the keys of a sliding layer in a ring that other requests cannot reuse, and
therefore disables sharing for gpt-oss. Here sliding layers store full pages and read only the
window. This takes more memory, and a repeated prompt is not computed again.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, islice
from typing import Any

import torch
from transformers.generation.continuous_batching import cache as paged
from transformers.generation.continuous_batching.cache_allocators import (
    FULL_ATTENTION,
    SLIDING_ATTENTION,
    FullAttentionCacheAllocator,
)


class SharedPages(FullAttentionCacheAllocator):
    """Full pages, which are evicted one by one: those first that were not used for longest."""

    def free_blocks(self, request_id: str, no_cache: bool = False) -> None:
        """Release the pages of a request, the last one first.

        A prefix is found up to the first page that is missing, so that its last page has to be
        evicted before the others.
        """
        pages = self.block_table.get(request_id)
        if pages is not None:
            self.block_table[request_id] = pages[::-1]
        super().free_blocks(request_id, no_cache)

    def write(
        self, keys: torch.Tensor, values: torch.Tensor, layer: int, places: torch.Tensor
    ) -> None:
        """Store keys and values, [tokens, key heads, width], at `places`."""
        # With nothing to read, `update` only writes.
        self.update(keys, values, layer, places.new_empty(0), places)

    def rows(self, layer: int) -> tuple[torch.Tensor, torch.Tensor]:
        """All keys and values of a layer, [places, key heads, width]."""
        keys, values = self._kv_token_views[layer]
        return keys, values

    @property
    def unused_pages(self) -> int:
        """The number of pages that no request uses, and that the next ones may share."""
        return len(self.ledger.cached_blocks)

    def evict(self, count: int) -> None:
        """Free up to `count` unused pages."""
        pages = [*islice(self.ledger.cached_blocks, count)]
        for page in pages:
            self.ledger.acquire(page)
            self.ledger.release(page, no_cache=True)
        self.pool.free_blocks(self.index, pages)


class WindowPages(SharedPages):
    """Pages of sliding layers, of which only the last window is read."""

    supports_block_table = False
    layer_type = SLIDING_ATTENTION

    def __init__(self, config: Any, **kwargs: Any) -> None:
        # transformers reads it, too, where no layer attends to all keys.
        self.sliding_window: int = config.sliding_window
        super().__init__(config=config, **kwargs)

    def get_seqlen_k(self, past_length: int, query_length: int) -> int:
        return query_length + min(past_length, self.sliding_window - 1)

    def first_read(self, past: int) -> int:
        """The first position to read if the cache has `past` positions."""
        return max(0, past - self.sliding_window + 1)

    def get_read_indices(self, request_id: str, past_length: int, query_length: int) -> list[int]:
        first = self.first_read(past_length)
        # Reads and writes are both ranges of positions, with the same mapping to pages.
        return self.get_write_indices(request_id, first, past_length + query_length - first)


@contextmanager
def sharing_allocators() -> Iterator[None]:
    """A context in which new caches have the allocators of this module."""
    allocators: dict[str, Any] = paged.ATTN_TYPE_TO_ALLOCATOR
    original = dict(allocators)
    allocators.update({FULL_ATTENTION: SharedPages, SLIDING_ATTENTION: WindowPages})
    try:
        yield
    finally:
        allocators.update(original)


def compute_on_one_stream(processor: Any) -> None:
    """Compute steps on the CUDA stream on which their inputs are written.

    transformers computes on a stream of its own, which does not wait for the last of the inputs.
    No steps overlap here, so that a second stream has no use.
    """
    processor.inputs_and_outputs.compute_stream = None
    processor.offloading_manager._compute_stream = None


def keep_tokens_on_host(ios: Any) -> None:
    """Store the tokens of a step where they are chosen and read: on the host.

    transformers stores them on the device, for steps that overlap. Each of the two copies waits
    for it.
    """
    ios.output_ids = torch.zeros(ios.output_ids.shape, dtype=ios.output_ids.dtype)


def longest_request(cache: Any) -> int:
    """The maximum of tokens of a request that has the whole cache."""
    allocators = list(cache.cache_allocators.values())

    def sectors(pages: int) -> int:
        return sum(-(-pages // allocator.blocks_per_sector) for allocator in allocators)

    pages: int = max(allocator.num_blocks for allocator in allocators)
    while pages and sectors(pages) > cache.num_sectors:
        pages -= 1
    return pages * int(allocators[0].tokens_per_page)


class ReadIndices:
    """Computes on the device where a step reads keys and values, from tables of pages.

    transformers lists every position of every request in Python, in each step: 47 ms for 64
    requests of 8,192 tokens. The tables have a 32nd of the entries.

    batch: for each request of the prepared step its id, the number of its tokens in the cache, and
    of those in the step. indices: what the step reads, of each allocator; None if no request has
    tokens in the cache.
    """

    def __init__(self, cache: Any, ios: Any) -> None:
        self.allocators: list[Any] = [*cache.cache_allocators.values()]
        self.batch: list[tuple[str, int, int]] = []
        self.indices: list[torch.Tensor] | None = None
        self._ios = ios
        self._reads = False
        self._prepare = ios.prepare_batch_tensors
        ios.prepare_batch_tensors = self._prepare_batch_tensors
        cache.extend_read_and_write_indices = self._extend

    def _extend(
        self,
        request_id: str,
        past: int,
        queries: int,
        read_index: list[list[int]] | None,
        write_index: list[list[int]],
    ) -> None:
        """Replaces the method of the cache: lists the writes, and records the reads for later."""
        for allocator, indices in zip(self.allocators, write_index, strict=True):
            indices.extend(allocator.get_write_indices(request_id, past, queries))
        self._reads = read_index is not None
        self.batch.append((request_id, past, queries))

    def _prepare_batch_tensors(self, *arguments: Any, **keywords: Any) -> None:
        self.batch, self.indices, self._reads = [], None, False
        self._prepare(*arguments, **keywords)
        if not self._reads:
            return
        self.indices = read_indices(self.allocators, self.batch, self._ios.device)
        for place, indices in enumerate(self.indices):
            self._ios.read_index_storage[place, : len(indices)] = indices
            self._ios.true_read_sizes[place] = len(indices)


def read_indices(
    allocators: Iterable[Any], batch: Sequence[tuple[str, int, int]], device: torch.device
) -> list[torch.Tensor]:
    """The places in the cache that a step reads, request after request, int64; of each allocator.

    batch: as of `ReadIndices`. All tables are copied to the device at once: each copy waits for it.
    """
    tables = [(allocator, *_table(allocator, batch)) for allocator in allocators]
    lists = [part for _, *parts in tables for part in parts]
    on_device = iter(torch.tensor([*chain(*lists)], device=device).split([*map(len, lists)]))
    return [
        _places(allocator, *islice(on_device, 3), tokens=sum(counts))
        for allocator, _, _, counts in tables
    ]


def _table(
    allocator: Any, batch: Sequence[tuple[str, int, int]]
) -> tuple[list[int], list[int], list[int]]:
    """The pages of all requests; for each request a shift, and the number of places to read.

    A shift converts an index of the result to a token index in the concatenated pages.
    """
    size: int = allocator.tokens_per_page
    pages: list[int] = []
    shifts, counts = [], []
    tokens = 0
    for request_id, past, queries in batch:
        first = allocator.first_read(past) if isinstance(allocator, WindowPages) else 0
        end = past + queries
        shifts.append(len(pages) * size + first % size - tokens)
        counts.append(end - first)
        pages += allocator.block_table[request_id][first // size : -(-end // size)]
        tokens += end - first
    return pages, shifts, counts


def _places(
    allocator: Any,
    pages: torch.Tensor,
    shifts: torch.Tensor,
    counts: torch.Tensor,
    *,
    tokens: int,
) -> torch.Tensor:
    """The places to read, from a table. tokens: their number, the sum of `counts`."""
    size: int = allocator.tokens_per_page
    places = torch.repeat_interleave(shifts, counts, output_size=tokens)
    places += torch.arange(tokens, device=pages.device)
    page = torch.div(places, size, rounding_mode="floor")
    inside = places.sub_(page * size)
    return inside.add_((pages * allocator.block_physical_stride)[page])
