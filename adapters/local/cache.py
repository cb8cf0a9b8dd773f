"""The paged key-value cache: one that shares prompt prefixes although gpt-oss has sliding layers.

transformers keeps a sliding layer's keys in a ring, which no other request can reuse, and so
shares nothing for gpt-oss. Here sliding layers keep full pages, of which only the window is read:
memory for speed, a repeated prompt is then looked up instead of computed.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from transformers.generation.continuous_batching import RequestStatus
from transformers.generation.continuous_batching import cache as paged
from transformers.generation.continuous_batching.cache_allocators import (
    SLIDING_ATTENTION,
    FullAttentionCacheAllocator,
)


class WindowPages(FullAttentionCacheAllocator):
    """Full pages for sliding layers; reads the last window only."""

    supports_block_table = False
    layer_type = SLIDING_ATTENTION

    def __init__(self, config: Any, **kwargs: Any) -> None:
        self._past_read: int = config.sliding_window - 1
        super().__init__(config=config, **kwargs)

    def get_seqlen_k(self, past_length: int, query_length: int) -> int:
        return query_length + min(past_length, self._past_read)

    def first_read(self, past: int) -> int:
        """The first position that is read where `past` are in the cache."""
        return max(0, past - self._past_read)

    def get_read_indices(self, request_id: str, past_length: int, query_length: int) -> list[int]:
        first = self.first_read(past_length)
        # What is written and what is read are both runs of positions, mapped to pages alike.
        return self.get_write_indices(request_id, first, past_length + query_length - first)


@contextmanager
def sharing_allocators() -> Iterator[None]:
    """While this holds, a new cache uses `WindowPages` for sliding layers."""
    allocators: dict[str, Any] = paged.ATTN_TYPE_TO_ALLOCATOR
    original = allocators[SLIDING_ATTENTION]
    allocators[SLIDING_ATTENTION] = WindowPages
    try:
        yield
    finally:
        allocators[SLIDING_ATTENTION] = original


def watch_prefixes(cache: Any, found: Callable[[str, int], None]) -> None:
    """Call `found` with a request's key and how many of its prompt's tokens were in the cache."""
    search = cache.search_prefix_match

    def watched(request_id: str, prompt_ids: list[int]) -> int:
        tokens: int = search(request_id, prompt_ids)
        if tokens:
            found(request_id, tokens)
        return tokens

    cache.search_prefix_match = watched


def admit_after_cancellations(scheduler: Any) -> None:
    """Let waiting requests in once cancelled ones have made room.

    After it has taken a running request's pages away, the scheduler lets none in before another
    ends; of ends it knows those by itself alone, so that cancelling all that run would leave what
    waits, and all that comes, waiting for ever.
    """
    clear = scheduler.clear_cancelled_requests

    def cleared() -> list[Any]:
        running = len(scheduler.active_requests)
        states: list[Any] = clear()
        if len(scheduler.active_requests) < running or not scheduler.active_requests:
            scheduler.block_new_requests = False
        return states

    scheduler.clear_cancelled_requests = cleared


def bound_steps_of_decoding(scheduler: Any, tokens: int) -> None:
    """Compute at most `tokens` in a step while any request decodes, whatever the step could take.

    Each decoding request waits for the whole step, the prompts of others included.
    """
    schedule = scheduler.schedule_batch

    def bounded(token_budget: int, cache_budget: int) -> Any:
        requests = list(scheduler.active_requests.values())
        if any(request.status == RequestStatus.DECODING for request in requests):
            token_budget = min(token_budget, tokens)
        return schedule(token_budget, cache_budget)

    scheduler.schedule_batch = bounded


def longest_request(cache: Any) -> int:
    """The most tokens that one request can hold when it has the cache to itself."""
    allocators = list(cache.cache_allocators.values())

    def sectors(pages: int) -> int:
        return sum(-(-pages // allocator.blocks_per_sector) for allocator in allocators)

    pages: int = max(allocator.num_blocks for allocator in allocators)
    while pages and sectors(pages) > cache.num_sectors:
        pages -= 1
    return pages * int(allocators[0].tokens_per_page)


class ReadIndices:
    """Where each step reads keys and values, worked out on the device from tables of pages.

    transformers lists every position of every request in Python instead, at each step: 47 ms for
    64 requests of 8,192 tokens. The tables have a 32nd of the entries.
    """

    def __init__(self, cache: Any, ios: Any) -> None:
        self._cache = cache
        self._ios = ios
        self._batch: list[tuple[str, int, int]] = []
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
        """In place of the cache's own: lists what is written, and notes who reads."""
        for allocator, indices in zip(
            self._cache.cache_allocators.values(), write_index, strict=True
        ):
            indices.extend(allocator.get_write_indices(request_id, past, queries))
        if read_index is not None:
            self._batch.append((request_id, past, queries))

    def _prepare_batch_tensors(self, *arguments: Any, **more: Any) -> None:
        self._batch = []
        self._prepare(*arguments, **more)
        if not self._batch:
            return
        for place, allocator in enumerate(self._cache.cache_allocators.values()):
            indices = read_indices(allocator, self._batch, self._ios.device)
            self._ios.read_index_storage[place, : len(indices)] = indices
            self._ios.true_read_sizes[place] = len(indices)


def read_indices(
    allocator: Any, batch: Sequence[tuple[str, int, int]], device: torch.device
) -> torch.Tensor:
    """The places in the cache of all that a step reads, request after request, int64.

    batch: of each request its id, how many tokens it has in the cache, and how many are to come.
    """
    size: int = allocator.tokens_per_page
    pages: list[int] = []
    shifts, counts = [], []
    tokens = 0
    for request_id, past, queries in batch:
        first = allocator.first_read(past) if isinstance(allocator, WindowPages) else 0
        end = past + queries
        # From a place in the result to one in `pages`, taken as one long run of tokens.
        shifts.append(len(pages) * size + first % size - tokens)
        counts.append(end - first)
        pages += allocator.block_table[request_id][first // size : -(-end // size)]
        tokens += end - first
    table = torch.tensor(pages, device=device) * allocator.block_physical_stride
    shift, count = torch.tensor((shifts, counts), device=device)
    places = torch.repeat_interleave(shift, count, output_size=tokens)
    places += torch.arange(tokens, device=device)
    page = torch.div(places, size, rounding_mode="floor")
    inside = places.sub_(page * size)
    return inside.add_(table[page])
