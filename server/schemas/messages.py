"""The messages of Chat Completions, as clients send them.

Sources: https://platform.openai.com/docs/api-reference/chat/create#chat-create-messages and, for
the reasoning fields, https://openrouter.ai/docs/use-cases/reasoning-tokens
"""

from typing import Any, Literal, NotRequired

from typing_extensions import TypeAliasType, TypedDict

from server.schemas.content import Content
from server.schemas.descriptions import described


@described
class DeveloperMessage(TypedDict):
    """Instructions for the model."""

    role: Literal["system", "developer"]
    content: Content


@described
class UserMessage(TypedDict):
    """What the user says."""

    role: Literal["user"]
    content: Content
    name: NotRequired[str | None]
    """Up to 64 printable characters without white space or `<|\\/>`."""


@described
class FunctionCall(TypedDict):
    """A function's name and the call's arguments."""

    name: str
    arguments: str
    """JSON, as the model wrote it."""


@described
class CustomCall(TypedDict):
    """A custom tool's name and the call's input."""

    name: str
    input: str


@described
class FunctionToolCall(TypedDict):
    """A call of a function."""

    id: str
    type: NotRequired[Literal["function"]]
    function: FunctionCall


@described
class CustomToolCall(TypedDict):
    """A call of a custom tool."""

    id: str
    type: Literal["custom"]
    custom: CustomCall


@described
class AssistantMessage(TypedDict):
    """A message of the model, as the client received it."""

    role: Literal["assistant"]
    content: NotRequired[Content | None]
    refusal: NotRequired[str | None]
    """Read in place of `content`, where that is null."""
    tool_calls: NotRequired[list[FunctionToolCall | CustomToolCall] | None]
    function_call: NotRequired[FunctionCall | None]
    """Deprecated: as `tool_calls` with one function."""
    reasoning: NotRequired[str | None]
    """The chain of thought."""
    reasoning_content: NotRequired[str | None]
    """Another name of `reasoning`, read where that is missing."""
    reasoning_details: NotRequired[list[dict[str, Any]] | None]
    """The chain of thought in parts, and encrypted."""


@described
class ToolMessage(TypedDict):
    """What a call gave."""

    role: Literal["tool"]
    tool_call_id: str
    content: Content


@described
class FunctionMessage(TypedDict):
    """What a call of `function_call` gave. Deprecated."""

    role: Literal["function"]
    name: str
    content: Content


InputMessage = TypeAliasType(
    "InputMessage",
    DeveloperMessage | UserMessage | AssistantMessage | ToolMessage | FunctionMessage,
)
