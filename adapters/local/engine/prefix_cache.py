"""The prefix cache: pages of earlier requests that later ones share.

transformers has one, with three properties that are changed here: it does not tell what it found,
it ignores the pages that the last step of a request completed, and it evicts all pages at once.
"""

from collections.abc import Callable
from typing import Any


def report_cached_prefixes(cache: Any, report: Callable[[str, int], None]) -> None:
    """Call `report` with the key of a request and the number of its prompt tokens in the cache."""
    search = cache.search_prefix_match

    def search_and_report(request_id: str, prompt_ids: list[int]) -> int:
        tokens: int = search(request_id, prompt_ids)
        if tokens:
            report(request_id, tokens)
        return tokens

    cache.search_prefix_match = search_and_report


def share_pages_of_finished_requests(cache: Any) -> None:
    """Let requests reuse the pages that the last step of another request completed.

    transformers ignores them. If a request ends with its first token, these are up to 4,096 tokens.
    """

    def mark_complete_blocks(state: Any, complete_blocks: dict[str, int]) -> None:
        if not complete_blocks:  # most steps; the list of all tokens takes a millisecond
            return
        token_ids = state.initial_tokens + state.generated_tokens
        for name, count in complete_blocks.items():
            cache.cache_allocators[name].mark_complete_blocks(state.request_id, token_ids, count)

    cache.mark_complete_blocks = mark_complete_blocks


def evict_as_needed(cache: Any, scheduler: Any) -> None:
    """Evict unused pages when a request needs them, and as many as it needs.

    As soon as less than 15 % of the cache is free, transformers evicts all of them, before it looks
    for the prefixes of waiting requests: conversations that nearly fill the cache would be computed
    again at every turn.
    """
    can_store = cache.can_store_request_tokens
    free_capacity = cache.compute_free_capacity

    def evict_and_store(state: Any, request_len: int, dry_run: bool = False) -> bool:
        if not dry_run:
            _evict(cache, state, request_len)
        return bool(can_store(state, request_len, dry_run))

    def has_safety_margin() -> bool:
        cache.pool.try_to_free_sectors()
        unused = sum(
            allocator.unused_pages * allocator.bytes_per_block
            for allocator in cache.cache_allocators.values()
        )
        share = unused / (cache.num_sectors * cache.bytes_per_sector)
        return bool(free_capacity() + share >= scheduler.safety_margin)

    cache.can_store_request_tokens = evict_and_store
    scheduler._try_to_meet_safety_margin = has_safety_margin


def _evict(cache: Any, state: Any, tokens: int) -> None:
    """Evict the pages that the next `tokens` tokens of a request need, if that is enough."""
    missing = {
        allocator: allocator.missing_pages(state.request_id, state.current_len(), tokens)
        for allocator in cache.cache_allocators.values()
    }

    def sectors(pages: dict[Any, int]) -> int:
        return sum(-(-count // allocator.blocks_per_sector) for allocator, count in pages.items())

    free = cache.pool.num_free_sectors
    without = {each: max(0, count - each.unused_pages) for each, count in missing.items()}
    if sectors(without) <= free < sectors(missing):
        for allocator, count in missing.items():
            allocator.evict(count)
