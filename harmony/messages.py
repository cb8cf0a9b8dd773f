"""The harmony data model: the messages that prompts are rendered from and samplings are parsed to.

All classes are frozen. Source: OpenAI's harmony response format guide
(https://cookbook.openai.com/articles/openai-harmony).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Role(StrEnum):
    """The sender of a message, in the order of precedence for the model."""

    SYSTEM = "system"
    DEVELOPER = "developer"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


class Channel(StrEnum):
    """The channel of an assistant message.

    Analysis has the raw reasoning, commentary has calls and preambles, final has the answer.
    """

    ANALYSIS = "analysis"
    COMMENTARY = "commentary"
    FINAL = "final"


class Effort(StrEnum):
    """The reasoning efforts that gpt-oss was trained on, as the system message names them."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


@dataclass(frozen=True, slots=True)
class Author:
    """The sender of a message.

    name: the full recipient name of a tool, such as `functions.f`. Callers check names from
    clients with `names.is_name`.
    """

    role: Role
    name: str | None = None


@dataclass(frozen=True, slots=True)
class FunctionTool:
    """A function as declared to the model.

    parameters: the JSON Schema of the arguments, None for a function without parameters.
    freeform: True for a custom tool, which takes a text instead of JSON arguments.
    """

    name: str
    description: str | None = None
    parameters: Mapping[str, Any] | None = None
    freeform: bool = False


@dataclass(frozen=True, slots=True)
class ToolNamespace:
    """A named group of tools: `functions`, `browser`, `python`. Calls have the recipient
    `name.tool`.

    A namespace without tools (`python`) is itself the recipient.
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
    """The content of a system message.

    start_date: the current date as `YYYY-MM-DD`.
    channels: the valid channels, in the order in which the message names them.
    tools: the built-in namespaces (browser, python), never functions.
    """

    identity: str = "You are ChatGPT, a large language model trained by OpenAI."
    knowledge_cutoff: str | None = "2024-06"
    start_date: str | None = None
    effort: Effort | None = Effort.MEDIUM
    channels: tuple[Channel, ...] = (Channel.ANALYSIS, Channel.COMMENTARY, Channel.FINAL)
    tools: tuple[ToolNamespace, ...] = ()


@dataclass(frozen=True, slots=True)
class DeveloperContent:
    """The content of a developer message: instructions, function namespaces, response formats."""

    instructions: str | None = None
    tools: tuple[ToolNamespace, ...] = ()
    response_formats: tuple[ResponseFormat, ...] = ()


@dataclass(frozen=True, slots=True)
class Message:
    """One harmony message.

    content_type: the word after `<|constrain|>` (or in its place), such as `json`. `json` is
    rendered as the word alone, `<|constrain|>json` with the control token. It must not come from a
    client.
    tokens: the ids that the model sampled for this message, from `<|start|>` to the token that
    ended it. If they are present, the renderer uses them instead of the other fields.
    """

    author: Author
    content: str | SystemContent | DeveloperContent
    channel: Channel | None = None
    recipient: str | None = None
    content_type: str | None = None
    tokens: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class Conversation:
    """The messages of a prompt in order, before `harmony.history` drops any.

    all_reasoning: keep the reasoning of answered turns.
    """

    messages: tuple[Message, ...]
    all_reasoning: bool = False
