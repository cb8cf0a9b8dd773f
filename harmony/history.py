"""Removes the reasoning of answered turns from a conversation.

Source: the harmony guide, "Handling reasoning output in subsequent sampling". Reasoning before a
final answer is dropped from later prompts. Reasoning before a call is needed until the turn has its
final answer. A call of a built-in tool on the analysis channel is a part of the reasoning, and so
is its result.
"""

from collections.abc import Iterator, Sequence

from harmony import tools
from harmony.messages import Channel, Message, Role


def without_answered_reasoning(messages: Sequence[Message]) -> tuple[Message, ...]:
    """`messages` without the reasoning before the last answer. The function is idempotent.

    Calls of built-in tools on the analysis channel are dropped with it, together with their
    results. Calls on other channels, calls of functions on any channel, and their results remain.
    What comes after the last answer remains, since its turn is not complete.
    """
    answer = max((i for i, message in enumerate(messages) if _is_answer(message)), default=-1)
    return (*_without_reasoning(messages[: answer + 1]), *messages[answer + 1 :])


def _without_reasoning(messages: Sequence[Message]) -> Iterator[Message]:
    # Whether the last call of each built-in tool in this turn is dropped. A result follows its call
    # even where it names another channel, so that neither remains alone.
    dropped: dict[str, bool] = {}
    for message in messages:
        on_analysis = message.channel == Channel.ANALYSIS
        name = _built_in(message)
        if name is None:
            drop = on_analysis and _is_text(message)
        elif message.author.role == Role.TOOL:
            drop = dropped.pop(name, on_analysis)
        else:
            drop = dropped[name] = on_analysis
        if _is_answer(message):
            dropped.clear()
        if not drop:
            yield message


def _built_in(message: Message) -> str | None:
    """The name of the built-in tool that a message calls or is the result of; None for others."""
    if message.author.role == Role.TOOL:
        name = message.author.name
    elif message.author.role == Role.ASSISTANT:
        name = message.recipient
    else:
        return None
    is_tool = name not in (None, "all") and not name.startswith(f"{tools.FUNCTIONS}.")
    return name if is_tool else None


def _is_answer(message: Message) -> bool:
    return message.channel == Channel.FINAL and _is_text(message)


def _is_text(message: Message) -> bool:
    # A message with a recipient is a call, on any channel.
    return message.author.role == Role.ASSISTANT and message.recipient is None
