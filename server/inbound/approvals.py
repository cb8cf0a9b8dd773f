"""Reads a client's responses to requests for approval, and checks them.

A response counts if nothing of the model follows it. Others are a part of the history.
Source: https://platform.openai.com/docs/guides/tools-connectors-mcp#approvals
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harmony.messages import Channel, Message
from server.generation.plan import DeclaredTool
from server.ids import new_id
from server.replay.items import paths_of
from server.replay.tool_names import called_name, recipient
from server.schemas.fields import boolean, invalid, required, string
from server.store.items import Item, StoredItem
from server.tools.base import AnsweredCall, ApprovalSession, ToolCall, ToolSession
from server.tools.mcp.approvals import (
    OpenResponse,
    already_answered,
    open_responses,
    unknown_request,
)

FIELD = "approval_request_id"


@dataclass(frozen=True, slots=True)
class GivenResponse:
    """A response of the request to a request for approval.

    sampled: the message of the model that the request for approval was made from, if it is known.
    param: the field that names the request for approval.
    """

    response: OpenResponse
    sampled: Message | None
    param: str


def given_responses(
    earlier: Sequence[StoredItem], received: Sequence[StoredItem], sent: Sequence[Item]
) -> tuple[GivenResponse, ...]:
    """The request's responses, in its order. Call it off the event loop for many items.

    earlier: the items of earlier turns. received: the request's own. sent: those of them that
    the client sent. Raises InvalidRequest for a response that says neither yes nor no: it would
    count as a refusal, and a decision is final.
    """
    items = (*earlier, *received)
    first = len(earlier)
    found = [
        response
        for response in open_responses(stored.item for stored in items)
        if response.index >= first  # the others are of a turn that ended before its first item
    ]
    if not found:
        return ()
    sampled = {stored.item["id"]: stored.message for stored in items}
    paths = paths_of(sent)
    given: list[GivenResponse] = []
    for response in found:
        item = items[response.index].item
        where = paths[item["id"]]
        required(item, FIELD, where, string)
        required(item, "approve", where, boolean)
        message = sampled.get(response.request_id)
        given.append(GivenResponse(response, message, f"{where}.{FIELD}"))
    return tuple(given)


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
        if each.response.request_id in seen:
            raise already_answered(each.param)
        seen.add(each.response.request_id)
        calls.append(await _checked(each, by_label))
    return tuple(calls)


async def _checked(given: GivenResponse, by_label: Mapping[Any, ApprovalSession]) -> AnsweredCall:
    request, sampled, param = given.response.request, given.sampled, given.param
    if request is None:
        raise unknown_request(param)
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
        given.response.request_id,
    )
    await session.check(call, param)
    return AnsweredCall(call, session, given.response.approve, param)


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
