from types import SimpleNamespace
from typing import Any

from adapters.base import BackendConfig, GenerationRequest, SamplingParams
from adapters.local.backend import LocalBackend
from adapters.local.engine.prefix_cache import share_prefixes
from tests.adapters.local.conftest import started

PAGE = 32


async def cached(
    backend: LocalBackend, ids: range, max_tokens: int = 1, *, salt: str | None = None
) -> int:
    """The number of tokens of a prompt that were in the cache."""
    request = GenerationRequest(
        "r", tuple(ids), max_tokens, frozenset(), SamplingParams(temperature=0), cache_salt=salt
    )
    chunks = [chunk async for chunk in backend.generate(request)]
    return chunks[0].cached_tokens or 0


def shared(cache: Any, report: Any = lambda key, count: None) -> None:
    share_prefixes(cache, lambda key: None, report)


def test_matched_prefixes_are_reported_with_their_length() -> None:
    found: list[tuple[str, int]] = []
    cache = SimpleNamespace(
        search_prefix_match=lambda request_id, ids: len(ids) // 2 * 2, free_blocks=None
    )
    shared(cache, lambda *match: found.append(match))
    assert cache.search_prefix_match("a", [1, 2, 3]) == 2
    assert cache.search_prefix_match("b", [1]) == 0
    assert found == [("a", 2), ("b", 0)]


def test_tokens_are_listed_only_where_a_page_is_complete() -> None:
    """To list the tokens of a long request takes longer than to choose one."""

    class Tokens(list[int]):
        lists = 0

        def __add__(self, other: Any) -> Any:
            Tokens.lists += 1
            return super().__add__(other)

    marked: list[tuple[str, list[int], int]] = []
    pages = SimpleNamespace(mark_complete_blocks=lambda *arguments: marked.append(arguments))
    cache = SimpleNamespace(
        cache_allocators={"full": pages}, search_prefix_match=None, free_blocks=None
    )
    shared(cache)
    state = SimpleNamespace(request_id="r", initial_tokens=Tokens([1, 2]), generated_tokens=[3])
    cache.mark_complete_blocks(state, {})
    assert (Tokens.lists, marked) == (0, [])
    cache.mark_complete_blocks(state, {"full": 1})
    assert marked == [("r", [1, 2, 3], 1)]


async def test_requests_with_other_salts_share_nothing(small: LocalBackend) -> None:
    assert await cached(small, range(100), salt="one") == 0
    assert await cached(small, range(100), salt="other") == 0
    assert await cached(small, range(100)) == 0
    for salt in ("one", "other", None):
        assert await cached(small, range(100), salt=salt) == 96


async def test_a_conversation_that_nearly_fills_the_cache_is_found_again(
    small_config: BackendConfig,
) -> None:
    async with started(small_config, cache_tokens="512") as backend:
        assert await cached(backend, range(480)) == 0
        assert await cached(backend, range(490)) == 480
        assert await cached(backend, range(500)) == 480


async def test_the_conversation_that_was_not_used_for_longest_loses_its_last_pages(
    small_config: BackendConfig,
) -> None:
    async with started(small_config, cache_tokens="512") as backend:
        first, second, third = range(224), range(300, 524), range(600, 792)
        await cached(backend, first)
        await cached(backend, second)
        assert await cached(backend, first) == 192
        await cached(backend, third)  # takes 4 pages of `second`, and 2 free ones
        # The last token of a prompt is computed again, in a page that is taken for it.
        assert await cached(backend, first) == 192
        assert await cached(backend, third) == 160
        assert await cached(backend, second) == 64


async def test_pages_are_evicted_for_an_answer_too(small_config: BackendConfig) -> None:
    async with started(small_config, cache_tokens="256") as backend:
        await cached(backend, range(128))
        await cached(backend, range(200, 232), max_tokens=200)
        assert await cached(backend, range(200, 240)) == PAGE
        assert await cached(backend, range(128)) == 0
