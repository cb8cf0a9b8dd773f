"""A conversation as harmony wants it, from what clients of either API give.

harmony's system message is the model's own; what clients call system or developer messages is
harmony's developer message. Those at the start are one message with the instructions, the tools
and the response formats; later ones stay where they are.
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
    """A client's system or developer message."""
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
    """The whole conversation; `messages` are the client's, in order, those of `developer` too.

    all_reasoning: that of answered turns stays in the prompt.
    """
    given = list(messages)
    leading = [_instructions(message) for message in takewhile(_is_developer, given)]
    told = SEPARATOR.join(text for text in (instructions, *leading) if text) or None
    head = [Message(Author(Role.SYSTEM), system)]
    if told or tools or formats:
        head.append(Message(Author(Role.DEVELOPER), DeveloperContent(told, tools, formats)))
    return Conversation((*head, *given[len(leading) :]), all_reasoning)


def _is_developer(message: Message) -> bool:
    return isinstance(message.content, DeveloperContent)


def _instructions(message: Message) -> str | None:
    assert isinstance(message.content, DeveloperContent)
    return message.content.instructions
