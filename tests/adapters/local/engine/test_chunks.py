import asyncio
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers.generation.continuous_batching import RequestStatus

from adapters.base import BackendConfig, GenerationRequest, SamplingParams
from adapters.local.engine.chunks import STEP_SECONDS, ChunkSize, measure_steps
from tests.adapters.local.conftest import started
from tests.adapters.sampling import sample


def settled(seconds_per_token: float, length: int = 2000, steps: int = 10) -> ChunkSize:
    """A size after some steps on a machine that takes `seconds_per_token`."""
    size = ChunkSize()
    for _ in range(steps):
        tokens = size.tokens(length)
        size.update(tokens, tokens * seconds_per_token, length)
    return size


@given(milliseconds=st.floats(0.1, 0.7))
def test_steps_reach_their_duration(milliseconds: float) -> None:
    tokens = settled(milliseconds / 1000).tokens(2000)
    assert tokens * milliseconds / 1000 == pytest.approx(STEP_SECONDS, rel=0.02)


@pytest.mark.parametrize(("seconds_per_token", "tokens"), [(1.0, 128), (1e-6, 1024)])
def test_a_chunk_has_a_least_and_a_greatest_size(seconds_per_token: float, tokens: int) -> None:
    assert settled(seconds_per_token).tokens(2000) == tokens


def test_a_step_that_took_long_makes_the_next_one_smaller_at_once() -> None:
    size = settled(0.0001)
    size.update(4096, 2.0, 2000)
    assert size.tokens(2000) == 204


def test_chunks_grow_no_more_than_twofold_in_a_step() -> None:
    size = ChunkSize()
    size.update(128, 1e-6, 100)
    assert size.tokens(100) == 256


def test_a_longer_prompt_begins_with_a_smaller_chunk() -> None:
    size = settled(0.0002, length=100)
    assert size.tokens(100) == pytest.approx(500, abs=1)
    assert 128 < size.tokens(10_000) < 250
    assert size.tokens(50) == size.tokens(100)


@pytest.mark.parametrize(("tokens", "seconds"), [(0, 1.0), (20, 1.0), (500, 0.0)])
def test_steps_that_say_nothing_about_prompts_change_nothing(tokens: int, seconds: float) -> None:
    size = settled(0.0002)
    before = size.tokens(2000)
    size.update(tokens, seconds, 2000)
    assert size.tokens(2000) == before


def request(status: RequestStatus, prompt: int) -> Any:
    generated = [7] if status == RequestStatus.DECODING else []
    return SimpleNamespace(initial_tokens=[0] * prompt, generated_tokens=generated)


def processor_with(*batch: Any) -> Any:
    return SimpleNamespace(
        inputs_and_outputs=SimpleNamespace(requests_in_batch=list(batch)),
        _generation_step=lambda model: None,
    )


DECODING, PREFILLING = RequestStatus.DECODING, RequestStatus.PREFILLING


def test_the_duration_of_steps_is_measured() -> None:
    """By the tokens that could have been fewer, not by the next one of each stream."""
    times: Iterator[float] = iter([10.0, 10.5, 20.0, 20.5, 30.0, 30.5])
    prompt = SimpleNamespace(state=request(PREFILLING, 3000), query_length=800)
    streams = [SimpleNamespace(state=request(DECODING, 9000), query_length=1)] * 50
    forced = SimpleNamespace(state=request(DECODING, 9000), query_length=401)
    processor = processor_with(*streams, prompt)
    size = ChunkSize()
    measure_steps(processor, size, lambda: next(times))
    processor._generation_step(None)
    assert size.tokens(3000) == 160
    processor.inputs_and_outputs.requests_in_batch = streams
    processor._generation_step(None)
    assert size.tokens(3000) == 160
    processor.inputs_and_outputs.requests_in_batch = [*streams, prompt, forced]
    processor._generation_step(None)
    assert size.tokens(3000) == 240
    assert size.tokens(5000) < 240  # the prompt that was measured is shorter


async def test_a_long_prompt_takes_several_steps_beside_a_stream(
    small_config: BackendConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[list[int]] = []

    def ask(length: int, tokens: int) -> GenerationRequest:
        prompt = tuple(place % 900 for place in range(length))
        greedy = SamplingParams(temperature=0)
        return GenerationRequest("r", prompt, tokens, frozenset(), greedy)

    async with started(small_config, batch_tokens="4096", cache_tokens="8192") as backend:
        manager: Any = backend._engine._manager  # type: ignore[union-attr]
        compute = manager._generation_step

        def recorded() -> None:
            batch = manager.batch_processor.inputs_and_outputs.requests_in_batch
            steps.append([one.query_length for one in batch])
            compute()

        monkeypatch.setattr(manager, "_generation_step", recorded)
        stream = backend.generate(ask(5, 4000))
        await anext(stream)
        async with asyncio.timeout(60):
            assert await sample(backend, ask(3000, 1))
        await stream.aclose()
    beside = [lengths[1] for lengths in steps if len(lengths) == 2]
    assert sum(beside) == 3000
    assert max(beside) <= 1024
