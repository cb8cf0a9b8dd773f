"""Remove raw reasoning from stored objects, for a server that hides it.

The objects may have been stored while raw reasoning was shown. Its text becomes empty, and no event
or part is removed: sequence numbers have no gap, and clients can resume after any of them.
"""

from typing import Any

from server.generation.runs import WireEvent
from server.schemas.chat import ALIAS
from server.schemas.responses import RECORD

_COMPLETION_FIELDS = frozenset({"prompt_token_ids"})
_CHOICE_FIELDS = frozenset({"token_ids"})
_RESPONSE_FIELDS = _COMPLETION_FIELDS | _CHOICE_FIELDS | {RECORD}
_MESSAGE_FIELDS = frozenset({"reasoning", "reasoning_details", ALIAS})
_SEALED_TYPE = "reasoning.encrypted"


def redacted_item(item: dict[str, Any]) -> dict[str, Any]:
    """An input or output item. `encrypted_content` stays, because clients cannot read it."""
    if item["type"] != "reasoning" or not item.get("content"):
        return item
    return {**item, "content": [{"type": "reasoning_text", "text": ""}]}


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
        case {"part": {"type": "reasoning_text"} as part}:
            return {**event, "part": {**part, "text": ""}}
        case {"item": item}:
            return {**event, "item": redacted_item(item)}
        case {"response": response}:
            return {**event, "response": redacted_response(response)}
    return event


def redacted_message(message: dict[str, Any]) -> dict[str, Any]:
    """A message of a chat completion or of its request. Sealed reasoning stays.

    A request's messages are stored as clients sent them, and `reasoning_details` may have any type.
    """
    details = message.get("reasoning_details")
    entries = details if isinstance(details, list) else []
    sealed = [
        entry for entry in entries if isinstance(entry, dict) and entry.get("type") == _SEALED_TYPE
    ]
    shown = _without(message, _MESSAGE_FIELDS)
    return {**shown, "reasoning_details": sealed} if sealed else shown


def redacted_completion(completion: dict[str, Any]) -> dict[str, Any]:
    """A chat completion, without token ids, which would reveal the reasoning."""
    choices = [
        {**_without(choice, _CHOICE_FIELDS), "message": redacted_message(choice["message"])}
        for choice in completion["choices"]
    ]
    return {**_without(completion, _COMPLETION_FIELDS), "choices": choices}


def _without(fields: dict[str, Any], names: frozenset[str]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if name not in names}
