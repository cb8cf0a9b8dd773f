"""What becomes of a batch whose step has failed."""

from collections.abc import Iterable
from typing import Any

from transformers.generation.continuous_batching import RequestStatus

from adapters.local.warmup import forget_batch


def end_batch(processor: Any, *, all_rows: bool) -> list[str]:
    """Take requests of the batch out of the engine so that it can go on; returns their keys.

    Those that prefill are taken to be the cause, and those that decode go on with the tokens that
    they had; where none prefills, and with `all_rows`, all end.
    """
    batch = list(processor.inputs_and_outputs.requests_in_batch)
    forget_batch(processor.inputs_and_outputs)
    prefilling = [one for one in batch if not one.state.generated_tokens]
    ended = batch if all_rows or not prefilling else prefilling
    _undo([one for one in batch if one not in ended])
    for one in ended:
        one.state.status = RequestStatus.FAILED
        processor.scheduler.finish_request(one.state.request_id)
    processor.scheduler.block_new_requests = False
    return [one.state.request_id for one in ended]


def _undo(decoding: Iterable[Any]) -> None:
    """Put requests back to where they were before the step was prepared.

    What the step may have written to the cache, it writes again.
    """
    for one in decoding:
        one.state.position_offset -= one.query_length
        one.state.tokens_to_process = one.state.generated_tokens[-one.query_length :]
