"""Measures answers: their tokens, their times, and how they end.

Nothing is measured for each token: a turn is added at its end, and an answer is reported once. Its
first wait and its first token are reported when they are over: an answer may take an hour.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from harmony.events import Repair
from server.generation.turn_events import Usage

EndReason = Literal["stop", "length", "abort", "error"]
"""How an answer ends. `abort`: its client left, it was cancelled, or the server stopped."""

CallOutcome = Literal["completed", "failed", "timeout", "approval", "refused", "cancelled"]
"""How a hosted call ends. `approval`: the client has to approve it first. `refused`: a limit of the
answer did not let it run. `cancelled`: the answer ended before the call did."""


@dataclass(slots=True)
class TokenCounts:
    """What the engine has computed for all answers of this process; they only grow.

    prompt: the tokens of the prompts of turns that ended; a prompt that several answers to a
    request share counts once. cached: how many of these came from the engine's prefix cache.
    sampled: sampled tokens, counted as they arrive.
    """

    prompt: int = 0
    cached: int = 0
    sampled: int = 0


@dataclass(frozen=True, slots=True)
class AnswerMeasured:
    """An answer that has ended. Times are in seconds.

    error: the code of the error that it ended with, None for an error without one. sampled: whether
    the engine sampled a token. input, output: its tokens, as `Usage` counts them. whole: from its
    admission to its end.
    """

    reason: EndReason
    error: str | None
    sampled: bool
    input: int
    output: int
    whole: float


@dataclass(frozen=True, slots=True)
class TurnMeasured:
    """What a turn adds to the counts. repairs: departures from harmony, by their kind."""

    reasoning: int
    repairs: Mapping[Repair, int]


@dataclass(frozen=True, slots=True)
class CallMeasured:
    """A hosted call that has ended. tool: the name of its declaration. seconds: 0 if refused."""

    tool: str
    outcome: CallOutcome
    seconds: float = 0.0


class Observer:
    """Is told what happened, and ignores it. Methods of subclasses neither wait nor raise."""

    def queue_left(self, seconds: float) -> None:
        """An answer has its first slot, or ended before that; `seconds` it waited."""

    def first_token(self, seconds: float) -> None:
        """The first token of an answer has arrived, `seconds` after its admission."""

    def turn_ended(self, turn: TurnMeasured) -> None:
        """A turn has ended, however it did."""

    def answer_ended(self, answer: AnswerMeasured) -> None:
        """An answer has ended, however it did."""

    def call_ended(self, call: CallMeasured) -> None:
        """A hosted call has ended, or was refused."""


@dataclass(slots=True)
class PromptCount:
    """Whether a prompt was counted that several answers share. The first turn to end counts it."""

    done: bool = False


class Meter:
    """Measures one answer.

    counts: those of the server, to which the answer's tokens are added. prompt: that of the other
    answers that share the prompt of the first turn, which counts once, as in `usage`. clock:
    seconds, from any zero.
    """

    def __init__(
        self,
        counts: TokenCounts,
        observer: Observer,
        *,
        prompt: PromptCount | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.counts = counts
        self.awaits_token = True
        """Whether no token was sampled yet."""
        self._observer = observer
        # That of the next turn to count.
        self._prompt = prompt or PromptCount()
        self._clock = clock
        self._admitted = clock()
        self._queued_since: float | None = None
        self._input = 0
        self._output = 0
        self._turn_is_open = False
        self._ended = False

    def queued(self) -> None:
        """The answer waits for its first slot from now on."""
        self._queued_since = self._clock()

    def turn_started(self) -> None:
        """The answer has its slot, and a turn begins."""
        self._end_wait()
        self._turn_is_open = True

    def token_sampled(self) -> None:
        """The first token of the answer has arrived."""
        self.awaits_token = False
        self._observer.first_token(self._clock() - self._admitted)

    def turn_ended(self, usage: Usage, repairs: Iterable[Repair]) -> None:
        """Count a turn that is complete. Further calls for the same turn do nothing."""
        if not self._turn_is_open:
            return
        self._turn_is_open = False
        if not self._prompt.done:
            self._prompt.done = True
            self.counts.prompt += usage.input
            self.counts.cached += usage.cached
        self._prompt = PromptCount()
        self._input += usage.input
        self._output += usage.output
        self._observer.turn_ended(TurnMeasured(usage.reasoning, Counter(repairs)))

    def turn_left(self, usage: Usage, repairs: Iterable[Repair]) -> None:
        """Count a turn that was cut off, unless the engine sampled nothing. As `turn_ended`."""
        if usage.output:
            self.turn_ended(usage, repairs)

    def ended(self, reason: EndReason, error: str | None = None) -> None:
        """Report the answer. Only the first call counts: what follows an end is no end."""
        if self._ended:
            return
        self._ended = True
        self._end_wait()
        measured = AnswerMeasured(
            reason,
            error,
            not self.awaits_token,
            self._input,
            self._output,
            self._clock() - self._admitted,
        )
        self._observer.answer_ended(measured)

    def _end_wait(self) -> None:
        if self._queued_since is not None:
            self._observer.queue_left(self._clock() - self._queued_since)
            self._queued_since = None
