"""Makes the item of a hosted call."""

from collections.abc import Mapping
from typing import Any

from server.generation.plan import DeclaredTool
from server.ids import new_id
from server.outbound.responses.hosted.code_interpreter import CodeInterpreterItem
from server.outbound.responses.hosted.item import HostedItem, Include
from server.outbound.responses.hosted.mcp import McpItem, UnapprovedItem
from server.outbound.responses.hosted.web_search import WebSearchItem
from server.tools.base import ItemType, ToolCall, ToolDeclaration

_ITEMS: Mapping[ItemType, type[HostedItem]] = {
    kind.type: kind for kind in (CodeInterpreterItem, WebSearchItem, McpItem)
}


def hosted_item(
    index: int, tool: DeclaredTool, include: Include, call: ToolCall | None = None
) -> HostedItem:
    """The item for a call of a hosted tool.

    index: its `output_index`. call: a call from an earlier answer; None for one that is being
    sampled, which may need an approval.
    """
    declaration = tool.hosted
    assert declaration is not None
    kind = _ITEMS[declaration.item]
    fields = _fields(tool, declaration)
    if call is not None:
        approval = {"approval_request_id": call.approval_request_id}
        return kind(call.item_id, index, {**fields, **approval}, include)
    if tool.recipient in declaration.approvals:
        kind = UnapprovedItem
    return kind(new_id(kind.id_prefix), index, fields, include)


def _fields(tool: DeclaredTool, declaration: ToolDeclaration) -> dict[str, Any]:
    names = {"server_label": declaration.name, "name": tool.name}
    return {**names, **declaration.fields, **declaration.call_fields.get(tool.recipient, {})}
