"""Stored chat completions as the API shows them.

Source: https://platform.openai.com/docs/api-reference/chat/list
"""

from typing import Any

from server.schemas.chat import CreateChatCompletion
from server.store.chat_completions.base import StoredChatCompletion
from server.store.items import SampledMessages

_ECHOED = (
    "frequency_penalty",
    "presence_penalty",
    "response_format",
    "seed",
    "temperature",
    "tool_choice",
    "tools",
    "top_p",
)


def stored_chat_completion(
    request: CreateChatCompletion,
    completion: dict[str, Any],
    called: dict[str, SampledMessages],
    owner: str,
) -> StoredChatCompletion:
    """A completion with what the request asked for, as it is kept."""
    asked = {name: getattr(request, name) for name in _ECHOED}
    shown = {
        **completion,
        **{name: value for name, value in asked.items() if value is not None},
        "metadata": request.metadata or {},
    }
    if request.user is not None:
        shown["input_user"] = request.user
    messages = tuple(
        _stored_message(message, f"{completion['id']}-{index}")
        for index, message in enumerate(request.messages)
    )
    return StoredChatCompletion(owner, shown, messages, called)


def _stored_message(message: dict[str, Any], message_id: str) -> dict[str, Any]:
    """Content in parts has a field of its own here."""
    content = message.get("content")
    if isinstance(content, list):
        return {**message, "id": message_id, "content": None, "content_parts": content}
    return {**message, "id": message_id, "content_parts": None}
