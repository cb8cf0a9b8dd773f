"""A chat message's reasoning, which clients send back in up to four forms; it is read once.

Source: https://openrouter.ai/docs/use-cases/reasoning-tokens
"""

from collections.abc import Iterable
from typing import Any

from harmony.messages import Author, Channel, Message, Role
from server.replay.joining import joined
from server.replay.sealed_items import Unseal
from server.schemas.chat import ALIAS, SEAL_FORMAT
from server.schemas.fields import array, mapping, optional_string, string


def reasoning_of(message: dict[str, Any], where: str, unseal: Unseal) -> list[Message]:
    """The raw chain of thought, and what was told with it; none where the message has none.

    What was sealed is repeated token by token, unless text beside it says something else: then
    the client changed it, and the text counts. Raises InvalidRequest naming the field.
    """
    given = message.get("reasoning_details")
    listed = [] if given is None else array(given, f"{where}.reasoning_details")
    params = (f"{where}.reasoning_details.{index}" for index in range(len(listed)))
    details = [(param, mapping(item, param)) for param, item in zip(params, listed, strict=True)]
    sealed = [unseal(data, param) for data, param in _seals(details).items()]
    text = _text(message, where, details)
    if sealed and text in ("", joined(str(each.content) for each in sealed)):
        return sealed
    return [Message(Author(Role.ASSISTANT), text, Channel.ANALYSIS)] if text else []


def _seals(details: Iterable[tuple[str, dict[str, Any]]]) -> dict[str, str]:
    """Each seal with the field that holds it; in another format it is another model's."""
    return {
        string(detail.get("data"), f"{param}.data"): f"{param}.data"
        for param, detail in details
        if detail.get("type") == "reasoning.encrypted" and detail.get("format") == SEAL_FORMAT
    }


def _text(
    message: dict[str, Any], where: str, details: Iterable[tuple[str, dict[str, Any]]]
) -> str:
    """From one field alone. Summaries are other models': nothing that this one has said."""
    for field in ("reasoning", ALIAS):
        if text := optional_string(message.get(field), f"{where}.{field}"):
            return text
    return "".join(
        optional_string(detail.get("text"), f"{param}.text") or ""
        for param, detail in details
        if detail.get("type") == "reasoning.text"
    )
