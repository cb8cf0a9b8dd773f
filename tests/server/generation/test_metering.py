"""What one answer reports, with a clock of the test."""

from dataclasses import dataclass, field

from harmony.events import Repair
from server.generation.metering import (
    AnswerMeasured,
    CallMeasured,
    Meter,
    Observer,
    PromptCount,
    TokenCounts,
    TurnMeasured,
)
from server.generation.turn_events import Usage


@dataclass
class Observed(Observer):
    waits: list[float] = field(default_factory=list)
    first_tokens: list[float] = field(default_factory=list)
    turns: list[TurnMeasured] = field(default_factory=list)
    answers: list[AnswerMeasured] = field(default_factory=list)
    calls: list[CallMeasured] = field(default_factory=list)

    def queue_left(self, seconds: float) -> None:
        self.waits.append(seconds)

    def first_token(self, seconds: float) -> None:
        self.first_tokens.append(seconds)

    def turn_ended(self, turn: TurnMeasured) -> None:
        self.turns.append(turn)

    def answer_ended(self, answer: AnswerMeasured) -> None:
        self.answers.append(answer)

    def call_ended(self, call: CallMeasured) -> None:
        self.calls.append(call)


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_the_times_of_an_answer() -> None:
    observed, clock = Observed(), Clock()
    meter = Meter(TokenCounts(), observed, clock=clock)
    clock.now += 1
    meter.queued()
    clock.now += 2
    meter.turn_started()
    assert observed.waits == [2.0]
    clock.now += 4
    meter.token_sampled()
    assert observed.first_tokens == [7.0]
    meter.turn_ended(Usage(7, 3, 5, 2), [Repair.HEADER_WORDS])
    clock.now += 8
    meter.turn_started()
    meter.turn_ended(Usage(12, 7, 1), ())
    clock.now += 16
    meter.ended("stop")
    assert observed.answers == [AnswerMeasured("stop", None, True, 19, 6, 31.0)]
    assert (observed.waits, observed.first_tokens) == ([2.0], [7.0])
    assert observed.turns == [TurnMeasured(2, {Repair.HEADER_WORDS: 1}), TurnMeasured(0, {})]


def test_an_answer_that_ends_while_it_waits_has_waited_until_then() -> None:
    observed, clock = Observed(), Clock()
    meter = Meter(TokenCounts(), observed, clock=clock)
    meter.queued()
    clock.now += 3
    meter.ended("error", "rate_limit_exceeded")
    assert observed.answers == [AnswerMeasured("error", "rate_limit_exceeded", False, 0, 0, 3.0)]
    assert (observed.waits, observed.first_tokens) == ([3.0], [])


def test_an_answer_ends_once() -> None:
    observed = Observed()
    meter = Meter(TokenCounts(), observed)
    meter.ended("abort")
    meter.ended("error", "server_error")
    assert [each.reason for each in observed.answers] == ["abort"]


def test_a_turn_counts_once() -> None:
    counts = TokenCounts()
    meter = Meter(counts, Observer())
    meter.turn_started()
    meter.turn_ended(Usage(7, 3, 5), ())
    meter.turn_left(Usage(7, 3, 5), ())
    assert counts == TokenCounts(prompt=7, cached=3)


def test_a_turn_that_was_cut_off_counts_what_was_sampled() -> None:
    counts = TokenCounts()
    meter = Meter(counts, Observer())
    meter.turn_started()
    meter.turn_left(Usage(7), ())
    assert counts.prompt == 0
    meter.turn_left(Usage(7, 3, 1), ())
    assert counts == TokenCounts(prompt=7, cached=3)


def test_a_shared_prompt_counts_once() -> None:
    counts, prompt = TokenCounts(), PromptCount()
    for _ in range(2):
        meter = Meter(counts, Observer(), prompt=prompt)
        for usage in (Usage(7, 3, 5), Usage(20, 12, 5)):
            meter.turn_started()
            meter.turn_ended(usage, ())
        meter.ended("stop")
    assert counts == TokenCounts(prompt=47, cached=27)


def test_a_shared_prompt_counts_where_the_first_answer_sampled_nothing() -> None:
    counts, prompt = TokenCounts(), PromptCount()
    first, other = (Meter(counts, Observer(), prompt=prompt) for _ in range(2))
    first.turn_started()
    other.turn_started()
    first.turn_left(Usage(7), ())
    other.turn_left(Usage(7, 3, 1), ())
    assert counts == TokenCounts(prompt=7, cached=3)
