"""The number of prompt tokens in a step beside requests that decode.

Each decoding request waits for the whole step. The duration of a step depends on the machine, on
its load and on the length of the prompts. Therefore it is measured, and the next step is larger or
smaller in proportion.
"""

from collections.abc import Callable
from typing import Any

from transformers.generation.continuous_batching import RequestStatus

STEP_SECONDS = 0.1
"""The duration to reach. Steps vary, and 0.15 s between two tokens is the limit."""

_FIRST_TOKENS = 256
_LEAST_TOKENS = 128
_MOST_TOKENS = 1024
_GROWTH = 2.0
# After this many tokens of a prompt, a further one takes twice the time. Measured with the demo
# checkpoint. Larger models have larger values: their first chunks are smaller than necessary.
_DOUBLING_LENGTH = 4096


class ChunkSize:
    """How many prompt tokens take `STEP_SECONDS`."""

    def __init__(self) -> None:
        self._tokens = float(_FIRST_TOKENS)
        self._length = 0

    def update(self, tokens: int, seconds: float, length: int) -> None:
        """Adapt to a step. tokens: those of prompts. length: of the longest of these prompts."""
        if tokens < _LEAST_TOKENS or seconds <= 0:
            return  # too few tokens to measure their share of the duration
        self._tokens = min(tokens * STEP_SECONDS / seconds, tokens * _GROWTH)
        self._length = length

    def tokens(self, length: int) -> int:
        """The number of tokens for a step with a prompt of `length` tokens."""
        longer = (_DOUBLING_LENGTH + length) / (_DOUBLING_LENGTH + self._length)
        return int(min(max(self._tokens / max(longer, 1.0), _LEAST_TOKENS), _MOST_TOKENS))


def bound_chunks(processor: Any, size: ChunkSize, clock: Callable[[], float]) -> None:
    """Limit the prompt tokens of a step of `processor` while any request decodes.

    Each step is measured by `clock`, which returns seconds.
    """
    scheduler = processor.scheduler
    schedule, run = scheduler.schedule_batch, processor._generation_step

    def schedule_bounded(token_budget: int, cache_budget: int) -> Any:
        states = scheduler.active_requests.values()
        decoding = [one for one in states if one.status == RequestStatus.DECODING]
        if decoding:
            prompts = [one for one in states if one.status != RequestStatus.DECODING]
            prompts += scheduler.waiting_requests.values()
            length = max((len(one.initial_tokens) for one in prompts), default=0)
            tokens = sum(len(one.tokens_to_process) for one in decoding)
            token_budget = min(token_budget, tokens + size.tokens(length))
        return schedule(token_budget, cache_budget)

    def run_measured(model: Any) -> None:
        start = clock()
        run(model)
        seconds = clock() - start
        prompts = [
            one
            for one in processor.inputs_and_outputs.requests_in_batch
            if not one.state.generated_tokens
        ]
        length = max((len(one.state.initial_tokens) for one in prompts), default=0)
        size.update(sum(one.query_length for one in prompts), seconds, length)

    scheduler.schedule_batch = schedule_bounded
    processor._generation_step = run_measured
