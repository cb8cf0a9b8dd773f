"""The items of a response while they are made: each owns its text and says its own events.

Order of an item's events, by the Open Responses specification (2026-04-24): output_item.added,
content_part.added, deltas, `.done`, content_part.done, output_item.done.
"""

from collections.abc import Sequence
from typing import Any, Literal, Protocol

from adapters.base import TokenLogprobs
from harmony.events import Header
from harmony.messages import Channel
from server.generation.plan import DeclaredTool
from server.generation.runs import WireEvent
from server.ids import new_id
from server.outbound.logprobs import entries

Status = Literal["in_progress", "completed", "incomplete"]


class OutputItem(Protocol):
    """An open item. `open` is called once, `delta` for each piece of text, `close` once."""

    @property
    def id(self) -> str:
        """The item's id, the same in all its events."""
        ...

    def open(self) -> list[WireEvent]:
        """The events before the first text."""
        ...

    def delta(self, text: str, logprobs: Sequence[TokenLogprobs]) -> list[WireEvent]:
        """The events of more text."""
        ...

    def close(self, status: Status) -> list[WireEvent]:
        """The last events; that of `response.output_item.done` holds the whole item."""
        ...


class TextItem:
    """A message. It has one `output_text` part, which may be empty."""

    def __init__(self, index: int, phase: str) -> None:
        self.id = new_id("msg")
        self._index = index
        self._phase = phase
        self._at = {"item_id": self.id, "output_index": index, "content_index": 0}
        self._text: list[str] = []
        self._logprobs: list[dict[str, Any]] = []

    def open(self) -> list[WireEvent]:
        """The message without content, then its part without text."""
        return [
            _added(self._index, self._item("in_progress", [])),
            {"type": "response.content_part.added", **self._at, "part": self._part()},
        ]

    def delta(self, text: str, logprobs: Sequence[TokenLogprobs]) -> list[WireEvent]:
        """One event."""
        self._text.append(text)
        shown = entries(logprobs) if logprobs else []
        self._logprobs += shown
        return [
            {
                "type": "response.output_text.delta",
                **self._at,
                "delta": text,
                "logprobs": shown,
            }
        ]

    def close(self, status: Status) -> list[WireEvent]:
        """The whole text, the whole part, the whole message."""
        return closing(self._index, self._item(status, [self._part()]))

    def _part(self) -> dict[str, Any]:
        text = "".join(self._text)
        return {
            "type": "output_text",
            "text": text,
            "annotations": [],
            "logprobs": list(self._logprobs),
        }

    def _item(self, status: Status, content: list[dict[str, Any]]) -> dict[str, Any]:
        return {
            "type": "message",
            "id": self.id,
            "status": status,
            "role": "assistant",
            "content": content,
            "phase": self._phase,
        }


class ReasoningItem:
    """Raw chain of thought. Its part appears with its first text: an empty one has no content."""

    def __init__(self, index: int) -> None:
        self.id = new_id("rs")
        self._index = index
        self._at = {"item_id": self.id, "output_index": index, "content_index": 0}
        self._text: list[str] = []

    def open(self) -> list[WireEvent]:
        """The item without content."""
        return [_added(self._index, self._item("in_progress", []))]

    def delta(self, text: str, logprobs: Sequence[TokenLogprobs]) -> list[WireEvent]:
        """One event, after that of the new part where it is the first."""
        events: list[WireEvent] = []
        if not self._text:
            part = {"type": "reasoning_text", "text": ""}
            events.append({"type": "response.content_part.added", **self._at, "part": part})
        self._text.append(text)
        events.append({"type": "response.reasoning_text.delta", **self._at, "delta": text})
        return events

    def close(self, status: Status) -> list[WireEvent]:
        """The whole text and part where there is any, the whole item."""
        part = {"type": "reasoning_text", "text": "".join(self._text)}
        return closing(self._index, self._item(status, [part] if self._text else []))

    def _item(self, status: Status, content: list[dict[str, Any]]) -> dict[str, Any]:
        return {
            "type": "reasoning",
            "id": self.id,
            "status": status,
            "summary": [],
            "content": content,
        }


class HiddenReasoningItem(ReasoningItem):
    """Reasoning of which only the fact is told."""

    def delta(self, text: str, logprobs: Sequence[TokenLogprobs]) -> list[WireEvent]:
        """Nothing."""
        return []


class CallItem:
    """A call of a function (JSON `arguments`) or of a custom tool (free `input`)."""

    def __init__(self, index: int, tool: DeclaredTool) -> None:
        custom = tool.kind == "custom"
        self.id = new_id("ctc" if custom else "fc")
        self._index = index
        self._tool = tool
        self._call_id = new_id("call")
        self._kind = "custom_tool_call" if custom else "function_call"
        self._body = "input" if custom else "arguments"
        self._event = f"response.{self._kind}_{self._body}"
        self._at = {"item_id": self.id, "output_index": index}
        self._text: list[str] = []

    def open(self) -> list[WireEvent]:
        """The call without its arguments."""
        return [_added(self._index, self._item("in_progress"))]

    def delta(self, text: str, logprobs: Sequence[TokenLogprobs]) -> list[WireEvent]:
        """One event."""
        self._text.append(text)
        return [{"type": f"{self._event}.delta", **self._at, "delta": text}]

    def close(self, status: Status) -> list[WireEvent]:
        """The whole arguments, the whole call."""
        return closing(self._index, self._item(status))

    def _item(self, status: Status) -> dict[str, Any]:
        item = {
            "type": self._kind,
            "id": self.id,
            "status": status,
            "call_id": self._call_id,
            "name": self._tool.name,
            self._body: "".join(self._text),
        }
        return item if self._tool.namespace is None else item | {"namespace": self._tool.namespace}


def output_item(
    index: int, header: Header, tool: DeclaredTool | None, *, hide_reasoning: bool
) -> OutputItem:
    """The item that a message becomes. The recipient decides: with one it is a call (`tool`)."""
    if tool is not None:
        return CallItem(index, tool)
    if header.channel is Channel.ANALYSIS:
        return HiddenReasoningItem(index) if hide_reasoning else ReasoningItem(index)
    return TextItem(index, "final_answer" if header.channel is Channel.FINAL else "commentary")


def closing(index: int, item: dict[str, Any]) -> list[WireEvent]:
    """The last events of an item, from what it has become."""
    at = {"item_id": item["id"], "output_index": index}
    events: list[WireEvent] = []
    match item:
        case {"type": "function_call", "arguments": text, "name": name}:
            kind = "response.function_call_arguments.done"
            events.append({"type": kind, **at, "arguments": text, "name": name})
        case {"type": "custom_tool_call", "input": text}:
            events.append({"type": "response.custom_tool_call_input.done", **at, "input": text})
        case {"content": parts}:
            for place, part in enumerate(parts):
                events += _part_done({**at, "content_index": place}, part)
    return [*events, {"type": "response.output_item.done", "output_index": index, "item": item}]


def _part_done(at: dict[str, Any], part: dict[str, Any]) -> list[WireEvent]:
    said: dict[str, Any] = {name: part[name] for name in ("text", "logprobs") if name in part}
    return [
        {"type": f"response.{part['type']}.done", **at, **said},
        {"type": "response.content_part.done", **at, "part": part},
    ]


def _added(index: int, item: dict[str, Any]) -> WireEvent:
    return {"type": "response.output_item.added", "output_index": index, "item": item}
