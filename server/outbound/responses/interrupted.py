"""The last events of a response whose server stopped before the response was finished."""

from collections.abc import Sequence
from typing import Any

from server.encoding.json_pieces import EncodedArray
from server.errors import ServerFailed
from server.generation.runs import WireEvent
from server.outbound.responses.failure import error_event
from server.outbound.responses.fold import fold
from server.outbound.responses.hosted.web_search import UNKNOWN_ACTION
from server.outbound.responses.item_events import TEXT_FIELDS, closing_events
from server.outbound.summary_parts import interrupted_summary, is_summary_event

REASON = "The server that made this response stopped before it was finished."


def end_interrupted(started: dict[str, Any], events: Sequence[WireEvent]) -> list[WireEvent]:
    """All events of the response: the stored ones, followed by those of its failure.

    An item that was open ends incomplete, with the text of its stored deltas.

    started: the response before its first token.
    events: the stored events. Without any, the first two events are made from `started`.
    """
    stored = list(events) or [
        {"type": "response.created", "response": started, "sequence_number": 0},
        {
            "type": "response.in_progress",
            "response": {**started, "status": "in_progress"},
            "sequence_number": 1,
        },
    ]
    closing = _close_open_item(stored)
    failed = {
        **fold([*stored, *closing]),
        "status": "failed",
        "error": {"code": "server_error", "message": REASON},
    }
    last: list[WireEvent] = [
        *closing,
        error_event(ServerFailed(REASON)),
        {"type": "response.failed", "response": failed},
    ]
    first = len(stored)
    return stored + [{**event, "sequence_number": first + n} for n, event in enumerate(last)]


def is_interrupted(last: WireEvent) -> bool:
    """Whether a response's last event was made by `end_interrupted`."""
    if last["type"] != "response.failed":
        return False
    message: str = last["response"]["error"]["message"]
    return message == REASON


def _close_open_item(events: Sequence[WireEvent]) -> list[WireEvent]:
    """The last events of the item that is open; none if all items are done."""
    added = [event for event in events if event["type"] == "response.output_item.added"]
    done = [event for event in events if event["type"] == "response.output_item.done"]
    if len(added) == len(done):
        return []
    index, item = added[-1]["output_index"], added[-1]["item"]
    deltas = [
        event
        for event in events
        if event.get("item_id") == item["id"]
        and event["type"].endswith(".delta")
        and not is_summary_event(event)
    ]
    annotations = [
        event["annotation"]
        for event in events
        if event.get("item_id") == item["id"]
        and event["type"] == "response.output_text.annotation.added"
    ]
    ended = {**item, **_body(item, deltas, annotations), "status": "incomplete"}
    ending: list[WireEvent] = []
    if item["type"] == "reasoning":
        ending, fields = interrupted_summary(item["id"], events)
        ended |= fields
    closing = closing_events(index, ended)
    shown = {event["type"] for event in events if event.get("item_id") == item["id"]}
    # The text of a hosted call may have been complete before its tool ran.
    return [*ending, *(event for event in closing if event["type"] not in shown)]


def _body(
    item: dict[str, Any], deltas: Sequence[WireEvent], annotations: Sequence[dict[str, Any]]
) -> dict[str, Any]:
    text = "".join(event["delta"] for event in deltas)
    match item["type"]:
        case kind if kind in TEXT_FIELDS:
            return {TEXT_FIELDS[kind]: text}
        case "web_search_call":
            return {"action": UNKNOWN_ACTION}
        case "reasoning":
            return {"content": [{"type": "reasoning_text", "text": text}] if text else []}
        case _:
            logprobs = EncodedArray()
            logprobs.add(entry for event in deltas for entry in event["logprobs"])
            part = {
                "type": "output_text",
                "text": text,
                "annotations": list(annotations),
                "logprobs": logprobs or [],
            }
            return {"content": [part]}
