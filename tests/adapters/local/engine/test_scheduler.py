"""The scheduler with the cache of transformers, without a model: `Simulated` makes up tokens."""

import random
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from transformers import GptOssConfig
from transformers.generation.configuration_utils import ContinuousBatchingConfig
from transformers.generation.continuous_batching import RequestStatus
from transformers.generation.continuous_batching import cache as paged
from transformers.generation.continuous_batching.distributed import DistributedHelper
from transformers.generation.continuous_batching.requests import FutureRequestState, RequestState

from adapters.local.engine.cache import longest_request, sharing_allocators
from adapters.local.engine.chunks import ChunkSize
from adapters.local.engine.prefix_cache import available_pages, evict_as_needed, share_prefixes
from adapters.local.engine.scheduler import RankedScheduler

PAGE = 32
CACHE = 1024


class Simulated:
    """An engine whose steps sample made-up tokens."""

    def __init__(
        self, *, batch_tokens: int = 512, readable: int = 1 << 20, most: int = 64, layers: int = 2
    ) -> None:
        config = GptOssConfig(
            num_hidden_layers=layers,
            hidden_size=16,
            num_attention_heads=1,
            num_key_value_heads=1,
            head_dim=16,
        )
        batching = ContinuousBatchingConfig(
            page_size=PAGE, num_blocks=CACHE // PAGE, max_batch_tokens=batch_tokens
        )
        batching.max_memory_percent = 0.9
        batching.allow_block_sharing = True
        with sharing_allocators():
            self.cache: Any = paged.PagedAttentionCache(
                config, batching, "cpu", DistributedHelper(None, None, {}), torch.float32
            )
        self.cached: dict[str, int] = {}
        self.salts: dict[str, str] = {}
        share_prefixes(self.cache, lambda key: self.salts.get(key), self.cached.__setitem__)
        evict_as_needed(self.cache)
        self.scheduler = RankedScheduler(self.cache, None, most)
        self.priorities: dict[str, int] = {}
        self.scheduler.priority = lambda key: self.priorities.get(key, 0)
        self.ended: list[str] = []
        self.computed = 0
        self._budgets = (batch_tokens, readable)
        self._prompts = iter(range(1, 1_000_000))

    def add(self, name: str, prompt: int, answer: int = 1 << 20, *, shared: int = 0) -> None:
        """Queue a request. shared: the number of prompt tokens that all such requests have."""
        own = [next(self._prompts) for _ in range(prompt - shared)]
        state = RequestState(name, [-1] * shared + own, max_new_tokens=answer)
        self.scheduler.add_waiting_request(state)

    def step(self) -> dict[str, int]:
        """Run a step: the number of tokens that it computed of each request."""
        batch, decodes_fast, tokens, read = self.scheduler.schedule_batch(*self._budgets)
        assert not decodes_fast
        assert tokens == sum(one.query_length for one in batch) <= self._budgets[0]
        assert read == sum(one.state.current_len() for one in batch) <= self._budgets[1]
        for one in batch:
            self._compute(one)
        self.computed += tokens
        return {one.state.request_id: one.query_length for one in batch}

    def _compute(self, one: FutureRequestState) -> None:
        state = one.state
        state.position_offset += one.query_length
        ends = one.has_new_token and state.update_and_check_completion(7, None)
        self.cache.mark_complete_blocks(state, one.complete_blocks)
        if ends:
            self.ended.append(state.request_id)
            self.scheduler.finish_request(state.request_id)

    @property
    def references(self) -> list[int]:
        """How many requests share each of the pages that are in use and may be shared."""
        allocators = self.cache.cache_allocators.values()
        return [count for each in allocators for count in each.ledger.shared_ref_counts.values()]

    def run(self) -> Iterator[dict[str, int]]:
        """Steps until all requests have ended."""
        idle = 0
        while self.scheduler.has_pending_requests():
            step = self.step()
            # A request that had to interrupt itself starts again in the next step.
            idle = 0 if step else idle + 1
            assert idle < 2
            yield step

    def force(self, name: str, count: int) -> None:
        """Have a grammar force the next `count` tokens of a request that decodes."""
        state = self.scheduler.active_requests[name]
        state.generated_tokens += [9] * count
        state.tokens_to_process += [9] * count


def test_requests_end_in_the_order_of_their_arrival_where_the_cache_is_too_small() -> None:
    engine = Simulated()
    for number in range(12):
        engine.add(str(number), 32, 300)
    assert [*engine.run()]
    assert engine.ended == [str(number) for number in range(12)]


