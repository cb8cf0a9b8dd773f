"""Decides which requests compute which tokens in the next step, and which have to wait for pages.

The scheduler of transformers is not used: it keeps all prompts waiting while less than 15 % of the
cache is free, computes prompts one after another, and puts a request that needs a page behind all
that have not started.
"""

from bisect import insort
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from transformers.generation.continuous_batching import RequestStatus
from transformers.generation.continuous_batching.requests import FutureRequestState
from transformers.generation.continuous_batching.scheduler import SCHEDULER_MAPPING, Scheduler

from adapters.local.engine.chunks import ChunkSize
from adapters.local.engine.prefix_cache import available_pages, has_room

NAME = "ranked"
"""Its name in transformers."""

# How many requests without room a step looks past, to find others that may overtake them.
_MOST_REFUSED = 16
_MOST_OVERTAKES = 64
# Shares of the pages that stay free when a request is admitted, for the growth of those that run.
_RESERVE = 1 / 16
_RESERVE_OF_OVERTAKERS = 1 / 8


class RankedScheduler(Scheduler):
    """Requests with lower priority values, and among equals older ones, come first.

    Every request that decodes gets its next token in each step. Where a step cannot read the tokens
    of all, those that it leaves out come first in the next one. A prompt is admitted if the cache
    has room for all of it, and a part of the cache stays free; others may overtake one that has
    not enough room. Where a running request needs a page and none is free, the last one in rank is
    interrupted: it waits in the queue again, and its pages stay in the cache for it until they are
    evicted.
    """

    chunk_size: ChunkSize | None = None
    """Limits the tokens of a step beside the first one of each request that decodes."""

    priority: Callable[[str], int] = staticmethod(lambda key: 0)
    """Returns the priority of a request, by its key."""

    def __init__(
        self, cache: Any, safety_margin: float | None, max_requests_per_batch: int
    ) -> None:
        """safety_margin: not used; the reserves of this module take its place."""
        super().__init__(cache, 0.0, max_requests_per_batch)

    def reset(self) -> None:
        super().reset()
        self._overtakes = 0
        self._refused: dict[tuple[str, bool], int] = {}
        self._refused_beside: set[tuple[str, bool]] = set()
        self._skipped: set[str] = set()
        # The ranks with which waiting requests were queued; some may not wait any more.
        self._ranks: dict[str, tuple[int, float]] = {}

    def add_waiting_request(self, state: Any) -> None:
        """Queue a request behind those that come before it in rank."""
        key = state.request_id
        self.waiting_requests[key] = state
        self._ranks = {one: self._ranks[one] for one in self.waiting_requests_order}
        # A request that nobody waits for any more loses its priority value before it is removed.
        self._ranks[key] = self._rank(state)
        insort(self.waiting_requests_order, key, key=self._ranks.__getitem__)

    def schedule_batch(
        self, token_budget: int, cache_budget: int
    ) -> tuple[list[FutureRequestState], bool, int, int]:
        """The requests of the next step with their tokens, False, and the numbers of tokens that
        the step computes and reads.

        token_budget, cache_budget: the maxima of these numbers.
        """
        self.cache.pool.try_to_free_sectors()
        plan = self._plan(token_budget, cache_budget, self._admit())
        self._skipped = {*self.active_requests} - {*plan}
        scheduled, read = [], 0
        running = deque(sorted(self.active_requests.values(), key=self._rank))
        while running:
            state = running.popleft()
            count = plan.get(state.request_id)
            if count is not None and self._has_pages(state, count, running):
                read += state.current_len()
                scheduled.append(self._schedule(state, count))
        return scheduled, False, sum(one.query_length for one in scheduled), read

    def _admit(self) -> set[str]:
        """Start waiting requests, as far as there is room for them. Returns their keys."""
        started: set[str] = set()
        refused: dict[tuple[str, bool], int] = {}
        available = available_pages(self.cache)
        if not self._refused_beside <= self._running():
            self._refused = {}
        for key in [*self.waiting_requests_order]:
            full = len(self.active_requests) >= self.max_requests_per_batch
            overtaken = refused and self._overtakes >= _MOST_OVERTAKES
            if full or overtaken or len(refused) >= _MOST_REFUSED:
                break
            state = self.waiting_requests[key]
            overtakes = bool(refused)
            # Beside the same requests, a prompt without room has it after pages have become free.
            hopeless = available <= self._refused.get((key, overtakes), -1)
            if hopeless or not self._start(state, overtakes):
                refused[key, overtakes] = available
                continue
            self._overtakes = self._overtakes + 1 if overtakes else 0
            self.waiting_requests_order.remove(key)
            self.active_requests[key] = self.waiting_requests.pop(key)
            started.add(key)
            available = available_pages(self.cache)
        self._refused, self._refused_beside = refused, self._running()
        return started

    def _running(self) -> set[tuple[str, bool]]:
        """The running requests, and whether the prompt of each is in the cache.

        One that leaves may have had no pages yet, but room that was kept for its prompt. Others may
        share a prompt that is in the cache.
        """
        return {(key, bool(state.generated_tokens)) for key, state in self.active_requests.items()}

    def _start(self, state: Any, overtakes: bool) -> bool:
        """Start with the pages of the prompt that are in the cache, if there is room for the rest.

        overtakes: whether a request before it has no room.
        """
        tokens, found = state.initial_tokens, self._share(state)
        needs = [
            (one.request_id, one.current_len(), len(_tokens(one)))
            for one in self.active_requests.values()
        ]
        needs.append((state.request_id, found, len(tokens) - found))
        reserve = _RESERVE_OF_OVERTAKERS if overtakes else _RESERVE
        if self.active_requests and not has_room(self.cache, needs, reserve):
            self.cache.free_blocks(state.request_id)
            return False
        state.status = RequestStatus.PREFILLING
        return True

    def _share(self, state: Any) -> int:
        """Give `state`, which has no pages, the pages of its prompt that are in the prefix cache.
        Returns the number of their tokens.
        """
        tokens = state.initial_tokens
        found: int = self.cache.search_prefix_match(state.request_id, tokens)
        state.position_offset = found
        state.remaining_prefill_tokens = tokens[found:]
        return found

    def _plan(self, token_budget: int, cache_budget: int, started: set[str]) -> dict[str, int]:
        """The requests of the next step, with the number of tokens that it may compute of each.

        Of requests with one prompt that come at once, only the first one begins in the step that
        they are admitted for. The others search the prefix cache again when they begin.

        started: the requests that were admitted for this step.
        """
        # Requests of which no step has computed a token yet.
        unbegun = {key for key, one in self.active_requests.items() if not one.tokens_to_process}
        unsearched = unbegun - started
        while True:
            plan = dict(self._planned(token_budget, cache_budget, started))
            looked = [key for key in plan if key in unsearched]
            unsearched.difference_update(looked)
            found = [key for key in looked if self._finds_more(self.active_requests[key])]
            if not found:
                return plan
            # There is more room for those that were refused: these need less of it.
            self._refused = {}

    def _finds_more(self, state: Any) -> bool:
        """Search the prefix cache again for `state`, of which no token was computed.

        Returns whether more of its prompt was found than before.
        """
        before: int = state.position_offset
        self.cache.free_blocks(state.request_id)
        return self._share(state) > before

    def _planned(
        self, token_budget: int, cache_budget: int, may_wait: set[str]
    ) -> Iterator[tuple[str, int]]:
        """Requests with the number of tokens that the next step may compute of each.

        may_wait: the requests that may be left out for this step: see `_without_doubles`.
        """
        states = sorted(self.active_requests.values(), key=self._rank)
        # Those that the last step had to leave out come first.
        states.sort(key=lambda state: state.request_id not in self._skipped)
        readable = []
        for state in states:
            if state.current_len() <= cache_budget:
                cache_budget -= state.current_len()
                readable.append(state)
        decoding = [state for state in readable if state.generated_tokens]
        prompts = [state for state in readable if not state.generated_tokens]
        budget = token_budget - len(decoding)
        if decoding and self.chunk_size is not None:
            longest = max((len(state.initial_tokens) for state in prompts), default=0)
            budget = min(budget, self.chunk_size.tokens(longest))
        for state in decoding:
            more = min(len(_tokens(state)) - 1, budget)
            budget -= more
            yield state.request_id, 1 + more
        prompts.sort(key=self._rank)
        yield from _shares([*self._without_doubles(prompts, may_wait)], budget)

    def _without_doubles(self, prompts: Sequence[Any], may_wait: set[str]) -> Iterator[Any]:
        """Leave out those prompts that may wait and share at least half of their remaining tokens
        with a prompt before them: the next step finds these in the prefix cache.
        """
        cache: Any = self.cache
        size = max(each.tokens_per_page for each in cache.cache_allocators.values())
        first: dict[tuple[Any, ...], Any] = {}
        for state in prompts:
            tokens, start = state.initial_tokens, state.position_offset // size * size
            # Requests of another salt must not show in how long this one takes.
            page = (cache.salts.get(state.request_id), start, *tokens[start : start + size])
            other = first.setdefault(page, state)
            # The last token of a prompt is computed in any case.
            end = start + max(size, (len(tokens) - start) // 2)
            doubles = end < len(tokens) and tokens[start:end] == other.initial_tokens[start:end]
            if other is state or state.request_id not in may_wait or not doubles:
                yield state

    def _has_pages(self, state: Any, count: int, others: deque[Any]) -> bool:
        """Whether `state` has pages for `count` more tokens.

        Interrupts the `others`, the last one first, and `state` itself if that does not suffice.
        """
        while not self.cache.can_store_request_tokens(state, count):
            if not others:
                self._interrupt(state)
                if not self.active_requests:
                    # Its own unused pages are spread so that too few sectors are free.
                    self.cache.evict_cached_blocks()
                return False
            self._interrupt(others.pop())
        return True

    def _interrupt(self, state: Any) -> None:
        self.finish_request(state.request_id)
        again = state.create_equivalent_initial_request()
        again.created_time = state.created_time
        self.add_waiting_request(again)

    def _rank(self, state: Any) -> tuple[int, float]:
        return self.priority(state.request_id), state.created_time

    def _schedule(self, state: Any, count: int) -> FutureRequestState:
        """Have the next step compute `count` tokens of `state`."""
        tokens = _tokens(state)
        state.tokens_to_process, state.remaining_prefill_tokens = tokens[:count], tokens[count:]
        ends = not state.remaining_prefill_tokens
        state.status = RequestStatus.DECODING if ends else RequestStatus.PREFILLING
        complete = self.cache.count_new_complete_blocks(state, count)
        return FutureRequestState(state, ends, complete, count)


def _tokens(state: Any) -> list[int]:
    """The tokens of a running request that are not in the cache."""
    decodes = state.status == RequestStatus.DECODING
    tokens: list[int] = state.tokens_to_process if decodes else state.remaining_prefill_tokens
    return tokens


def _shares(prompts: Sequence[Any], budget: int) -> Iterator[tuple[str, int]]:
    """Prompts with their parts of the budget.

    The first one gets at least a half. The rest is for those with the fewest tokens left, so that
    a short prompt does not wait for the whole of a long one.
    """
    if not prompts:
        return
    first = prompts[0]
    half = min(len(_tokens(first)), (budget + 1) // 2)
    budget -= half
    for state in sorted(prompts, key=lambda state: len(_tokens(state))):
        count = len(_tokens(state)) - (half if state is first else 0)
        count = min(count, budget)
        budget -= count
        if state is first:
            count += half
        if count:
            yield state.request_id, count


SCHEDULER_MAPPING[NAME] = RankedScheduler
