"""The items of hosted calls by type, and how an interrupted one ends."""

from collections.abc import Mapping, Sequence
from typing import Any

from server.generation.plan import DeclaredTool
from server.generation.runs import WireEvent
from server.ids import new_id
from server.outbound.responses.hosted.code_interpreter import CodeInterpreterItem
from server.outbound.responses.hosted.item import HostedItem, Include
from server.outbound.responses.hosted.mcp import McpItem, UnapprovedItem
from server.outbound.responses.hosted.web_search import WebSearchItem
from server.tools.base import ItemType, ToolCall, ToolDeclaration

ITEMS: Mapping[ItemType, type[HostedItem]] = {
    "code_interpreter_call": CodeInterpreterItem,
    "web_search_call": WebSearchItem,
    "mcp_call": McpItem,
}
_PREFIXES: Mapping[ItemType, str] = {
    "code_interpreter_call": "ci",
    "web_search_call": "ws",
    "mcp_call": "mcp",
}
_TEXT_FIELDS = {"code_interpreter_call": "code", "mcp_call": "arguments"}


def hosted_item(
    index: int, tool: DeclaredTool, include: Include, call: ToolCall | None = None
) -> HostedItem:
    """The item for a call of a hosted tool.

    index: its `output_index`. call: a call from an earlier answer; None for one that is being
    sampled, which may need an approval.
    """
    declaration = tool.hosted
    assert declaration is not None
    kind = ITEMS[declaration.item]
    fields = _fields(tool, declaration)
    if call is not None:
        approval = {"approval_request_id": call.approval_request_id}
        return kind(call.item_id, index, {**fields, **approval}, include)
    if tool.recipient in declaration.approvals:
        kind = UnapprovedItem
    return kind(new_id(_PREFIXES[declaration.item]), index, fields, include)


def _fields(tool: DeclaredTool, declaration: ToolDeclaration) -> dict[str, Any]:
    names = {"server_label": declaration.name, "name": tool.name}
    return {**names, **declaration.fields, **declaration.call_fields.get(tool.recipient, {})}


def interrupted(item: dict[str, Any], deltas: Sequence[WireEvent]) -> dict[str, Any]:
    """The fields of an item that was open when its server stopped.

    item: as it was added. deltas: its stored events with text.
    """
    text = "".join(event["delta"] for event in deltas)
    if item["type"] == "web_search_call":
        return {"action": item.get("action", {"type": "search"})}
    return {_TEXT_FIELDS[item["type"]]: text}
