"""What was stored while raw reasoning was shown, as a server that hides it may show it.

Its text is blank. Events and parts keep their places, so that sequence numbers have no gap and
clients can go on from any of them.
"""

from typing import Any

from server.generation.runs import WireEvent
from server.schemas.chat import ALIAS

_OF_COMPLETION = frozenset({"prompt_token_ids"})
_OF_CHOICE = frozenset({"token_ids"})
_OF_RESPONSE = _OF_COMPLETION | _OF_CHOICE
_OF_MESSAGE = frozenset({"reasoning", "reasoning_details", ALIAS})
_SEALED = "reasoning.encrypted"


def redacted_item(item: dict[str, Any]) -> dict[str, Any]:
    """An input or output item; `encrypted_content` stays, which tells clients nothing."""
    if item["type"] != "reasoning" or not item.get("content"):
        return item
    return {**item, "content": [{"type": "reasoning_text", "text": ""}]}


def redacted_response(response: dict[str, Any]) -> dict[str, Any]:
    """A response object; token ids would spell the reasoning out."""
    output = [redacted_item(item) for item in response["output"]]
    return {**_without(response, _OF_RESPONSE), "output": output}


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
    """A message of a chat completion, or of its request; sealed reasoning stays.

    A request's messages are as clients sent them: where nothing reads a field it may hold anything.
    """
    given = message.get("reasoning_details")
    details = given if isinstance(given, list) else []
    sealed = [each for each in details if isinstance(each, dict) and each.get("type") == _SEALED]
    shown = _without(message, _OF_MESSAGE)
    return {**shown, "reasoning_details": sealed} if sealed else shown


def redacted_completion(completion: dict[str, Any]) -> dict[str, Any]:
    """A chat completion; token ids would spell the reasoning out."""
    choices = [
        {**_without(choice, _OF_CHOICE), "message": redacted_message(choice["message"])}
        for choice in completion["choices"]
    ]
    return {**_without(completion, _OF_COMPLETION), "choices": choices}


def _without(fields: dict[str, Any], names: frozenset[str]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if name not in names}
