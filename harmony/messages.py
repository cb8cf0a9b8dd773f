"""The harmony data model: what a conversation is before it becomes tokens and after it was tokens.

Everything here is frozen and free of I/O. Source: OpenAI's harmony response format guide
(https://cookbook.openai.com/articles/openai-harmony).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Role(StrEnum):
    """Who a message is from; in order of precedence for the model."""

    SYSTEM = "system"
    DEVELOPER = "developer"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


class Channel(StrEnum):
    """Where an assistant message is spoken: raw reasoning, calls and preambles, or the answer."""

    ANALYSIS = "analysis"
    COMMENTARY = "commentary"
    FINAL = "final"


class Effort(StrEnum):
    """The reasoning efforts that gpt-oss was trained on, as the system message words them."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


@dataclass(frozen=True, slots=True)
class Author:
    """A message's sender; `name` is a tool's full recipient name, such as `functions.f`.

    What a client gives as a name is checked by `names.is_name` before it comes here.
    """

    role: Role
    name: str | None = None


@dataclass(frozen=True, slots=True)
class FunctionTool:
    """A function as declared to the model.

    `parameters` is its JSON Schema, None where it takes none.
    `freeform` marks a custom tool: it takes one text instead of JSON arguments.
    """

    name: str
    description: str | None = None
    parameters: Mapping[str, Any] | None = None
    freeform: bool = False


@dataclass(frozen=True, slots=True)
class ToolNamespace:
    """Tools under one name: `functions`, `browser`, `python`. A call's recipient is `name.tool`.

    A namespace without tools (python) is itself the recipient.
    """

    name: str
    description: str | None = None
    tools: tuple[FunctionTool, ...] = ()


@dataclass(frozen=True, slots=True)
class ResponseFormat:
    """A named JSON Schema for the final answer, rendered under `# Response Formats`."""

    name: str
    schema: Mapping[str, Any]
    description: str | None = None


@dataclass(frozen=True, slots=True)
class SystemContent:
    """What the system message says.

    `start_date` is `YYYY-MM-DD`; `channels` are the valid channels in the order they are named;
    `tools` are the built-in namespaces (browser, python), never functions.
    """

    identity: str = "You are ChatGPT, a large language model trained by OpenAI."
    knowledge_cutoff: str | None = "2024-06"
    start_date: str | None = None
    effort: Effort | None = Effort.MEDIUM
    channels: tuple[Channel, ...] = (Channel.ANALYSIS, Channel.COMMENTARY, Channel.FINAL)
    tools: tuple[ToolNamespace, ...] = ()


@dataclass(frozen=True, slots=True)
class DeveloperContent:
    """What a developer message says: instructions, function namespaces, response formats."""

    instructions: str | None = None
    tools: tuple[ToolNamespace, ...] = ()
    response_formats: tuple[ResponseFormat, ...] = ()


@dataclass(frozen=True, slots=True)
class Message:
    """One harmony message.

    `content_type` is the word after `<|constrain|>` (or in its place), such as `json`; it is
    rendered as that word alone, and after the control token where it is given as
    `<|constrain|>json`. Never take it from a client.
    `tokens`, where present, are the ids that the model sampled for this whole message, from
    `<|start|>` to the token that ended it; the renderer replays them instead of rendering anew.
    """

    author: Author
    content: str | SystemContent | DeveloperContent
    channel: Channel | None = None
    recipient: str | None = None
    content_type: str | None = None
    tokens: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class Conversation:
    """Messages in order, as they stand in the prompt before the history rules apply.

    all_reasoning: no rule drops the reasoning of answered turns.
    """

    messages: tuple[Message, ...]
    all_reasoning: bool = False
