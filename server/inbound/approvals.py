"""Reads a client's responses to requests for approval, and checks them.

A response counts if nothing of the model follows it. Others are a part of the history.
Source: https://platform.openai.com/docs/guides/tools-connectors-mcp#approvals
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

from harmony.messages import Channel
from server.generation.plan import DeclaredTool
from server.ids import new_id
from server.replay.tool_names import called_name, recipient
from server.schemas.fields import invalid, string
from server.store.items import Item, StoredItem
from server.tools.base import AnsweredCall, ApprovalSession, ToolCall, ToolSession
from server.tools.mcp.approvals import (
    OpenResponse,
    already_answered,
    open_responses,
    unknown_request,
)

FIELD = "approval_request_id"


async def read_answered_calls(
    earlier: Sequence[Item],
    received: Sequence[Item],
    known: Mapping[str, StoredItem],
    sessions: Iterable[ToolSession],
) -> tuple[AnsweredCall, ...]:
    """The calls that the request approves or refuses, in its order.

    earlier: the items of earlier turns. received: the request's own. known: stored items, by id.
    sessions: those of the request's hosted tools. Raises InvalidRequest naming the response.
    """
    first = len(earlier)
    by_label = {
        session.declaration.fields.get("server_label"): session
        for session in sessions
        if isinstance(session, ApprovalSession)
    }
    calls: list[AnsweredCall] = []
    seen: set[str] = set()
    for response in open_responses(chain(earlier, received)):
        if response.index < first:  # of a turn that ended before its first item
            continue
        param = f"input.{response.index - first}.{FIELD}"
        if response.request_id in seen:
            raise already_answered(param)
        seen.add(response.request_id)
        calls.append(await _checked(response, known, by_label, param))
    return tuple(calls)


async def _checked(
    response: OpenResponse,
    known: Mapping[str, StoredItem],
    by_label: Mapping[Any, ApprovalSession],
    param: str,
) -> AnsweredCall:
    request = response.request
    if request is None:
        raise unknown_request(param)
    label = string(request.get("server_label"), f"{param}.server_label")
    session = by_label.get(label)
    if session is None:
        raise invalid(
            param,
            "the server of the request for approval is not among 'tools'",
            "approval_request_mismatch",
        )
    name = called_name(request.get("name"), f"{param}.name")
    stored = known.get(response.request_id)
    sampled = stored.message if stored is not None else None
    call = ToolCall(
        new_id("mcp"),
        recipient(name, label),
        sampled.channel if sampled is not None and sampled.channel else Channel.COMMENTARY,
        string(request.get("arguments"), f"{param}.arguments"),
        response.request_id,
    )
    await session.check(call, param)
    return AnsweredCall(call, session, response.approve, param)


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
