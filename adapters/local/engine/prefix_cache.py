"""The prefix cache: pages of earlier requests that later ones share.

transformers has one, with properties that are changed here: it does not tell what it found, it
ignores the pages that the last step of a request completed, it knows no salts, and it evicts all
pages at once.
"""

import struct
from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from typing import Any

Need = tuple[str, int, int]
"""The key of a request, the number of its tokens in the cache, and that of the tokens to store."""


def share_prefixes(
    cache: Any, salt: Callable[[str], str | None], report: Callable[[str, int], None]
) -> None:
    """Let requests reuse the pages that others with an equal salt have completed.

    transformers leaves out what the last step of a request completed: up to 4,096 tokens of one
    that ends with its first token. salt: returns that of a waiting request, by its key. report:
    called with the key of a request and the number of its prompt tokens in the cache. `cache.salts`
    has the salts of running requests.
    """
    search, free = cache.search_prefix_match, cache.free_blocks
    salts: dict[str, str | None] = {}

    def search_and_report(request_id: str, prompt_ids: list[int]) -> int:
        salts[request_id] = salt(request_id)
        tokens: int = search(request_id, _salted(prompt_ids, salts[request_id]))
        report(request_id, tokens)
        return tokens

    def mark_complete_blocks(state: Any, complete_blocks: dict[str, int]) -> None:
        if not complete_blocks:  # most steps; the list of all tokens takes a millisecond
            return
        key = state.request_id
        token_ids = _salted(state.initial_tokens + state.generated_tokens, salts.get(key))
        for name, count in complete_blocks.items():
            cache.cache_allocators[name].mark_complete_blocks(key, token_ids, count)

    def free_blocks(request_id: str, no_cache: bool = False) -> None:
        salts.pop(request_id, None)
        free(request_id, no_cache)

    cache.salts = salts
    cache.free_blocks = free_blocks
    cache.search_prefix_match = search_and_report
    cache.mark_complete_blocks = mark_complete_blocks


def _salted(token_ids: list[int], salt: str | None) -> list[int]:
    """Ids of which pages are known by hashes: those of another salt have other first ids."""
    if salt is None:
        return token_ids
    words = struct.unpack("=4I", blake2b(salt.encode(), digest_size=16).digest())
    # transformers hashes ids of 32 bits with a sign.
    first = [token_id ^ (word >> 1) for token_id, word in zip(token_ids, words, strict=False)]
    return first + token_ids[len(first) :]


def evict_as_needed(cache: Any) -> None:
    """Evict unused pages when a request needs them, and as many as it needs.

    transformers evicts all of them as soon as less than 15 % of the cache is free: conversations
    that nearly fill the cache would be computed again at every turn.
    """
    can_store = cache.can_store_request_tokens

    def evict_and_store(state: Any, request_len: int, dry_run: bool = False) -> bool:
        if can_store(state, request_len, dry_run):
            return True
        if dry_run:
            return False
        _evict(cache, state, request_len)
        return bool(can_store(state, request_len))

    cache.can_store_request_tokens = evict_and_store


def available_pages(cache: Any) -> int:
    """How much of the cache is free, or would be after evictions. Only to compare with others."""
    pages: int = cache.pool.num_free_sectors
    for allocator in cache.cache_allocators.values():
        pages += allocator.unused_pages + cache.pool.count_free_blocks(allocator.index)
    return pages


def has_room(cache: Any, needs: Sequence[Need], reserve: float) -> bool:
    """Whether the cache can store all of `needs`, so that `reserve`, a share of it, stays free."""
    missing = _missing_pages(cache, needs, reserve)
    return _sectors_after_eviction(missing) <= int(cache.pool.num_free_sectors)


def _evict(cache: Any, state: Any, tokens: int) -> None:
    """Evict the pages that the next `tokens` tokens of a request need, if that is enough."""
    missing = _missing_pages(cache, [(state.request_id, state.current_len(), tokens)])
    if _sectors_after_eviction(missing) <= cache.pool.num_free_sectors:
        for allocator, count in missing.items():
            allocator.evict(count)


def _missing_pages(cache: Any, needs: Sequence[Need], reserve: float = 0.0) -> dict[Any, int]:
    """How many more free pages each allocator needs."""
    allocators = cache.cache_allocators.values()
    share = reserve / len(allocators)
    return {
        each: max(
            0,
            sum(int(each.needs_new_blocks(*need)) for need in needs)
            + int(share * each.num_blocks)
            - int(cache.pool.count_free_blocks(each.index)),
        )
        for each in allocators
    }


def _sectors_after_eviction(missing: Mapping[Any, int]) -> int:
    """The sectors that pages need if all unused pages are evicted."""
    left = ((each, max(0, count - each.unused_pages)) for each, count in missing.items())
    return sum(-(-count // each.blocks_per_sector) for each, count in left)
