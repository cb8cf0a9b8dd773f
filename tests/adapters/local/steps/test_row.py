from typing import Any

import pytest
import torch

from adapters.base import GenerationRequest, SamplingParams, SamplingPhase
from adapters.grammars import GrammarCompiler, TokenMask
from adapters.local.steps.row import Counts, Row

CPU = torch.device("cpu")
GREEDY = SamplingParams(temperature=0)
PENALTY = SamplingParams(temperature=0, frequency_penalty=1.0)


def make_row(
    prompt: tuple[int, ...] = (7,),
    max_tokens: int = 100,
    mask: TokenMask | None = None,
    **fields: Any,
) -> Row:
    return Row("k", GenerationRequest("r", prompt, max_tokens, frozenset({99}), **fields), mask)


def tallied(row: Row) -> dict[int, float]:
    assert row.phase_state.counts is not None
    tally = row.phase_state.counts.tally(CPU)
    return dict(zip(tally.ids.tolist(), tally.counts.tolist(), strict=True))


def accept(row: Row, *token_ids: int) -> None:
    for token_id in token_ids:
        assert row.accept(token_id) is None


def test_a_stop_token_ends_the_row() -> None:
    row = make_row()
    assert [row.accept(5), row.accept(99)] == [None, "stop"]


def test_the_last_of_max_tokens_ends_the_row() -> None:
    row = make_row(max_tokens=2)
    assert [row.accept(5), row.accept(5)] == [None, "length"]


def test_a_stop_token_at_the_limit_is_a_stop() -> None:
    assert make_row(max_tokens=1).accept(99) == "stop"


def test_frequency_counts_sampled_tokens_only() -> None:
    row = make_row(prompt=(1, 2), sampling=PENALTY)
    accept(row, 2, 5, 2)
    assert tallied(row) == {2: 2.0, 5: 1.0}


def test_repetition_looks_at_the_prompt_too() -> None:
    row = make_row(prompt=(1, 2, 1), sampling=SamplingParams(repetition_penalty=1.5))
    accept(row, 2, 5)
    assert tallied(row) == {1: 0.0, 2: 1.0, 5: 1.0}


def test_counts_grow_with_the_tokens() -> None:
    counts = Counts([3])
    for token_id in range(100):
        counts.add(token_id)
    tally = counts.tally(CPU)
    assert sorted(tally.ids.tolist()) == list(range(100))
    assert tally.counts.tolist() == [1.0] * 100


def test_the_event_loop_which_creates_a_row_does_not_read_the_prompt() -> None:
    prompt = iter((1, 2))
    Counts(prompt)
    assert [*prompt] == [1, 2]


def test_there_are_no_counts_without_penalties() -> None:
    assert make_row().phase_state.counts is None


def test_a_phase_holds_from_its_beginning_to_its_end_and_may_come_again() -> None:
    phase = SamplingPhase(begin=((10, 11), (12,)), end=frozenset({20}), params=PENALTY)
    row = make_row(sampling=GREEDY, phases=(phase,))
    base = row.phase_state
    in_phase = []
    for token_id in (11, 10, 11, 5, 20, 6, 12, 5, 10, 11, 20):
        accept(row, token_id)
        in_phase.append(row.phase_state is not base)
    assert in_phase == [False, False, True, True, False, False, True, True, True, True, False]
    accept(row, 12)
    assert tallied(row) == {5: 2.0, 20: 2.0, 10: 1.0, 11: 1.0}


def test_tokens_outside_a_phase_count_for_the_base_alone() -> None:
    phase = SamplingPhase(begin=((10,),), end=frozenset({20}), params=PENALTY)
    row = make_row(sampling=PENALTY, phases=(phase,))
    accept(row, 1, 10, 2, 20, 3)
    assert tallied(row) == {1: 1.0, 10: 1.0, 3: 1.0}


def test_a_phase_may_take_over_from_another() -> None:
    first = SamplingPhase(begin=((10,),), end=frozenset({20}), params=SamplingParams(top_k=1))
    second = SamplingPhase(begin=((11,),), end=frozenset({20}), params=SamplingParams(top_k=2))
    row = make_row(phases=(first, second))
    seen = []
    for token_id in (10, 11, 20):
        accept(row, token_id)
        seen.append(row.phase_state.params.top_k)
    assert seen == [1, 2, 0]


def test_what_the_prompt_ends_with_begins_no_phase() -> None:
    phase = SamplingPhase(begin=((10, 11),), end=frozenset(), params=PENALTY)
    row = make_row(prompt=(10,), sampling=GREEDY, phases=(phase,))
    accept(row, 11)
    assert row.phase_state.params == GREEDY


def test_a_seed_fixes_the_numbers_by_position() -> None:
    first, second = make_row(seed=5), make_row(seed=5, prompt=(1, 2, 3))
    numbers = []
    for row in (first, second):
        own = []
        for _ in range(3):
            own.append(row.uniform(0))
            accept(row, 1)
        numbers.append(own)
    assert numbers[0] == numbers[1]
    assert len(set(numbers[0])) == 3


def test_without_a_seed_the_numbers_are_fresh() -> None:
    assert make_row().uniform(0) != make_row().uniform(0)


@pytest.mark.parametrize(("temperature", "greedy"), [(0.0, True), (1e-6, True), (0.01, False)])
def test_a_temperature_next_to_nothing_is_greedy(temperature: float, greedy: bool) -> None:
    assert make_row(sampling=SamplingParams(temperature=temperature)).phase_state.greedy is greedy


FORCED = "start: <[5]> <[6]> <[7]> <[6]> (<[8]> | <[9]>)"


async def test_forced_tokens_count_as_sampled_ones(compiler: GrammarCompiler) -> None:
    mask = await compiler.compile(FORCED)
    phase = SamplingPhase(begin=((7,),), end=frozenset({20}), params=GREEDY)
    row = make_row(mask=mask, sampling=PENALTY, phases=(phase,), max_tokens=5)
    mask.consume(5)
    accept(row, 5)
    base = row.phase_state
    assert row.take_forced() == (6, 7, 6)
    assert row.phase_state is not base
    assert row.accept(8) == "length"


@pytest.mark.parametrize(
    ("grammar", "fields", "forced"),
    [
        (FORCED, {"max_tokens": 4}, (6, 7)),
        (FORCED, {"max_tokens": 2}, ()),
        (FORCED, {"logprobs": 0}, ()),
        ("start: <[5]> <[6]> <[99]>", {}, (6,)),
    ],
)
async def test_the_last_token_and_those_with_logprobs_are_sampled(
    compiler: GrammarCompiler, grammar: str, fields: dict[str, Any], forced: tuple[int, ...]
) -> None:
    mask = await compiler.compile(grammar)
    row = make_row(mask=mask, **fields)
    mask.consume(5)
    accept(row, 5)
    assert row.take_forced() == forced
