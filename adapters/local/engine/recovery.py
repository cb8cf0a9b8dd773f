"""Removes requests from the engine after a failed step, so that it can continue."""

from collections.abc import Iterable
from typing import Any

from transformers.generation.continuous_batching import RequestStatus

from adapters.local.engine.warmup import forget_batch


def fail_in_step(processor: Any) -> None:
    """Have `processor` raise errors of a step's preparation when the step is computed.

    transformers ends the engine at an error of the preparation, which may run out of memory on a
    GPU. An error of the computation ends requests of the step only.
    """
    ios = processor.inputs_and_outputs
    prepare, compute = ios.prepare_batch_tensors, processor._generation_step
    errors: list[Exception] = []

    def prepare_or_keep(requests_in_batch: list[Any], *more: Any, **keywords: Any) -> None:
        offsets = [one.state.position_offset for one in requests_in_batch]
        try:
            prepare(requests_in_batch, *more, **keywords)
        except Exception as error:
            errors.append(error)
            ios.requests_in_batch = list(requests_in_batch)
            for one, offset in zip(requests_in_batch, offsets, strict=True):
                one.state.position_offset = offset + one.query_length

    def raise_or_compute(model: Any) -> None:
        if errors:
            raise errors.pop()
        compute(model)

    ios.prepare_batch_tensors = prepare_or_keep
    processor._generation_step = raise_or_compute


def end_batch(processor: Any, *, all_rows: bool) -> list[str]:
    """Remove requests of the batch from the engine, so that it can continue. Returns their keys.

    Requests in prefill are assumed to be the cause. Requests that decode continue with the tokens
    from before the step. All requests are removed if none is in prefill, or with `all_rows`.
    """
    batch = list(processor.inputs_and_outputs.requests_in_batch)
    forget_batch(processor.inputs_and_outputs)
    prefilling = [one for one in batch if not one.state.generated_tokens]
    ended = batch if all_rows or not prefilling else prefilling
    _undo([one for one in batch if one not in ended])
    for one in ended:
        one.state.status = RequestStatus.FAILED
        processor.scheduler.finish_request(one.state.request_id)
    return [one.state.request_id for one in ended]


def _undo(decoding: Iterable[Any]) -> None:
    """Reset requests to their state before the step was prepared.

    The next step overwrites what the failed one may have written to the cache.
    """
    for one in decoding:
        state = one.state
        # Of many tokens, a step may have computed the first ones only.
        count = one.query_length + len(state.remaining_prefill_tokens)
        state.position_offset -= one.query_length
        state.tokens_to_process = state.generated_tokens[-count:]
        state.remaining_prefill_tokens = []
        state.status = RequestStatus.DECODING
