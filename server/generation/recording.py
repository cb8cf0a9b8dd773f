"""The record of an answer: its samplings, with their times, grammars and logprobs, and its calls.

It is made on request only (`Recorder`), and costs other answers nothing.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from adapters.base import GenerationChunk, GenerationRequest, TokenLogprobs
from server.encoding.json_pieces import EncodedArray

DIGITS = 5
"""Decimal places of logprobs: a record has up to 21 for each token."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """One sampling by the engine. Times are milliseconds since the request was admitted.

    start, end: the half-open range of its tokens among those after the first prompt.
    prompt_tokens: the length of its own prompt. cached_tokens: how many of these came from the
    engine's prefix cache, None if the engine did not report it.
    max_tokens: how many tokens it could sample. grammar: the constraint on its tokens, or None.
    token_ms: when each token arrived.
    logprobs: one entry for each token, as clients see it, empty if the request asks for none. They
    are encoded while they arrive: all of them at the end would stall other answers for a second.
    """

    start: int
    end: int
    prompt_tokens: int
    cached_tokens: int | None
    max_tokens: int
    grammar: str | None
    started_ms: int
    ended_ms: int
    token_ms: tuple[int, ...]
    logprobs: EncodedArray


@dataclass(frozen=True, slots=True)
class RecordedCall:
    """A hosted call that ran between two samplings; times as in `Sampling`."""

    recipient: str
    started_ms: int
    ended_ms: int


@dataclass(frozen=True, slots=True)
class Record:
    """What happened in an answer, in order."""

    samplings: tuple[Sampling, ...]
    calls: tuple[RecordedCall, ...]


class Recorder:
    """Collects the record of one answer. clock: seconds, from any zero."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._admitted = clock()
        self._first_prompt: int | None = None
        self._samplings: list[Sampling] = []
        self._calls: list[RecordedCall] = []
        self._open: _OpenSampling

    @property
    def record(self) -> Record:
        """What was recorded so far."""
        return Record(tuple(self._samplings), tuple(self._calls))

    def now(self) -> int:
        """Milliseconds since the request was admitted."""
        return round((self._clock() - self._admitted) * 1000)

    def begin(self, request: GenerationRequest) -> None:
        """A sampling begins."""
        if self._first_prompt is None:
            self._first_prompt = len(request.prompt_token_ids)
        self._open = _OpenSampling(request, self.now())

    def add(self, chunk: GenerationChunk, count: int, *, last: bool) -> None:
        """The engine has sampled `chunk`.

        count: how many tokens of the sampling are part of the answer so far. last: whether the
        sampling ends here.
        """
        now = self.now()
        sampling = self._open
        sampling.add(chunk, count, now)
        if last:
            assert self._first_prompt is not None
            self._samplings.append(sampling.ended(self._first_prompt, now))

    def add_call(self, recipient: str, started_ms: int) -> None:
        """A hosted call that began at `started_ms` has its result."""
        self._calls.append(RecordedCall(recipient, started_ms, self.now()))


class _OpenSampling:
    """A sampling in progress. started_ms: when it began."""

    def __init__(self, request: GenerationRequest, started_ms: int) -> None:
        self._request = request
        self._started_ms = started_ms
        self._cached: int | None = None
        self._token_ms: list[int] = []
        self._logprobs = EncodedArray()

    def add(self, chunk: GenerationChunk, count: int, now: int) -> None:
        """Add the chunk's tokens, as far as they are among the first `count` of the sampling."""
        new = count - len(self._token_ms)
        self._token_ms += [now] * new
        self._logprobs.add(map(_shown, (chunk.logprobs or ())[:new]))
        if chunk.cached_tokens is not None:
            self._cached = chunk.cached_tokens

    def ended(self, first_prompt: int, now: int) -> Sampling:
        """The sampling. first_prompt: the answer's, in tokens."""
        request = self._request
        length = len(request.prompt_token_ids)
        start = length - first_prompt
        return Sampling(
            start=start,
            end=start + len(self._token_ms),
            prompt_tokens=length,
            cached_tokens=self._cached,
            max_tokens=request.max_tokens,
            grammar=request.grammar,
            started_ms=self._started_ms,
            ended_ms=now,
            token_ms=tuple(self._token_ms),
            logprobs=self._logprobs,
        )


def _shown(entry: TokenLogprobs) -> dict[str, Any]:
    top = [[token_id, round(logprob, DIGITS)] for token_id, logprob in entry.top]
    return {"logprob": round(entry.logprob, DIGITS), "top": top}
