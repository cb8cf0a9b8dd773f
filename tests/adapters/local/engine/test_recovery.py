from types import SimpleNamespace
from typing import Any

from transformers.generation.continuous_batching import RequestStatus
from transformers.generation.continuous_batching.requests import FutureRequestState, RequestState

from adapters.local.engine.forced import split_decoding_requests
from adapters.local.engine.recovery import end_batch


class Scheduler:
    """Schedules one request as transformers does, and records those that are removed."""

    block_new_requests = True

    def __init__(self) -> None:
        self.finished: list[str] = []

    def _schedule_request(self, state: Any, tokens: list[int], budget: int) -> None:
        state.remaining_prefill_tokens = tokens[budget:]
        state.tokens_to_process = tokens[:budget]

    def finish_request(self, request_id: str) -> None:
        self.finished.append(request_id)


def in_step(state: RequestState) -> FutureRequestState:
    """The request in a prepared step, as transformers leaves it."""
    count = len(state.tokens_to_process)
    state.position_offset += count
    has_token = not state.remaining_prefill_tokens
    if has_token:
        state.tokens_to_process = [0]
    return FutureRequestState(state, has_token, {}, count)


def decoding(name: str, generated: list[int], due: int) -> RequestState:
    """A request whose last `due` tokens are not computed yet."""
    state = RequestState(name, [1, 2, 3], generated_tokens=generated, remaining_prefill_tokens=[])
    state.remaining_prefill_tokens = []
    state.status = RequestStatus.DECODING
    state.position_offset = 3 + len(generated) - due
    state.tokens_to_process = generated[-due:]
    return state


def prefilling() -> RequestState:
    state = RequestState("new", [1, 2, 3])
    state.status = RequestStatus.DECODING
    state.tokens_to_process, state.remaining_prefill_tokens = [1, 2, 3], []
    return state


def recover(*batch: RequestState) -> list[str]:
    """The keys of the requests that end with the step."""
    ios = SimpleNamespace(requests_in_batch=[in_step(one) for one in batch])
    scheduler = Scheduler()
    ended = end_batch(SimpleNamespace(inputs_and_outputs=ios, scheduler=scheduler), all_rows=False)
    assert scheduler.finished == ended
    assert not scheduler.block_new_requests
    return ended


def test_requests_that_decode_are_as_before_the_step() -> None:
    state = decoding("old", [10, 11, 12], 2)
    assert recover(state, prefilling()) == ["new"]
    assert state.tokens_to_process == [11, 12]
    assert state.position_offset == 4


def test_without_a_prompt_in_the_step_all_requests_end() -> None:
    assert recover(decoding("one", [10], 1), decoding("other", [10], 1)) == ["one", "other"]


def test_tokens_of_which_the_step_computed_a_part_are_all_due_again() -> None:
    state = decoding("old", [10, 11, 12, 13, 14], 5)
    scheduler = Scheduler()
    split_decoding_requests(scheduler)
    scheduler._schedule_request(state, state.tokens_to_process, 3)
    assert state.tokens_to_process == [10, 11, 12]
    assert recover(state, prefilling()) == ["new"]
    assert (state.tokens_to_process, state.remaining_prefill_tokens) == ([10, 11, 12, 13, 14], [])
    assert state.status == RequestStatus.DECODING
    assert state.position_offset == 3
