"""The parts of a reasoning item's summary, and their events.

The order of a part's events: reasoning_summary_part.added, reasoning_summary_text.delta, `.done`,
reasoning_summary_part.done. Source:
https://platform.openai.com/docs/api-reference/responses-streaming
"""

import re
from collections.abc import Sequence
from typing import Any

from server.generation.runs import WireEvent
from server.generation.turn_events import SummaryWritten

QUOTED_FIELD = "gpt_oss:quotes_reasoning"
"""The extension field of summaries that are made of sentences of the reasoning."""

_ADDED = "response.reasoning_summary_part.added"
_DELTA = "response.reasoning_summary_text.delta"
_TEXT_DONE = "response.reasoning_summary_text.done"
_DONE = "response.reasoning_summary_part.done"
_AFTER_PARAGRAPH = re.compile(r"(?<=\n\n)")


class SummaryParts:
    """The summary of one item."""

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._quoted: dict[str, Any] = {}

    def add(self, part: SummaryWritten, item_id: str, output_index: int) -> list[WireEvent]:
        """The events of the next part."""
        if part.quotes:
            self._quoted = {QUOTED_FIELD: True}
        position = {"output_index": output_index, "summary_index": len(self._texts)}
        fields = {"item_id": item_id, **position, **self._quoted}
        self._texts.append(part.text)
        deltas = filter(None, _AFTER_PARAGRAPH.split(part.text))
        return [
            {"type": _ADDED, **fields, "part": _part("")},
            *({"type": _DELTA, **fields, "delta": text} for text in deltas),
            *_closing(fields, part.text, complete=part.complete),
        ]

    def fields(self) -> dict[str, Any]:
        """The item's fields with the summary."""
        return {"summary": [_part(text) for text in self._texts], **self._quoted}


def interrupted_summary(
    item_id: str, events: Sequence[WireEvent]
) -> tuple[list[WireEvent], dict[str, Any]]:
    """The events that end an open part, and the fields of an item whose answer was interrupted.

    events: all events so far.
    """
    own = [event for event in events if event.get("item_id") == item_id]
    added = [event for event in own if event["type"] == _ADDED]
    deltas = [event for event in own if event["type"] == _DELTA]
    texts = [
        "".join(each["delta"] for each in deltas if each["summary_index"] == part["summary_index"])
        for part in added
    ]
    quoted = {QUOTED_FIELD: True} if any(QUOTED_FIELD in event for event in added) else {}
    fields = {"summary": [_part(text) for text in texts], **quoted}
    if len(added) == len([event for event in own if event["type"] == _DONE]):
        return [], fields
    names = ("item_id", "output_index", "summary_index", QUOTED_FIELD)
    position = {name: added[-1][name] for name in names if name in added[-1]}
    shown = {e["type"] for e in own if e.get("summary_index") == position["summary_index"]}
    closing = _closing(position, texts[-1], complete=False)
    return [event for event in closing if event["type"] not in shown], fields


def is_summary_event(event: WireEvent) -> bool:
    """Whether an event belongs to a part of a summary."""
    return str(event["type"]).startswith("response.reasoning_summary_")


def _closing(fields: dict[str, Any], text: str, *, complete: bool) -> list[WireEvent]:
    """The events that end a part. fields: those of all events of the part."""
    status = {} if complete else {"status": "incomplete"}
    return [
        {"type": _TEXT_DONE, **fields, "text": text},
        {"type": _DONE, **fields, "part": _part(text), **status},
    ]


def _part(text: str) -> dict[str, Any]:
    return {"type": "summary_text", "text": text}
