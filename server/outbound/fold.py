"""Responses' events -> the response that they tell of."""

from collections.abc import Iterable
from typing import Any

from server.generation.runs import WireEvent

ENDED = frozenset({"response.completed", "response.incomplete", "response.failed"})
_SHOWS_RESPONSE = ENDED | {"response.created", "response.queued", "response.in_progress"}

DEFINING = _SHOWS_RESPONSE | {"response.output_item.done"}
"""The events that `fold` needs; the others only repeat what these have."""


def fold(events: Iterable[WireEvent]) -> dict[str, Any]:
    """The response as its last event shows it, with the items that are done as its output."""
    response: dict[str, Any] = {}
    output: list[dict[str, Any]] = []
    for event in events:
        if event["type"] == "response.output_item.done":
            output.append(event["item"])
        elif event["type"] in _SHOWS_RESPONSE:
            response = event["response"]
    return {**response, "output": output}