@pytest.mark.parametrize("layers", [2, 3, 5])
@pytest.mark.parametrize("seed", range(8))
def test_every_request_ends(seed: int, layers: int) -> None:
    """With 3 layers, the pages of the two kinds of layers differ in size."""
    source = random.Random(seed)
    engine = Simulated(
        batch_tokens=source.choice([64, 512]), most=source.choice([4, 16]), layers=layers
    )
    longest = longest_request(engine.cache)
    for number in range(15):
        prompt = source.choice([source.randint(1, 60), source.randint(1, longest - 2)])
        answer = source.choice([1, 5, source.randint(1, longest - prompt)])
        shared = source.choice([0, min(prompt, 300)])
        engine.priorities[str(number)] = source.choice([0, 0, -1, 1])
        engine.add(str(number), prompt, min(answer, longest - prompt), shared=shared)
        for _ in range(source.randint(0, 30)):
            engine.step()
    for _ in engine.run():
        pass
    assert len(engine.ended) == 15


def test_a_large_prompt_starts_after_one_that_ends_with_its_first_token() -> None:
    engine = Simulated()
    engine.add("short", 20, 1)
    engine.add("large", 1000, 1)
    assert engine.step() == {"short": 20}
    assert engine.step() == {"large": 512}


def test_prompts_that_do_not_fit_together_start_one_after_another() -> None:
    engine = Simulated()
    for name in ("first", "second"):
        engine.add(name, 600, 10)
    engine.step()
    assert engine.scheduler.active_requests.keys() == {"first"}
    assert [*engine.run()]
    assert engine.computed == 2 * (600 + 9)


def test_what_was_evicted_while_a_request_waited_is_not_counted_as_cached() -> None:
    engine = Simulated()
    engine.add("first", 320, 1, shared=320)
    engine.step()
    engine.add("running", 300, 720)
    engine.step()
    engine.add("waiting", 900, 1, shared=320)
    engine.step()
    assert engine.cached["waiting"] == 320
    assert [*engine.run()]
    assert engine.cached["waiting"] < 320


def test_an_interrupted_request_continues_with_the_pages_that_are_left() -> None:
    engine = Simulated(batch_tokens=1024)
    engine.add("old", 500, 200)
    engine.add("new", 400, 150)
    steps = [*engine.run()]
    again = [step["new"] for step in steps if step.get("new", 1) > 1]
    assert len(again) == 2  # its prompt, and what was evicted of it
    assert again[1] < 200


def test_no_page_is_lost() -> None:
    engine = Simulated()
    for number in range(20):
        engine.add(str(number), 10 + 17 * number, 40, shared=number % 3 * 5)
    assert [*engine.run()]
    assert available_pages(engine.cache) == engine.cache.num_sectors
    assert not any(each.block_table for each in engine.cache.cache_allocators.values())
    assert not engine.references


def test_a_prompt_that_finds_more_to_share_keeps_no_page_twice() -> None:
    engine = Simulated(batch_tokens=128)
    engine.add("warm", 100, 1, shared=100)
    assert [*engine.run()]
    for name in ("first", "second", "third"):
        engine.add(name, 300, 2, shared=300)
    engine.step()
    assert engine.references
    assert [*engine.run()]
    assert not engine.references


def test_all_requests_with_room_start_in_one_step() -> None:
    engine = Simulated()
    for number in range(20):
        engine.add(str(number), 10)
    assert engine.step() == {str(number): 10 for number in range(20)}


def test_a_short_request_starts_beside_one_that_has_most_of_the_cache() -> None:
    engine = Simulated()
    engine.add("long", 870)
    for _ in range(3):
        engine.step()
    engine.add("short", 20)
    assert engine.step()["short"] == 20


def test_a_request_without_room_is_overtaken_by_those_with_room() -> None:
    engine = Simulated()
    engine.add("running", 400)
    engine.step()
    engine.add("large", 700)
    engine.add("small", 20)
    assert engine.step() == {"running": 1, "small": 20}


def test_a_request_is_overtaken_only_so_often() -> None:
    engine = Simulated()
    engine.add("running", 400)
    engine.step()
    engine.add("large", 700)
    for number in range(70):
        engine.add(str(number), 20, 1)
    for _ in range(200):
        engine.step()
    assert len(engine.ended) == 64


def test_requests_start_again_after_one_that_was_overtaken_so_often() -> None:
    engine = Simulated()
    engine.add("running", 400, 100)
    engine.step()
    engine.add("large", 700, 1)
    for number in range(70):
        engine.add(str(number), 20, 1)
    assert [*engine.run()]
    assert len(engine.ended) == 72


