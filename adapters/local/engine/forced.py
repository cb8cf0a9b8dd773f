"""Tokens that a grammar forces are computed together in one step, instead of one step each.

Where the grammar permits one continuation only (header words, names of keys, punctuation), sampling
would choose its tokens one after another. They are added to the token that was sampled before them,
and the next step computes all of them like a piece of a prompt.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from transformers.generation.continuous_batching import RequestStatus

Runs = Iterable[tuple[str, Sequence[int]]]
"""Keys of requests, and the tokens that follow what was just sampled for each."""


def append_after_update(processor: Any, take_runs: Callable[[], Runs]) -> None:
    """Have `processor.update_batch` append forced tokens to the requests of the step.

    take_runs: returns the runs of the last step; called once after each step.
    """
    update = processor.update_batch

    def updated() -> None:
        update()
        requests = processor.scheduler.active_requests
        for key, tokens in take_runs():
            # A request may have been cancelled since its token was chosen.
            if (state := requests.get(key)) is not None and state.status == RequestStatus.DECODING:
                state.generated_tokens += tokens
                state.tokens_to_process += tokens

    processor.update_batch = updated
