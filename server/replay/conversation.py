"""Builds a harmony conversation from the messages of either API.

harmony's system message holds the model's settings. Clients' system and developer messages become
harmony's developer messages. Those at the start are one message, with the instructions, the tools
and the response formats. Later ones keep their places, and so do notes of the server.
"""

from collections.abc import Iterable
from itertools import takewhile

from harmony.messages import (
    Author,
    Conversation,
    DeveloperContent,
    Message,
    ResponseFormat,
    Role,
    SystemContent,
    ToolNamespace,
)

SEPARATOR = "\n\n"


def developer(text: str) -> Message:
    """The harmony message for a client's system or developer message."""
    return Message(Author(Role.DEVELOPER), DeveloperContent(instructions=text))


def conversation(
    system: SystemContent,
    messages: Iterable[Message],
    *,
    instructions: str | None = None,
    tools: tuple[ToolNamespace, ...] = (),
    formats: tuple[ResponseFormat, ...] = (),
    all_reasoning: bool = False,
) -> Conversation:
    """The whole conversation.

    messages: the client's, in order, developer messages included. instructions: text that comes
    before the client's developer messages. all_reasoning: the prompt keeps the reasoning of turns
    that have a final answer.
    """
    rest = list(messages)
    leading = [_instructions(message) for message in takewhile(_is_developer, rest)]
    text = SEPARATOR.join(part for part in (instructions, *leading) if part) or None
    head = [Message(Author(Role.SYSTEM), system)]
    if text or tools or formats:
        head.append(Message(Author(Role.DEVELOPER), DeveloperContent(text, tools, formats)))
    return Conversation((*head, *rest[len(leading) :]), all_reasoning)


def _is_developer(message: Message) -> bool:
    return isinstance(message.content, DeveloperContent)


def _instructions(message: Message) -> str | None:
    assert isinstance(message.content, DeveloperContent)
    return message.content.instructions
