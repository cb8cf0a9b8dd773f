"""Make the stored form of a chat completion.

Source: https://platform.openai.com/docs/api-reference/chat/list
"""

from typing import Any

from server.schemas.chat import CreateChatCompletion
from server.store.chat_completions.base import StoredChatCompletion
from server.store.items import SampledTurn

_ECHOED_FIELDS = (
    "frequency_penalty",
    "presence_penalty",
    "response_format",
    "seed",
    "temperature",
    "tool_choice",
    "top_p",
)


def stored_chat_completion(
    request: CreateChatCompletion,
    tools: list[dict[str, Any]],
    completion: dict[str, Any],
    turns: tuple[SampledTurn, ...],
    owner: str,
) -> StoredChatCompletion:
    """A completion with the request's parameters and messages, as the store keeps it.

    request: the request that made the completion. tools: its tools without secrets.
    completion: the completion as the client received it.
    turns: the sampled messages of each choice that has calls.
    owner: the API key's digest.
    """
    parameters = {name: getattr(request, name) for name in _ECHOED_FIELDS}
    if request.tools is not None:
        parameters["tools"] = tools
    stored = {
        **completion,
        **{name: value for name, value in parameters.items() if value is not None},
        "metadata": request.metadata or {},
    }
    if request.user is not None:
        stored["input_user"] = request.user
    messages = tuple(
        _stored_message(message, f"{completion['id']}-{index}")
        for index, message in enumerate(request.messages)
    )
    return StoredChatCompletion(owner, stored, messages, turns)


def _stored_message(message: dict[str, Any], message_id: str) -> dict[str, Any]:
    """The message with `content` as text or null, and parts of content in `content_parts`."""
    content = message.get("content")
    if isinstance(content, list):
        return {**message, "id": message_id, "content": None, "content_parts": content}
    return {**message, "id": message_id, "content_parts": None}
