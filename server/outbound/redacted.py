"""Remove raw reasoning from stored objects, for a server that hides it.

The objects may have been stored while raw reasoning was shown. Its text becomes empty, and no event
or part is removed: sequence numbers have no gap, and clients can resume after any of them. The same
applies to summaries that quote the reasoning. Summaries of a model stay.
"""

from typing import Any

from server.generation.runs import WireEvent
from server.outbound.summary_parts import QUOTED_FIELD
from server.replay.joining import join_texts
from server.schemas.chat import ALIAS, SEAL_DETAIL, SUMMARY_DETAIL
from server.schemas.responses import RECORD

_COMPLETION_FIELDS = frozenset({"prompt_token_ids"})
_CHOICE_FIELDS = frozenset({"token_ids"})
_RESPONSE_FIELDS = _COMPLETION_FIELDS | _CHOICE_FIELDS | {RECORD}
_MESSAGE_FIELDS = frozenset({"reasoning", "reasoning_details", ALIAS})


def redacted_item(item: dict[str, Any]) -> dict[str, Any]:
    """An input or output item. `encrypted_content` stays, because clients cannot read it."""
    if item["type"] != "reasoning":
        return item
    content = {"content": [{"type": "reasoning_text", "text": ""}]} if item.get("content") else {}
    if item.get(QUOTED_FIELD):
        content["summary"] = [{**part, "text": ""} for part in _parts(item.get("summary"))]
    return {**item, **content}


def _parts(value: Any) -> list[dict[str, Any]]:
    """The parts of a list. What clients send is stored as it is, with values of any type."""
    return [part for part in value if isinstance(part, dict)] if isinstance(value, list) else []


def redacted_response(response: dict[str, Any]) -> dict[str, Any]:
    """A response object, without token ids, which would reveal the reasoning."""
    output = [redacted_item(item) for item in response["output"]]
    return {**_without(response, _RESPONSE_FIELDS), "output": output}


def redacted_event(event: WireEvent) -> WireEvent:
    """An event of the Responses API."""
    match event:
        case {"type": "response.reasoning_text.delta"}:
            return {**event, "delta": ""}
        case {"type": "response.reasoning_text.done"}:
            return {**event, "text": ""}
        case {"type": "response.reasoning_summary_text.delta"} if event.get(QUOTED_FIELD):
            return {**event, "delta": ""}
        case {"type": "response.reasoning_summary_text.done"} if event.get(QUOTED_FIELD):
            return {**event, "text": ""}
        case {"part": {"type": "summary_text"} as part} if event.get(QUOTED_FIELD):
            return {**event, "part": {**part, "text": ""}}
        case {"part": {"type": "reasoning_text"} as part}:
            return {**event, "part": {**part, "text": ""}}
        case {"item": item}:
            return {**event, "item": redacted_item(item)}
        case {"response": response}:
            return {**event, "response": redacted_response(response)}
    return event


def redacted_message(message: dict[str, Any]) -> dict[str, Any]:
    """A message of a chat completion or of its request. Sealed reasoning stays."""
    kept = [entry for entry in _parts(message.get("reasoning_details")) if _may_be_shown(entry)]
    shown = _without(message, _MESSAGE_FIELDS)
    return {**shown, **_summary_fields(message, kept), "reasoning_details": kept} if kept else shown


def _may_be_shown(entry: dict[str, Any]) -> bool:
    """Whether an entry of `reasoning_details` is sealed, or a summary that was screened."""
    kind = entry.get("type")
    return kind == SEAL_DETAIL or (kind == SUMMARY_DETAIL and not entry.get(QUOTED_FIELD))


def _summary_fields(message: dict[str, Any], kept: list[dict[str, Any]]) -> dict[str, Any]:
    """The text fields of a message whose reasoning is shown as its summary.

    kept: the entries of its `reasoning_details` that stay.
    """
    summaries = [entry["summary"] for entry in kept if isinstance(entry.get("summary"), str)]
    text = join_texts(summaries)
    return {name: text for name in ("reasoning", ALIAS) if text and name in message}


def redacted_completion(completion: dict[str, Any]) -> dict[str, Any]:
    """A chat completion, without token ids, which would reveal the reasoning."""
    choices = [
        {**_without(choice, _CHOICE_FIELDS), "message": redacted_message(choice["message"])}
        for choice in completion["choices"]
    ]
    return {**_without(completion, _COMPLETION_FIELDS), "choices": choices}


def _without(fields: dict[str, Any], names: frozenset[str]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if name not in names}
