"""The paged key-value cache: one that shares prompt prefixes although gpt-oss has sliding layers.

transformers keeps a sliding layer's keys in a ring, which no other request can reuse, and so
shares nothing for gpt-oss. Here sliding layers keep full pages, of which only the window is read:
memory for speed, a repeated prompt is then looked up instead of computed.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

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

    def get_read_indices(self, request_id: str, past_length: int, query_length: int) -> list[int]:
        first = max(0, past_length - self._past_read)
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
