"""Splitting a request where its sampling changes, checked against a simulated engine."""

from collections.abc import AsyncGenerator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.base import (
    FinishReason,
    GenerationChunk,
    GenerationRequest,
    SamplingParams,
    SamplingPhase,
    TokenLogprobs,
)
from adapters.errors import BackendFailed, Unsupported
from adapters.phases import PhaseTracker, split_by_phase
from tests.adapters.sampling import tokens

HOT = SamplingParams(temperature=2.0)
BASE = SamplingParams(temperature=1.0)
STOP = 99
# Begins after 1, 2; ends after 3.
PHASE = SamplingPhase(((1, 2),), frozenset({3}), HOT)


class Engine:
    """Says the tokens of `script` from where the prompt ends, `step` to a chunk."""

    def __init__(self, script: list[int], step: int = 1) -> None:
        self.script = script
        self.step = step
        self.asked: list[GenerationRequest] = []
        self.closed = 0

    async def __call__(self, request: GenerationRequest) -> AsyncGenerator[GenerationChunk, None]:
        self.asked.append(request)
        remaining = self.script[len(request.prompt_token_ids) - 1 :][: request.max_tokens]
        if STOP in remaining:
            remaining = remaining[: remaining.index(STOP) + 1]
        try:
            for at in range(0, len(remaining), self.step):
                part = tuple(remaining[at : at + self.step])
                last = at + self.step >= len(remaining)
                reason: Any = ("stop" if part[-1] == STOP else "length") if last else None
                logprobs = tuple(TokenLogprobs(token_id, -1.0) for token_id in part)
                yield GenerationChunk(
                    part,
                    logprobs if request.logprobs is not None else None,
                    reason,
                    0 if at == 0 else None,
                )
        finally:
            self.closed += 1


class Late(Engine):
    """Says why it ended in a chunk of its own, after the last token."""

    def __init__(self, script: list[int], reason: FinishReason) -> None:
        super().__init__(script)
        self.reason = reason

    async def __call__(self, request: GenerationRequest) -> AsyncGenerator[GenerationChunk, None]:
        async for chunk in super().__call__(request):
            yield replace(chunk, finish_reason=None)
        yield GenerationChunk((), finish_reason=self.reason)


def ask(max_tokens: int = 20, **fields: Any) -> GenerationRequest:
    usual: dict[str, Any] = {"phases": (PHASE,), "sampling": BASE}
    return GenerationRequest("r", (0,), max_tokens, frozenset({STOP}), **usual | fields)


async def sample(engine: Engine, request: GenerationRequest) -> list[GenerationChunk]:
    return [chunk async for chunk in split_by_phase(engine, request, "fake")]


def test_the_last_tokens_decide_which_phase_is_active() -> None:
    other = replace(PHASE, begin=((4,), (5, 6, 7)))
    tracker = PhaseTracker((PHASE, other))
    active = [tracker.accept(token_id) for token_id in (2, 1, 2, 9, 4, 3, 5, 6, 7)]
    assert active == [None, None, 0, 0, 1, None, None, None, 1]


def test_a_phase_that_does_not_end_is_active_until_another_begins() -> None:
    tracker = PhaseTracker((PHASE, replace(PHASE, begin=((4,),))), phases_end=False)
    assert [tracker.accept(token_id) for token_id in (1, 2, 3, 4, 3)] == [None, 0, 0, 1, 1]


async def test_each_phase_is_requested_with_its_sampling() -> None:
    engine = Engine([7, 1, 2, 8, 3, 9, 1, 2, 5, STOP])
    chunks = await sample(engine, ask())
    assert tokens(chunks) == engine.script
    assert chunks[-1].finish_reason == "stop"
    assert [request.sampling for request in engine.asked] == [BASE, HOT, BASE, HOT]
    assert [request.prompt_token_ids for request in engine.asked] == [
        (0,),
        (0, 7, 1, 2),
        (0, 7, 1, 2, 8, 3),
        (0, 7, 1, 2, 8, 3, 9, 1, 2),
    ]
    assert [request.max_tokens for request in engine.asked] == [20, 17, 15, 12]
    assert {request.phases for request in engine.asked} == {()}
    assert [request.request_id for request in engine.asked] == ["r", "r-3", "r-5", "r-8"]
    assert engine.closed == 4


async def test_what_was_sampled_past_the_change_is_not_used() -> None:
    engine = Engine([1, 2, 8, 4, STOP], step=4)
    chunks = await sample(engine, ask(logprobs=0))
    assert [chunk.token_ids for chunk in chunks] == [(1, 2), (8, 4, STOP)]
    for chunk in chunks:
        assert chunk.logprobs is not None
        assert tuple(entry.token_id for entry in chunk.logprobs) == chunk.token_ids
    assert [chunk.finish_reason for chunk in chunks] == [None, "stop"]


