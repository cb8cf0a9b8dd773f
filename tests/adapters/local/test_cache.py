from types import SimpleNamespace

import pytest
from transformers.generation.continuous_batching import cache as paged
from transformers.generation.continuous_batching.cache_allocators import (
    SLIDING_ATTENTION,
    SlidingAttentionCacheAllocator,
)

from adapters.local.cache import (
    WindowPages,
    longest_request,
    sharing_allocators,
    watch_prefixes,
)


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


def test_transformers_own_allocator_is_back_afterwards() -> None:
    def registered() -> object:
        return paged.ATTN_TYPE_TO_ALLOCATOR[SLIDING_ATTENTION]

    with sharing_allocators():
        assert registered() is WindowPages
    assert registered() is SlidingAttentionCacheAllocator


def test_matched_prefixes_are_told_with_their_length() -> None:
    found: list[tuple[str, int]] = []
    cache = SimpleNamespace(search_prefix_match=lambda request_id, ids: len(ids) // 2 * 2)
    watch_prefixes(cache, lambda *match: found.append(match))
    assert cache.search_prefix_match("a", [1, 2, 3]) == 2
    assert cache.search_prefix_match("b", [1]) == 0
    assert found == [("a", 2)]
