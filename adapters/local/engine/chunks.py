"""The number of tokens in a step beside the next one of each request that decodes.

They are tokens of prompts, and tokens that grammars force. Each decoding request waits for the
whole step. The duration of a step depends on the machine, on its load and on the length of the
prompts. Therefore it is measured, and the next step is larger or smaller in proportion.
"""

from collections.abc import Callable
from typing import Any

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
    """How many tokens take `STEP_SECONDS`."""

    def __init__(self) -> None:
        self._tokens = float(_FIRST_TOKENS)
        self._length = 0

    def update(self, tokens: int, seconds: float, length: int) -> None:
        """Adapt to a step of `tokens` tokens. length: of the longest prompt among them."""
        if tokens < _LEAST_TOKENS or seconds <= 0:
            return  # too few tokens to measure their share of the duration
        bound = max(self._tokens, tokens * _GROWTH)
        self._tokens = min(tokens * STEP_SECONDS / seconds, bound)
        self._length = length

    def tokens(self, length: int) -> int:
        """The number of tokens for a step with a prompt of `length` tokens."""
        longer = (_DOUBLING_LENGTH + length) / (_DOUBLING_LENGTH + self._length)
        return int(min(max(self._tokens / max(longer, 1.0), _LEAST_TOKENS), _MOST_TOKENS))


def measure_steps(processor: Any, size: ChunkSize, clock: Callable[[], float]) -> None:
    """Let `size` adapt to each step of `processor`.

    clock: returns seconds.
    """
    run = processor._generation_step

    def run_measured(model: Any) -> None:
        start = clock()
        run(model)
        seconds = clock() - start
        tokens = length = 0
        for one in processor.inputs_and_outputs.requests_in_batch:
            if one.state.generated_tokens:
                tokens += one.query_length - 1
            else:
                tokens += one.query_length
                length = max(length, len(one.state.initial_tokens))
        size.update(tokens, seconds, length)

    processor._generation_step = run_measured