@pytest.mark.parametrize(("refused", "starts"), [(15, True), (16, False)])
def test_a_step_looks_past_only_so_many_requests(refused: int, starts: bool) -> None:
    engine = Simulated()
    engine.add("running", 400)
    engine.step()
    for number in range(refused):
        engine.add(str(number), 700)
    engine.add("small", 20)
    assert ("small" in engine.step()) is starts


@pytest.mark.parametrize("leaves", ["ends", "is cancelled"])
def test_a_request_gets_the_room_of_one_that_left_after_its_first_step(leaves: str) -> None:
    engine = Simulated()
    engine.add("stream", 20)
    engine.step()
    engine.add("first", 500, 1 if leaves == "ends" else 100)
    engine.add("second", 500, 1)
    assert engine.step() == {"stream": 1, "first": 500}
    if leaves == "is cancelled":
        engine.scheduler.set_request_cancellation("first")
        engine.scheduler.clear_cancelled_requests()
    assert engine.step() == {"stream": 1, "second": 500}


def test_a_request_starts_when_the_prompt_that_it_shares_has_been_computed() -> None:
    engine = Simulated()
    engine.add("first", 600, shared=600)
    engine.add("second", 600, shared=600)
    steps = [engine.step() for _ in range(3)]
    assert steps == [{"first": 512}, {"first": 88}, {"first": 1, "second": 24}]


def test_prompts_that_come_at_once_share_what_the_first_one_computes() -> None:
    engine = Simulated(batch_tokens=256)
    for name in ("first", "second", "third"):
        engine.add(name, 300, shared=300)
    assert engine.step() == {"first": 256}
    assert engine.step() == {"first": 44, "second": 44, "third": 44}
    assert engine.cached == {"first": 0, "second": 256, "third": 256}


@pytest.mark.parametrize(("requests", "prompt"), [(2, 300), (8, 100)])
def test_requests_with_one_prompt_that_fits_into_a_step_compute_it_once(
    requests: int, prompt: int
) -> None:
    engine = Simulated()
    for number in range(requests):
        engine.add(str(number), prompt, 1, shared=prompt)
    assert [*engine.run()]
    assert engine.computed == prompt + (requests - 1) * (prompt % PAGE)


def test_another_prompt_takes_the_turn_of_one_that_waits_for_shared_pages() -> None:
    engine = Simulated(batch_tokens=256)
    for name in ("first", "second"):
        engine.add(name, 200, shared=200)
    engine.add("other", 100)
    assert engine.step() == {"first": 156, "other": 100}


def test_a_prompt_does_not_wait_for_the_smaller_part_of_its_pages() -> None:
    engine = Simulated()
    for name in ("first", "second"):
        engine.add(name, 200, shared=64)
    assert engine.step() == {"first": 200, "second": 200}


def test_prompts_that_wait_are_not_looked_for_in_each_step() -> None:
    engine = Simulated(batch_tokens=64)
    searched = []
    search = engine.cache.search_prefix_match

    def searching(key: str, tokens: list[int]) -> int:
        searched.append(key)
        found: int = search(key, tokens)
        return found

    engine.cache.search_prefix_match = searching
    engine.add("first", 400, 1, shared=300)
    for name in ("second", "third"):
        engine.add(name, 320, 1, shared=300)
    assert len([*engine.run()]) >= 8
    assert max(map(searched.count, searched)) <= 3


def test_a_prompt_does_not_wait_for_pages_of_another_salt() -> None:
    engine = Simulated()
    engine.salts = {"first": "one", "second": "two"}
    for name in engine.salts:
        engine.add(name, 100, shared=100)
    assert engine.step() == {"first": 100, "second": 100}


def test_a_prompt_waits_no_longer_than_it_finds_pages() -> None:
    engine = Simulated(batch_tokens=20)
    engine.add("first", 100, shared=60)
    engine.add("second", 60, shared=60)
    assert engine.step() == {"first": 20}
    assert engine.step() == {"first": 10, "second": 10}


def test_pages_that_a_prompt_finds_are_room_for_others() -> None:
    engine = Simulated(batch_tokens=64)
    engine.add("first", 500, shared=300)
    engine.add("second", 400, shared=300)
    engine.add("third", 60)
    assert "third" not in engine.step()
    assert any("third" in engine.step() for _ in range(4))


