import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.repetition import KINDS, TOKENS, alarms, latency, tokens_of
from harmony.events import Header
from harmony.messages import Channel
from harmony.vocab import END, MESSAGE
from server.generation.repetition import LONGEST_PERIOD, WINDOW, RepetitionGuard

ANALYSIS = Header(Channel.ANALYSIS)
FINAL = Header(Channel.FINAL)
CALL = Header(Channel.ANALYSIS, "python", "code")
CAUGHT_WITHIN = 640


@pytest.fixture
def reported() -> list[str]:
    return []


@pytest.fixture
def guard(reported: list[str]) -> RepetitionGuard:
    return RepetitionGuard(reported.append)


@pytest.mark.parametrize("kind", KINDS)
def test_no_text_is_taken_for_a_loop(kind: str) -> None:
    tokens = tokens_of(kind, TOKENS)
    assert len(tokens) == TOKENS
    assert alarms(tokens) == []


@given(
    period=st.integers(1, LONGEST_PERIOD),
    before=st.integers(0, 700),
    seed=st.integers(0, 2**32),
)
def test_every_loop_of_a_short_period_is_caught_soon(period: int, before: int, seed: int) -> None:
    assert WINDOW <= latency(period, before, random.Random(seed)) <= CAUGHT_WITHIN


@pytest.mark.parametrize("period", [65, 66, 100, 128, 511])
def test_what_is_repeated_in_longer_pieces_is_no_loop(period: int) -> None:
    assert alarms([*range(period)] * 20) == []


@pytest.mark.parametrize("size", [2, 3, 63, 64, 65, 1000])
def test_a_loop_is_found_at_the_same_token_whatever_the_chunks_are(size: int) -> None:
    tokens = [*range(5, 105), *[1, 2, 3] * 400]
    assert alarms(tokens, size)[0] == alarms(tokens)[0]


def test_a_loop_with_one_other_token_is_none() -> None:
    assert alarms([*[7] * (WINDOW - 1), 8, *[7] * (WINDOW - 1)]) == []


@pytest.mark.parametrize(
    ("header", "place"),
    [
        (FINAL, "final"),
        (Header(Channel.COMMENTARY), "commentary"),
        (CALL, "call"),
        (None, "header"),
    ],
)
def test_a_loop_outside_of_reasoning_is_reported_once_and_never_closed(
    guard: RepetitionGuard, reported: list[str], header: Header | None, place: str
) -> None:
    assert not any(guard.saw([7], header) for _ in range(3000))
    assert reported == [place]


def test_each_message_that_loops_is_reported(guard: RepetitionGuard, reported: list[str]) -> None:
    for _ in range(2):
        header = Header(Channel.FINAL)
        assert not any(guard.saw([7], header) for _ in range(WINDOW + 100))
    assert reported == ["final", "final"]


def test_closed_reasoning_is_reported_and_what_follows_is_looked_at_anew(
    guard: RepetitionGuard, reported: list[str]
) -> None:
    for _ in range(2):
        header = Header(Channel.ANALYSIS)
        seen = 1
        while not guard.saw([7], header):
            seen += 1
        assert WINDOW <= seen <= CAUGHT_WITHIN
        guard.closed()
    assert reported == ["analysis", "analysis"]


def test_what_came_before_the_reasoning_is_no_part_of_its_loop(guard: RepetitionGuard) -> None:
    assert not any(guard.saw([7], FINAL) for _ in range(500))
    assert not any(guard.saw([7], ANALYSIS) for _ in range(WINDOW - 1))


def test_messages_of_reasoning_that_repeat_are_a_loop(guard: RepetitionGuard) -> None:
    """It is found in a header here, and closed in the next body."""
    steps: list[tuple[int, bool]] = [(MESSAGE, True), (1, True), (2, True), (END, False)]
    steps += [(token, False) for token in (10, 11, 12, 13)]
    closed = []
    for position in range(800):
        token, is_open = steps[position % len(steps)]
        if position % len(steps) == 0:
            header = Header(Channel.ANALYSIS)
        if guard.saw([token], header if is_open else None):
            closed.append(position)
    assert WINDOW <= closed[0] <= CAUGHT_WITHIN
    assert steps[closed[0] % len(steps)][1]


def test_a_piece_ends_with_a_header(guard: RepetitionGuard) -> None:
    assert guard.span([1, 2, MESSAGE, 4, 5]) == 3
    assert guard.span([1, 2, 4, 5]) == 4
    assert guard.span([]) == 0
    assert guard.span([9] * 100) == 64
