import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.repetition import KINDS, TOKENS, alarms, latency, tokens_of
from harmony.events import Header
from harmony.messages import Channel
from harmony.tokenizer import encode_with_control
from server.generation.repetition import EVERY, LONGEST_PERIOD, WINDOW, RepetitionGuard

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


def test_a_loop_with_one_other_token_is_none() -> None:
    assert alarms([*[7] * (WINDOW - 1), 8, *[7] * (WINDOW - 1)]) == []


LOOP = [7] * WINDOW


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
    assert not any(guard.closes(LOOP, header) for _ in range(5))
    assert reported == [place]
    assert guard.look == WINDOW + 5 * EVERY


def test_each_message_that_loops_is_reported(guard: RepetitionGuard, reported: list[str]) -> None:
    for header in (Header(Channel.FINAL), Header(Channel.FINAL)):
        assert not guard.closes(LOOP, header)
    assert reported == ["final", "final"]


def test_closed_reasoning_is_reported_and_what_follows_is_looked_at_anew(
    guard: RepetitionGuard, reported: list[str]
) -> None:
    assert guard.closes(LOOP, ANALYSIS)
    guard.closed(515)
    assert reported == ["analysis"]
    assert guard.look == 515 + WINDOW
    assert guard.closes(LOOP, Header(Channel.ANALYSIS))


def repeated(channel: str) -> list[int]:
    message = f"<|channel|>{channel}<|message|>Let me see.<|end|><|start|>assistant"
    return (encode_with_control(message) * 60)[:WINDOW]


def test_messages_of_reasoning_that_repeat_are_a_loop(guard: RepetitionGuard) -> None:
    assert guard.closes(repeated("analysis"), ANALYSIS)


def test_a_loop_of_messages_is_closed_in_the_next_body(
    guard: RepetitionGuard, reported: list[str]
) -> None:
    assert not guard.closes(repeated("analysis"), None)
    assert guard.look == WINDOW + 1
    assert guard.closes(repeated("analysis"), ANALYSIS)
    assert reported == []


@pytest.mark.parametrize("header", [ANALYSIS, Header(Channel.COMMENTARY), None])
def test_messages_that_are_not_all_reasoning_are_not_closed(
    guard: RepetitionGuard, reported: list[str], header: Header | None
) -> None:
    mixed = "<|channel|>{}<|message|>Let me see.<|end|><|start|>assistant"
    pair = "".join(mixed.format(channel) for channel in ("analysis", "commentary"))
    assert not guard.closes((encode_with_control(pair) * 60)[:WINDOW], header)
    assert len(reported) == 1
