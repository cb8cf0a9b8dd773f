"""Fold events of the Responses API into the response."""

from collections.abc import Iterable
from typing import Any

from server.generation.runs import WireEvent

TERMINAL_EVENTS = frozenset({"response.completed", "response.incomplete", "response.failed"})
_EVENTS_WITH_RESPONSE = TERMINAL_EVENTS | {
    "response.created",
    "response.queued",
    "response.in_progress",
}

DEFINING_EVENTS = _EVENTS_WITH_RESPONSE | {"response.output_item.done"}
"""The types of the events that `fold` reads. All other events repeat parts of these."""


def fold(events: Iterable[WireEvent]) -> dict[str, Any]:
    """The response of the last event that has one, with all completed items as its output."""
    response: dict[str, Any] = {}
    output: list[dict[str, Any]] = []
    for event in events:
        if event["type"] == "response.output_item.done":
            output.append(event["item"])
        elif event["type"] in _EVENTS_WITH_RESPONSE:
            response = event["response"]
    return {**response, "output": output}
