"""Reads a client's responses to requests for approval, and checks them.

A response counts if nothing of the model follows it. Others are a part of the history.
Source: https://platform.openai.com/docs/guides/tools-connectors-mcp#approvals
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harmony.messages import Channel
from server.generation.plan import DeclaredTool
from server.ids import new_id
from server.replay.hosted_items import APPROVAL_REQUEST, APPROVAL_RESPONSE
from server.replay.items import paths_of
from server.replay.tool_names import called_name, recipient
from server.schemas.fields import boolean, invalid, required, string
from server.store.items import Item, StoredItem
from server.tools.base import AnsweredCall, ApprovalSession, ToolCall, ToolSession
from server.tools.mcp.approvals import already_answered, unknown_request

FIELD = "approval_request_id"
_OF_MODEL = ("reasoning", APPROVAL_REQUEST)
"""Types of items that the model writes, beside messages and calls; the server writes the others."""


@dataclass(frozen=True, slots=True)
class GivenResponse:
    """A response of the request to a request for approval.

    request: the item `mcp_approval_request`, None if the context has none with the id. param: the
    field that names it.
    """

    request_id: str
    approve: bool
    request: StoredItem | None
    param: str


def given_responses(
    earlier: Sequence[StoredItem], received: Sequence[StoredItem], sent: Sequence[Item]
) -> tuple[GivenResponse, ...]:
    """The request's responses, in its order. Call it off the event loop for many items.

    earlier: the items of earlier turns. received: the request's own. sent: those of them that
    the client sent. Two responses to one request for approval are both in the result. Raises
    InvalidRequest for a response that says neither yes nor no: it would count as a refusal, and a
    decision is final.
    """
    requests: dict[str, StoredItem] = {}
    found: list[tuple[Item, StoredItem | None]] = []
    for index, stored in enumerate((*earlier, *received)):
        item = stored.item
        # Responses among the earlier items are of a turn that ended before the request.
        if item["type"] == APPROVAL_RESPONSE and index >= len(earlier):
            found.append((item, requests.get(str(item.get(FIELD)))))
        elif _is_of_model(item):
            found.clear()
        if item["type"] == APPROVAL_REQUEST:
            requests[item["id"]] = stored
    paths = paths_of(sent) if found else {}
    return tuple(_given(item, request, paths[item["id"]]) for item, request in found)


def _is_of_model(item: Item) -> bool:
    kind: str = item["type"]
    if kind == "message":
        return item.get("role") == "assistant"
    return kind in _OF_MODEL or kind.endswith("_call")


def _given(item: Item, request: StoredItem | None, where: str) -> GivenResponse:
    request_id = required(item, FIELD, where, string)
    approve = required(item, "approve", where, boolean)
    return GivenResponse(request_id, approve, request, f"{where}.{FIELD}")


async def check_responses(
    given: Iterable[GivenResponse], sessions: Iterable[ToolSession]
) -> tuple[AnsweredCall, ...]:
    """The calls that the responses approve or refuse.

    sessions: those of the request's hosted tools. Raises InvalidRequest naming the response.
    """
    by_label = {
        session.declaration.fields.get("server_label"): session
        for session in sessions
        if isinstance(session, ApprovalSession)
    }
    calls: list[AnsweredCall] = []
    seen: set[str] = set()
    for each in given:
        if each.request_id in seen:
            raise already_answered(each.param)
        seen.add(each.request_id)
        calls.append(await _checked(each, by_label))
    return tuple(calls)


async def _checked(given: GivenResponse, by_label: Mapping[Any, ApprovalSession]) -> AnsweredCall:
    param = given.param
    if given.request is None:
        raise unknown_request(param)
    request, sampled = given.request.item, given.request.message
    label = required(request, "server_label", param, string)
    session = by_label.get(label)
    if session is None:
        raise invalid(
            param,
            "the server of the request for approval is not among 'tools'",
            "approval_request_mismatch",
        )
    name = required(request, "name", param, called_name)
    call = ToolCall(
        new_id("mcp"),
        recipient(name, label),
        sampled.channel if sampled is not None and sampled.channel else Channel.COMMENTARY,
        required(request, "arguments", param, string),
        given.request_id,
    )
    await session.check(call, param)
    return AnsweredCall(call, session, given.approve, param)


def lost_tools(
    answered: Iterable[AnsweredCall], tools: Sequence[DeclaredTool]
) -> tuple[DeclaredTool, ...]:
    """Declarations of the approved calls whose servers no longer list their tools.

    tools: what the plan declares. The model may not call these.
    """
    declared = {tool.recipient for tool in tools}
    lost: dict[str, DeclaredTool] = {}
    for each in answered:
        to = each.call.recipient
        if to not in declared:
            declaration = each.session.declaration
            name = to.partition("__")[2]
            lost[to] = DeclaredTool(to, name, "hosted", hosted=declaration)
    return tuple(lost.values())
