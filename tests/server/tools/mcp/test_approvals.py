"""Approvals: which requests they belong to, and what the model gets."""

from typing import Any

import pytest

from server.errors import InvalidRequest
from server.tools.mcp.approvals import Approvals, ProposedCall, open_responses

PROPOSED = ProposedCall("owner", "address", "docs", "search", '{"q": 1}')
REQUEST = {
    "type": "mcp_approval_request",
    "id": "mcpr_1",
    "server_label": "docs",
    "name": "search",
    "arguments": "{}",
}
RESPONSE = {"type": "mcp_approval_response", "approval_request_id": "mcpr_1", "approve": True}
MESSAGE = {"type": "message", "role": "assistant", "content": []}


async def test_a_request_is_answered_once(approvals: Approvals) -> None:
    request_id = approvals.request_id(PROPOSED, stored=True)
    pending = {request_id: PROPOSED.digest}
    await approvals.check(request_id, PROPOSED, pending, "input.0")

    await approvals.answered.claim("owner", request_id)

    with pytest.raises(InvalidRequest) as error:
        await approvals.check(request_id, PROPOSED, pending, "input.0")
    assert error.value.code == "approval_request_answered"


def test_equal_calls_have_requests_of_their_own(approvals: Approvals) -> None:
    for stored in (True, False):
        ids = {approvals.request_id(PROPOSED, stored=stored) for _ in range(3)}
        assert len(ids) == 3


def test_the_last_responses_are_open() -> None:
    (found,) = open_responses([MESSAGE, REQUEST, RESPONSE])

    assert (found.index, found.request_id, found.approve) == (2, "mcpr_1", True)
    assert found.request == REQUEST


def test_a_response_without_its_request_is_found() -> None:
    (found,) = open_responses([{**RESPONSE, "approve": False, "reason": "no"}])

    assert (found.request, found.approve) == (None, False)


@pytest.mark.parametrize(
    "item", [MESSAGE, {"role": "assistant"}, {"type": "mcp_call"}, {"type": "reasoning"}]
)
def test_a_response_that_the_model_reacted_to_is_history(item: dict[str, Any]) -> None:
    assert open_responses([REQUEST, RESPONSE, item]) == ()


@pytest.mark.parametrize("item", [{"role": "user"}, {"type": "function_call_output"}])
def test_items_of_the_client_leave_a_response_open(item: dict[str, Any]) -> None:
    assert len(open_responses([REQUEST, RESPONSE, item])) == 1


def test_two_responses_to_one_request_are_both_found() -> None:
    assert len(open_responses([REQUEST, RESPONSE, RESPONSE])) == 2
