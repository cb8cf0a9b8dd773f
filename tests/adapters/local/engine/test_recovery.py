import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from transformers.generation.continuous_batching import RequestStatus
from transformers.generation.continuous_batching.input_outputs import ContinuousBatchingIOs
from transformers.generation.continuous_batching.requests import FutureRequestState, RequestState

from adapters.base import BackendConfig, GenerationRequest
from adapters.errors import BackendFailed
from adapters.local.backend import LocalBackend
from adapters.local.engine.recovery import end_batch, fail_in_step
from tests.adapters.local.conftest import started


class Scheduler:
    """Records the requests that are removed."""

    def __init__(self) -> None:
        self.finished: list[str] = []

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
    state.tokens_to_process, state.remaining_prefill_tokens = [10, 11, 12], [13, 14]
    state.status = RequestStatus.PREFILLING
    assert recover(state, prefilling()) == ["new"]
    assert (state.tokens_to_process, state.remaining_prefill_tokens) == ([10, 11, 12, 13, 14], [])
    assert state.status == RequestStatus.DECODING
    assert state.position_offset == 3


def test_a_request_whose_preparation_failed_is_as_if_it_were_prepared() -> None:
    def prepare(requests: list[FutureRequestState]) -> None:
        requests[0].state.position_offset += requests[0].query_length
        raise MemoryError

    one, other = (FutureRequestState(decoding(name, [10], 1), True, {}, 1) for name in "ab")
    ios = SimpleNamespace(requests_in_batch=[], prepare_batch_tensors=prepare)
    computed: list[Any] = []
    processor = SimpleNamespace(inputs_and_outputs=ios, _generation_step=computed.append)
    fail_in_step(processor)
    ios.prepare_batch_tensors([one, other])
    assert [state.position_offset for state in (one.state, other.state)] == [4, 4]
    assert ios.requests_in_batch == [one, other]
    with pytest.raises(MemoryError):
        processor._generation_step(None)
    processor._generation_step(None)
    assert computed == [None]


async def test_a_step_that_cannot_be_prepared_ends_its_prompts_only(
    small_config: BackendConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare = ContinuousBatchingIOs.prepare_batch_tensors

    def fail(self: Any, requests: list[FutureRequestState], *more: Any, **keywords: Any) -> None:
        prepare(self, requests, *more, **keywords)
        if any(one.query_length == 77 for one in requests):
            raise torch.OutOfMemoryError("CUDA out of memory")

    decodes = asyncio.Event()

    async def sampled(backend: LocalBackend, prompt: int, count: int) -> int:
        asked = GenerationRequest("r", (5,) * prompt, count, frozenset())
        total = 0
        async for chunk in backend.generate(asked):
            decodes.set()
            total += len(chunk.token_ids)
        return total

    monkeypatch.setattr(ContinuousBatchingIOs, "prepare_batch_tensors", fail)
    async with started(small_config) as backend:
        stream = asyncio.create_task(sampled(backend, 3, 150))
        await decodes.wait()
        with pytest.raises(BackendFailed, match="out of memory"):
            await sampled(backend, 77, 5)
        assert await stream == 150
        assert await sampled(backend, 78, 5) == 5