def test_a_prompt_that_has_begun_is_not_looked_for_again() -> None:
    engine = Simulated(batch_tokens=100)
    engine.add("first", 120, shared=120)
    engine.add("second", 120, shared=120)
    assert engine.step() == {"first": 100}
    assert engine.step() == {"first": 20, "second": 24}
    assert engine.cached == {"first": 0, "second": 96}


def test_streams_that_share_a_prompt_take_turns_where_a_step_cannot_read_all() -> None:
    engine = Simulated(readable=2048)
    for number in range(6):
        engine.add(str(number), 481, shared=480)
        engine.step()
    steps = [engine.step() for _ in range(30)]
    assert max(map(len, steps)) == 4
    for number in range(6):
        assert sum(str(number) in step for step in steps) >= 15


def test_a_short_prompt_does_not_wait_for_a_long_one() -> None:
    engine = Simulated(batch_tokens=100)
    engine.add("long", 800)
    engine.step()
    engine.add("longer", 90)
    engine.add("short", 30)
    assert engine.step() == {"long": 50, "short": 30, "longer": 20}


def test_the_oldest_prompt_gets_half_of_each_step() -> None:
    engine = Simulated(batch_tokens=64)
    engine.add("long", 400, 1)
    for number in range(5):
        engine.add(str(number), 100, 1)
    steps = [*engine.run()]
    assert all(step["long"] >= 30 for step in steps[:6])


def test_a_step_has_at_most_as_many_requests_as_its_limit() -> None:
    engine = Simulated(most=2)
    for name in ("first", "second", "third"):
        engine.add(name, 20, 3)
    assert engine.step() == {"first": 20, "second": 20}
    assert {len(step) for step in engine.run()} == {1, 2}


def test_lower_priority_values_come_first() -> None:
    engine = Simulated(most=1)
    engine.priorities = {"urgent": -1, "idle": 1}
    for name in ("first", "idle", "second", "urgent"):
        engine.add(name, 20, 2)
    assert [*engine.run()]
    assert engine.ended == ["urgent", "first", "second", "idle"]


@pytest.mark.parametrize("priority", [-5, 5])
def test_a_request_that_was_left_does_not_change_where_others_queue(priority: int) -> None:
    engine = Simulated(most=1)
    waiting = ["a", "b", "left", "c", "d"]
    engine.priorities = {**dict.fromkeys([*waiting, "new"], priority), "urgent": priority - 2}
    engine.add("running", 20, 2)
    engine.step()
    for name in waiting:
        engine.add(name, 20, 2)
    del engine.priorities["left"]  # the engine knows no priority of a request that was released
    for name in ("new", "urgent"):
        engine.add(name, 20, 2)
    engine.scheduler.set_request_cancellation("left")
    engine.scheduler.clear_cancelled_requests()
    assert [*engine.run()]
    assert engine.ended == ["running", "urgent", "a", "b", "c", "d", "new"]


def test_a_request_with_a_lower_priority_value_keeps_its_pages() -> None:
    engine = Simulated()
    engine.priorities = {"urgent": -1}
    engine.add("old", 450, 200)
    engine.step()
    engine.add("urgent", 450, 200)
    assert [*engine.run()]
    assert engine.ended == ["urgent", "old"]


def test_a_chunk_limits_prompts_and_forced_tokens_beside_a_stream() -> None:
    engine = Simulated()
    engine.scheduler.chunk_size = size = ChunkSize()
    engine.add("stream", 10)
    engine.add("forced", 10)
    engine.step()
    engine.force("forced", 300)
    engine.add("prompt", 100)
    chunk = size.tokens(100)
    assert engine.step() == {"stream": 1, "forced": 1 + chunk}
    assert engine.step() == {"stream": 1, "forced": 300 - chunk, "prompt": 100}
    state = engine.scheduler.active_requests["forced"]
    assert state.status == RequestStatus.DECODING
    assert engine.step() == {"stream": 1, "forced": 1, "prompt": 1}


def test_prompts_use_whole_steps_where_no_request_decodes() -> None:
    engine = Simulated()
    engine.scheduler.chunk_size = ChunkSize()
    engine.add("prompt", 700)
    assert engine.step() == {"prompt": 512}


@pytest.mark.parametrize("cancelled", ["running", "waiting"])
def test_a_cancelled_request_leaves_its_room(cancelled: str) -> None:
    engine = Simulated()
    engine.add("running", 900)
    engine.step()
    engine.add("waiting", 900, 3)
    engine.step()
    engine.scheduler.set_request_cancellation(cancelled)
    engine.scheduler.clear_cancelled_requests()
    other = "waiting" if cancelled == "running" else "running"
    assert other in engine.step()
