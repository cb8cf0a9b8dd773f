"""vLLM's outputs on their way to a generator; runs where vLLM is installed (`make test-vllm`)."""

from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("vllm", reason="vLLM is not installed")

from vllm.v1.engine import EngineCoreOutput, FinishReason
from vllm.v1.engine.exceptions import EngineDeadError

from adapters.errors import BackendFailed, EngineFault
from adapters.vllm.outputs import OutputInbox, TokenOutputs


def output(*ids: int, request: str = "r", reason: FinishReason | None = None) -> EngineCoreOutput:
    return EngineCoreOutput(request, list(ids), finish_reason=reason)


@pytest.fixture
def outputs() -> TokenOutputs:
    return TokenOutputs(None, log_stats=False)


def add(outputs: TokenOutputs, request: str) -> OutputInbox:
    inbox = OutputInbox()
    state: Any = SimpleNamespace(
        request_id=request,
        external_req_id=request,
        queue=inbox,
        is_prefilling=True,
        parent_req=None,
    )
    outputs.request_states[request] = state
    outputs.external_req_ids[request].append(request)
    return inbox


async def test_each_request_gets_its_own_outputs(outputs: TokenOutputs) -> None:
    inboxes = {name: add(outputs, name) for name in ("a", "b")}
    outputs.process_outputs([output(1, request="a"), output(2, request="b")])
    outputs.process_outputs([output(3, request="a")])
    taken = {name: await inbox.take() for name, inbox in inboxes.items()}
    assert [one.new_token_ids for one in taken["a"]] == [[1], [3]]
    assert [one.new_token_ids for one in taken["b"]] == [[2]]


async def test_a_request_that_has_ended_is_forgotten(outputs: TokenOutputs) -> None:
    add(outputs, "r")
    outputs.process_outputs([output(1, reason=FinishReason.STOP)])
    assert not outputs.has_unfinished_requests()


async def test_outputs_of_a_request_that_is_gone_are_passed_over(outputs: TokenOutputs) -> None:
    inbox = add(outputs, "r")
    outputs.process_outputs([output(1, request="gone"), output(2)])
    (one,) = await inbox.take()
    assert one.new_token_ids == [2]


@pytest.mark.parametrize(
    ("put", "raised"),
    [
        (EngineDeadError(), EngineDeadError),
        (BackendFailed("stopped"), BackendFailed),
        (ValueError("odd"), EngineFault),
        ("aborted", EngineFault),
    ],
)
async def test_what_ends_a_request_early_is_raised(put: object, raised: type[Exception]) -> None:
    inbox = OutputInbox()
    inbox.put(output(1))
    inbox.put(put)
    with pytest.raises(raised):
        await inbox.take()
