"""The state of one request between steps: active parameters, token counts, seed, grammar."""

import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from adapters.base import (
    FinishReason,
    GenerationRequest,
    SamplingParams,
    TokenLogprobs,
)
from adapters.bounds import GREEDY_BELOW
from adapters.errors import BackendError
from adapters.grammars import TokenMask
from adapters.inbox import Inbox
from adapters.local.steps.sampling import Tally, uniform
from adapters.phases import PhaseTracker


@dataclass(frozen=True, slots=True)
class Sampled:
    """The result of a row after a step: at most one token, and the finish reason or the error."""

    token_id: int | None = None
    logprobs: TokenLogprobs | None = None
    finish_reason: FinishReason | None = None
    error: BackendError | None = None


class Counts:
    """How often each token was sampled, as arrays that grow. Prompt tokens start with 0.

    The prompt is read when the first token is chosen, on the engine's thread: a long one would stop
    the event loop, which creates the counts of all choices.
    """

    def __init__(self, prompt: Iterable[int] = ()) -> None:
        self._prompt: Iterable[int] | None = prompt
        self._places: dict[int, int] = {}
        self._ids: NDArray[np.int64] = np.zeros(0, np.int64)
        self._counts: NDArray[np.float32] = np.zeros(0, np.float32)

    def _read_prompt(self) -> None:
        if self._prompt is not None:
            prompt, self._prompt = dict.fromkeys(self._prompt), None
            self._places = {token_id: place for place, token_id in enumerate(prompt)}
            self._ids = np.fromiter(prompt, np.int64, len(prompt))
            self._counts = np.zeros(len(prompt), np.float32)

    def add(self, token_id: int) -> None:
        self._read_prompt()
        place = self._places.setdefault(token_id, len(self._places))
        if place == len(self._ids):
            self._ids = np.concatenate([self._ids, np.zeros(place + 16, np.int64)])
            self._counts = np.concatenate([self._counts, np.zeros(place + 16, np.float32)])
        self._ids[place] = token_id
        self._counts[place] += 1

    def tally(self, device: torch.device) -> Tally:
        self._read_prompt()
        size = len(self._places)
        return Tally(
            torch.from_numpy(self._ids[:size]).to(device),
            torch.from_numpy(self._counts[:size]).to(device),
        )


class PhaseState:
    """Sampling parameters, and the counts of the tokens that were sampled with them."""

    def __init__(self, params: SamplingParams, prompt: Sequence[int]) -> None:
        self.params = params
        self.greedy = params.temperature < GREEDY_BELOW
        self.truncates = params.min_p > 0 or params.top_k > 0 or params.top_p < 1
        self.counts = _counts_for(params, prompt)
        self.bias = _bias_of(params)
        self.adjusts = self.counts is not None or self.bias is not None


def _counts_for(params: SamplingParams, prompt: Sequence[int]) -> Counts | None:
    if params.repetition_penalty != 1.0:
        return Counts(prompt)
    if params.presence_penalty or params.frequency_penalty:
        return Counts()
    return None


def _bias_of(params: SamplingParams) -> tuple[torch.Tensor, torch.Tensor] | None:
    if not params.logit_bias:
        return None
    return (
        torch.tensor(list(params.logit_bias), dtype=torch.int64),
        torch.tensor(list(params.logit_bias.values()), dtype=torch.float32),
    )


class Row:
    """A request in the engine.

    The engine's thread changes it. The event loop uses `inbox` and `request`, and reads
    `cached_tokens` and `ended`, which are set before the items that it takes. has_begun: whether a
    part of the request was in a step.
    """

    def __init__(self, key: str, request: GenerationRequest, mask: TokenMask | None) -> None:
        self.key = key
        self.request = request
        self.mask = mask
        self.inbox = Inbox[Sampled]()
        self.cached_tokens = 0
        self.has_begun = False
        self.ended = False
        prompt = request.prompt_token_ids
        self._base = PhaseState(request.sampling, prompt)
        self._phase_states = [PhaseState(phase.params, prompt) for phase in request.phases]
        self._tracker = PhaseTracker(request.phases)
        self.phase_state = self._base
        self._seed = request.seed if request.seed is not None else secrets.randbits(64)
        self._sampled = 0

    def uniform(self, attempt: int) -> float:
        """The random number in [0, 1) for the next token. attempt: the number of earlier draws."""
        return uniform(self._seed, self._sampled, attempt)

    def accept(self, token_id: int) -> FinishReason | None:
        """Add the next token. Returns the finish reason if it is the last one."""
        self._sampled += 1
        if self.phase_state.counts is not None:
            self.phase_state.counts.add(token_id)
        if self._phase_states:
            active = self._tracker.accept(token_id)
            self.phase_state = self._base if active is None else self._phase_states[active]
        if token_id in self.request.stop_token_ids:
            return "stop"
        return "length" if self._sampled >= self.request.max_tokens else None

    def take_forced(self) -> tuple[int, ...]:
        """Accept the tokens that the grammar forces next, and return them.

        The last token of an answer, by a stop token or by the limit, is always sampled. A request
        for logprobs has every token sampled: a step gives the logits after its last token only.
        """
        if self.mask is None or not self.mask.is_open or self.request.logprobs is not None:
            return ()
        room = self.request.max_tokens - self._sampled - 1
        run = self.mask.consume_forced(room, self.request.stop_token_ids)
        for token_id in run:
            self.accept(token_id)
        return run
