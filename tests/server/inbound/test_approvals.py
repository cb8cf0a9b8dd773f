"""The client's responses to requests for approval, and the calls that they are about."""

from typing import Any

import pytest

from harmony.messages import Author, Channel, Message, Role
from server.errors import InvalidRequest
from server.generation.plan import DeclaredTool
from server.inbound.approvals import GivenResponse, check_responses, given_responses, lost_tools
from server.store.items import StoredItem
from server.tools.base import AnsweredCall, ToolCall
from tests.server.tools.hosted import REMOTE, SEARCH, Session, declared

ADD = "functions.srv__add"
REQUEST = {
    "type": "mcp_approval_request",
    "id": "mcpr_1",
    "server_label": "srv",
    "name": "add",
    "arguments": '{"a": 1}',
}
RESPONSE = {
    "type": "mcp_approval_response",
    "id": "r_1",
    "approval_request_id": "mcpr_1",
    "approve": True,
}
USER = {"type": "message", "id": "msg_1", "role": "user", "content": "hi"}
ANSWER = {"type": "message", "id": "msg_2", "role": "assistant", "content": "Done."}
SAMPLED = Message(Author(Role.ASSISTANT), '{"a": 1}', Channel.ANALYSIS, ADD, "json")
PARAM = "input.1.approval_request_id"


class Server(Session):
    """A session of an MCP server, in which each call may be approved."""

    def __init__(self) -> None:
        super().__init__(REMOTE)
        self.checked: list[ToolCall] = []

    async def check(self, call: ToolCall, param: str) -> None:
        self.checked.append(call)

    async def refuse(self, call: ToolCall, param: str) -> None:
        raise AssertionError("a check refuses nothing")


def stored(*items: dict[str, Any], sampled: Message | None = None) -> list[StoredItem]:
    return [StoredItem(item, sampled if item["id"] == "mcpr_1" else None) for item in items]


async def answered(
    *received: dict[str, Any],
    earlier: tuple[dict[str, Any], ...] = (REQUEST,),
    sampled: Message | None = None,
    session: Session | None = None,
) -> tuple[AnsweredCall, ...]:
    own = stored(*received, sampled=sampled)
    given = given_responses(stored(*earlier, sampled=sampled), own, received)
    return await check_responses(given, [Session(SEARCH), session or Server()])


@pytest.mark.parametrize("approve", [True, False])
@pytest.mark.parametrize(
    ("earlier", "received"), [((REQUEST,), (USER, RESPONSE)), ((), (REQUEST, RESPONSE))]
)
async def test_a_response_answers_the_request_that_it_names(
    approve: bool, earlier: tuple[dict[str, Any], ...], received: tuple[dict[str, Any], ...]
) -> None:
    session = Server()
    *before, response = received
    (call,) = await answered(
        *before, response | {"approve": approve}, earlier=earlier, session=session
    )
    assert (call.approved, call.session, call.param) == (approve, session, PARAM)
    assert (call.call.recipient, call.call.content) == (ADD, '{"a": 1}')
    assert call.call.approval_request_id == "mcpr_1"
    assert session.checked == [call.call]


@pytest.mark.parametrize(
    ("sampled", "channel"), [(SAMPLED, Channel.ANALYSIS), (None, Channel.COMMENTARY)]
)
async def test_the_call_has_the_channel_in_which_it_was_sampled(
    sampled: Message | None, channel: Channel
) -> None:
    (call,) = await answered(USER, RESPONSE, sampled=sampled)
    assert call.call.channel is channel


@pytest.mark.parametrize(
    ("earlier", "received"),
    [
        ((REQUEST,), (USER,)),
        ((REQUEST, RESPONSE), (USER,)),
        ((REQUEST,), (RESPONSE, ANSWER, USER)),
    ],
)
async def test_a_response_of_an_earlier_turn_is_history(
    earlier: tuple[dict[str, Any], ...], received: tuple[dict[str, Any], ...]
) -> None:
    assert await answered(*received, earlier=earlier) == ()