async def test_only_the_first_request_has_the_cached_tokens() -> None:
    chunks = await sample(Engine([1, 2, 8, STOP]), ask())
    assert [chunk.cached_tokens for chunk in chunks] == [0, None, None, None]


async def test_the_seed_moves_on_so_that_no_draw_repeats() -> None:
    engine = Engine([1, 2, 8, STOP])
    await sample(engine, ask(seed=5))
    assert [request.seed for request in engine.asked] == [5, 7]
    engine = Engine([1, 2, 8, STOP])
    await sample(engine, ask(seed=(1 << 63) - 1))
    assert engine.asked[1].seed == 1


@pytest.mark.parametrize("step", [1, 3])
async def test_a_change_after_the_last_token_asks_for_nothing(step: int) -> None:
    engine = Engine([7, 1, 2, 8], step)
    chunks = await sample(engine, ask(max_tokens=3))
    assert tokens(chunks) == [7, 1, 2]
    assert chunks[-1].finish_reason == "length"
    assert len(engine.asked) == 1


async def test_a_stop_token_that_also_ends_the_phase_ends_the_generation() -> None:
    engine = Engine([1, 2, STOP])
    chunks = await sample(engine, ask(phases=(replace(PHASE, end=frozenset({STOP})),)))
    assert tokens(chunks) == [1, 2, STOP]
    assert len(engine.asked) == 2


async def test_an_engine_may_report_the_end_after_the_last_token() -> None:
    engine = Late([7, 1, 2], "length")
    chunks = await sample(engine, ask(max_tokens=3))
    assert tokens(chunks) == [7, 1, 2]
    assert chunks[-1].finish_reason == "length"


async def test_nothing_is_requested_after_a_stop_token_whose_end_comes_later() -> None:
    engine = Late([1, 2, STOP], "stop")
    chunks = await sample(engine, ask(phases=(replace(PHASE, end=frozenset({STOP})),)))
    assert tokens(chunks) == [1, 2, STOP]
    assert chunks[-1].finish_reason == "stop"
    assert len(engine.asked) == 2


async def test_under_a_grammar_the_phase_goes_on_with_what_is_left_of_it() -> None:
    engine = Engine([7, 1, 2, 8, 3, STOP])
    phase = replace(PHASE, grammar="start: rest")
    await sample(engine, ask(grammar="start: all", phases=(phase,)))
    assert [request.grammar for request in engine.asked] == ["start: all", "start: rest"]
    assert [request.sampling for request in engine.asked] == [BASE, HOT]


async def test_a_grammar_that_cannot_go_on_is_refused_by_name() -> None:
    engine = Engine([STOP])
    with pytest.raises(Unsupported, match="fake backend does not support a grammar together"):
        await sample(engine, ask(grammar="start: all"))
    assert engine.asked == []


async def test_closing_the_generator_closes_the_engines() -> None:
    engine = Engine([1, 2, 8, 8, 8])
    generator = split_by_phase(engine, ask(), "fake")
    for _ in range(3):
        await anext(generator)
    await generator.aclose()
    assert engine.closed == 2


async def test_a_failure_is_the_requests() -> None:
    class Breaking(Engine):
        async def __call__(
            self, request: GenerationRequest
        ) -> AsyncGenerator[GenerationChunk, None]:
            yield GenerationChunk((7,))
            raise BackendFailed("boom")

    with pytest.raises(BackendFailed, match="boom"):
        await sample(Breaking([]), ask())


@given(
    st.lists(st.sampled_from([1, 2, 3, 4, STOP]), min_size=1, max_size=30),
    st.integers(1, 5),
    st.integers(1, 30),
)
async def test_the_tokens_are_those_of_the_whole(
    script: list[int], step: int, max_tokens: int
) -> None:
    engine = Engine(script, step)
    whole = tokens([chunk async for chunk in engine(replace(ask(max_tokens), phases=()))])
    assert tokens(await sample(engine, ask(max_tokens))) == whole


async def test_an_answer_may_have_very_many_chunks() -> None:
    script = [5] * 100_000

    async def whole(request: GenerationRequest) -> AsyncGenerator[GenerationChunk, None]:
        for token_id in script[:-1]:
            yield GenerationChunk((token_id,))
        yield GenerationChunk((5,), finish_reason="length")

    chunks = split_by_phase(whole, ask(len(script)), "test")
    assert sum([len(chunk.token_ids) async for chunk in chunks]) == len(script)
