"""The events that begin and end an output item.

The order of an item's events, by the Open Responses specification (2026-04-24): output_item.added,
content_part.added, deltas, `.done`, content_part.done, output_item.done.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from server.generation.runs import WireEvent

TEXT_FIELDS: Mapping[str, str] = {
    "function_call": "arguments",
    "custom_tool_call": "input",
    "code_interpreter_call": "code",
    "mcp_call": "arguments",
}
"""By the type of a call whose text is streamed: the item's field with that text.

The events with the text are named after both: `response.mcp_call_arguments.delta` and `.done`.
"""


def added(index: int, item: dict[str, Any]) -> WireEvent:
    """The event that begins an item. index: its `output_index`."""
    return {"type": "response.output_item.added", "output_index": index, "item": item}


def done(index: int, item: dict[str, Any]) -> WireEvent:
    """The event with the whole item. index: its `output_index`."""
    return {"type": "response.output_item.done", "output_index": index, "item": item}


def closing_events(index: int, item: dict[str, Any]) -> list[WireEvent]:
    """The events with the whole text of an item, its whole parts, and the whole item.

    index: its `output_index`.
    """
    position = {"item_id": item["id"], "output_index": index}
    if item["type"] in TEXT_FIELDS:
        return [_call_text_done(position, item), done(index, item)]
    return [*_parts_done(position, item.get("content", ())), done(index, item)]


def _call_text_done(position: dict[str, Any], item: dict[str, Any]) -> WireEvent:
    kind, field = item["type"], TEXT_FIELDS[item["type"]]
    event = {"type": f"response.{kind}_{field}.done", **position, field: item[field]}
    return {**event, "name": item["name"]} if kind == "function_call" else event


def _parts_done(position: dict[str, Any], parts: Any) -> Iterator[WireEvent]:
    for content_index, part in enumerate(parts):
        place = {**position, "content_index": content_index}
        text = {name: part[name] for name in ("text", "logprobs") if name in part}
        yield {"type": f"response.{part['type']}.done", **place, **text}
        yield {"type": "response.content_part.done", **place, "part": part}
