"""The items around calls on MCP servers; `mcp_call` also shows calls of third parties' tools."""

from collections.abc import Mapping, Sequence
from typing import Any

from adapters.base import TokenLogprobs
from server.generation.runs import WireEvent
from server.outbound.responses.hosted.item import HostedItem, HostedStatus
from server.outbound.responses.item_events import added, done
from server.schemas.items import ItemStatus
from server.tools.base import ToolResult


class McpItem(HostedItem):
    """A call with JSON arguments.

    Its fields are `server_label`, `name`, `approval_request_id`, `output` and `error`. A tool that
    names neither of the last two has its result's text in one of them.
    """

    type = "mcp_call"
    id_prefix = "mcp"

    def _result_fields(self, result: ToolResult, *, ran: bool) -> Mapping[str, Any]:
        if not ran or {"output", "error"} & set(result.fields):
            return result.fields
        if not result.failed:
            return {"output": result.text, **result.fields}
        content = [{"type": "text", "text": result.text}]
        error = {"type": "mcp_tool_execution_error", "content": content}
        return {"error": error, **result.fields}

    def _result_events(self, status: HostedStatus) -> list[WireEvent]:
        return [self._event(status)]

    def _body(self, status: HostedStatus) -> dict[str, Any]:
        return {
            "server_label": self._fields.get("server_label", ""),
            "name": self._fields.get("name", ""),
            "arguments": self._whole_text,
            "output": self._fields.get("output"),
            "error": self._fields.get("error"),
            "approval_request_id": self._fields.get("approval_request_id"),
        }


class UnapprovedItem(McpItem):
    """A call that the client may have to approve first.

    Nothing of it is shown until the tool's first event, which decides what item it becomes.
    """

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._withheld: list[WireEvent] = []

    def open(self) -> list[WireEvent]:
        """No events yet."""
        self._withheld = super().open()
        return []

    def delta(self, text: str, logprobs: Sequence[TokenLogprobs]) -> list[WireEvent]:
        """No events yet."""
        self._withheld += super().delta(text, logprobs)
        return []

    def sampled(self) -> list[WireEvent]:
        """No events yet."""
        self._withheld += super().sampled()
        return []

    def progress(self, fields: Mapping[str, Any]) -> list[WireEvent]:
        """The events until now: the call runs."""
        return [*self._shown(), *super().progress(fields)]

    def end(self, result: ToolResult, *, ran: bool) -> list[WireEvent]:
        """The events until now, and those with the result."""
        return [*self._shown(), *super().end(result, ran=ran)]

    def close(self, status: ItemStatus) -> list[WireEvent]:
        """The events until now, and those of the end."""
        return [*self._shown(), *super().close(status)]

    def _shown(self) -> list[WireEvent]:
        withheld, self._withheld = self._withheld, []
        return withheld


def opening_events(index: int, item: Mapping[str, Any]) -> list[WireEvent]:
    """The events of an item that is complete when the answer begins.

    index: its `output_index`. item: `mcp_list_tools`, which fails if it has an error.
    """
    position = {"item_id": item["id"], "output_index": index}
    kind = item["type"]
    outcome = "failed" if item.get("error") else "completed"
    return [
        added(index, {**item, "tools": []}),
        {"type": f"response.{kind}.in_progress", **position},
        {"type": f"response.{kind}.{outcome}", **position},
        done(index, dict(item)),
    ]


def approval_events(index: int, item: Mapping[str, Any]) -> list[WireEvent]:
    """The events of the item `mcp_approval_request`. index: its `output_index`."""
    return [added(index, dict(item)), done(index, dict(item))]
