"""Removes the reasoning of answered turns from a conversation.

Source: the harmony guide, "Handling reasoning output in subsequent sampling". Reasoning before a
final answer is dropped from later prompts. Reasoning before a call is needed until the turn has its
final answer.
"""

from collections.abc import Sequence

from harmony.messages import Channel, Message, Role


def without_answered_reasoning(messages: Sequence[Message]) -> tuple[Message, ...]:
    """`messages` without the reasoning before the last answer. The function is idempotent.

    Calls and tool results remain, on any channel. Reasoning after the last answer remains, since
    its turn is not complete.
    """
    answer = max((i for i, message in enumerate(messages) if _is_answer(message)), default=-1)
    return tuple(m for i, m in enumerate(messages) if i > answer or not _is_reasoning(m))


def _is_answer(message: Message) -> bool:
    return _is_text_on(message, Channel.FINAL)


def _is_reasoning(message: Message) -> bool:
    return _is_text_on(message, Channel.ANALYSIS)


def _is_text_on(message: Message, channel: Channel) -> bool:
    # A message with a recipient is a call, on any channel.
    return (
        message.author.role == Role.ASSISTANT
        and message.recipient is None
        and message.channel == channel
    )
