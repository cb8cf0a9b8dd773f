"""Which messages the model sees again when it is sampled next.

Source: the harmony guide, "Handling reasoning output in subsequent sampling": reasoning that led to
an answer is dropped, reasoning that led to a call is needed until that answer is there.
"""

from collections.abc import Sequence

from harmony.messages import Channel, Message, Role


def kept(messages: Sequence[Message]) -> tuple[Message, ...]:
    """`messages` without the reasoning that came before the last answer; applying it twice is once.

    Calls and tool results stay, on whatever channel. While no answer has followed it, reasoning
    stays too: the turn that it belongs to is still going on.
    """
    answered = max((i for i, message in enumerate(messages) if _is_answer(message)), default=-1)
    return tuple(m for i, m in enumerate(messages) if i > answered or not _is_reasoning(m))


def _is_answer(message: Message) -> bool:
    return _speaks(message, Channel.FINAL)


def _is_reasoning(message: Message) -> bool:
    return _speaks(message, Channel.ANALYSIS)


def _speaks(message: Message, channel: Channel) -> bool:
    # The recipient decides what a message is: with one it is a call, on any channel.
    return (
        message.author.role == Role.ASSISTANT
        and message.recipient is None
        and message.channel == channel
    )
