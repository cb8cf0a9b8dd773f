"""The end of a response whose server stopped while it was made, from the events that it left."""

from collections.abc import Sequence
from typing import Any

from server.errors import ServerFailed
from server.generation.runs import WireEvent
from server.outbound.failure import error_event
from server.outbound.fold import fold
from server.outbound.items import closing

REASON = "The server that made this response stopped before it was finished."


def end_interrupted(started: dict[str, Any], events: Sequence[WireEvent]) -> list[WireEvent]:
    """All events of the response: those that are known, then how it failed.

    started: the response before its first token. An item that was open ends incomplete, with the
    text that is known of it.
    """
    known = list(events) or [
        {"type": "response.created", "response": started, "sequence_number": 0},
        {"type": "response.in_progress", "response": started, "sequence_number": 1},
    ]
    closed = _closed(known)
    failed = {
        **fold([*known, *closed]),
        "status": "failed",
        "error": {"code": "server_error", "message": REASON},
    }
    last: list[WireEvent] = [
        *closed,
        error_event(ServerFailed(REASON)),
        {"type": "response.failed", "response": failed},
    ]
    first = len(known)
    return known + [{**event, "sequence_number": first + n} for n, event in enumerate(last)]


def _closed(events: Sequence[WireEvent]) -> list[WireEvent]:
    """The end of the item that is open, if one is."""
    added = [event for event in events if event["type"] == "response.output_item.added"]
    done = [event for event in events if event["type"] == "response.output_item.done"]
    if len(added) == len(done):
        return []
    index, item = added[-1]["output_index"], added[-1]["item"]
    deltas = [
        event
        for event in events
        if event.get("item_id") == item["id"] and event["type"].endswith(".delta")
    ]
    return closing(index, {**item, **_body(item, deltas), "status": "incomplete"})


def _body(item: dict[str, Any], deltas: Sequence[WireEvent]) -> dict[str, Any]:
    text = "".join(event["delta"] for event in deltas)
    match item["type"]:
        case "function_call":
            return {"arguments": text}
        case "custom_tool_call":
            return {"input": text}
        case "reasoning":
            return {"content": [{"type": "reasoning_text", "text": text}] if text else []}
        case _:
            logprobs = [entry for event in deltas for entry in event["logprobs"]]
            part = {"type": "output_text", "text": text, "annotations": [], "logprobs": logprobs}
            return {"content": [part]}