@pytest.mark.parametrize(
    "item",
    [
        ANSWER,
        {"type": "mcp_call", "id": "mcp_1"},
        {"type": "reasoning", "id": "rs_1"},
        {**REQUEST, "id": "mcpr_2"},
    ],
)
def test_a_response_that_the_model_reacted_to_is_history(item: dict[str, Any]) -> None:
    received = (REQUEST, RESPONSE, item)
    assert given_responses((), stored(*received), received) == ()


@pytest.mark.parametrize("kind", ["function_call_output", "mcp_list_tools"])
def test_items_that_the_model_did_not_write_leave_a_response_open(kind: str) -> None:
    received = (REQUEST, RESPONSE, {"type": kind, "id": "1"})
    assert len(given_responses((), stored(*received), received)) == 1


def test_a_call_that_follows_a_refusal_can_be_approved() -> None:
    refusal = RESPONSE | {"approve": False}
    second = REQUEST | {"id": "mcpr_2"}
    approval = RESPONSE | {"id": "r_2", "approval_request_id": "mcpr_2"}
    received = (REQUEST, refusal, second, approval)
    (given,) = given_responses((), stored(*received), received)
    assert given == GivenResponse("mcpr_2", True, StoredItem(second), "input.3.approval_request_id")


async def test_another_item_with_the_id_of_a_request_is_none() -> None:
    with pytest.raises(InvalidRequest) as refused:
        await answered(USER | {"id": "mcpr_1"}, RESPONSE, earlier=())
    assert refused.value.code == "approval_request_not_found"


@pytest.mark.parametrize(
    ("request_item", "param", "code"),
    [
        (REQUEST | {"id": "mcpr_2"}, PARAM, "approval_request_not_found"),
        (REQUEST | {"server_label": "other"}, PARAM, "approval_request_mismatch"),
        (REQUEST | {"server_label": 1}, f"{PARAM}.server_label", "invalid_type"),
        (REQUEST | {"name": "a b"}, f"{PARAM}.name", "invalid_value"),
        (REQUEST | {"arguments": {}}, f"{PARAM}.arguments", "invalid_type"),
    ],
)
async def test_an_error_names_the_response(
    request_item: dict[str, Any], param: str, code: str
) -> None:
    with pytest.raises(InvalidRequest) as refused:
        await answered(USER, RESPONSE, earlier=(request_item,))
    assert (refused.value.param, refused.value.code) == (param, code)


@pytest.mark.parametrize(
    ("change", "field", "code"),
    [
        ({"approve": "true"}, "approve", "invalid_type"),
        ({"approve": None}, "approve", "invalid_type"),
        ({"approval_request_id": 1}, "approval_request_id", "invalid_type"),
        ("approve", "approve", "missing_required_parameter"),
        ("approval_request_id", "approval_request_id", "missing_required_parameter"),
    ],
)
async def test_a_response_that_does_not_decide_is_no_refusal(
    change: dict[str, Any] | str, field: str, code: str
) -> None:
    response = RESPONSE | change if isinstance(change, dict) else {**RESPONSE}
    if isinstance(change, str):
        del response[change]
    with pytest.raises(InvalidRequest) as refused:
        await answered(USER, response)
    assert (refused.value.param, refused.value.code) == (f"input.1.{field}", code)
    # What the model has reacted to is history, and decides nothing.
    assert await answered(response, ANSWER, USER) == ()


async def test_a_request_is_answered_once() -> None:
    with pytest.raises(InvalidRequest) as refused:
        await answered(RESPONSE, RESPONSE | {"id": "r_2", "approve": False})
    assert (refused.value.param, refused.value.code) == (PARAM, "approval_request_answered")


async def test_a_call_whose_tool_is_gone_is_declared_once() -> None:
    other = REQUEST | {"id": "mcpr_2", "name": "gone"}
    again = REQUEST | {"id": "mcpr_3", "name": "gone"}
    responses = [RESPONSE | {"id": f"r_{n}", "approval_request_id": f"mcpr_{n}"} for n in (1, 2, 3)]
    calls = await answered(*responses, earlier=(REQUEST, other, again))
    lost = DeclaredTool("functions.srv__gone", "gone", "hosted", hosted=REMOTE)
    assert lost_tools(calls, declared(REMOTE)) == (lost,)
