"""What a client sends back of a turn, put together with what the model said in it."""

from collections.abc import Iterable, Sequence

from harmony.messages import Channel, Message
from server.replay.arguments import same_arguments
from server.replay.joining import joined


def restored(given: Sequence[Message], said: Sequence[Message]) -> Sequence[Message]:
    """An assistant's turn that ends in calls, as the prompt repeats it.

    given: as the client has it. said: as the model said it, empty where that is not known.
    What came back as it was is `said`, sampled tokens and all, also where arguments were written
    anew. A turn that the client changed is its own, with the reasoning before it where none came
    back.
    """
    if not said or not _same_calls(given, said):
        return given
    if not _text(given, Channel.ANALYSIS):
        thoughts = [message for message in said if _is_text(message, Channel.ANALYSIS)]
        return said if _same(given, said, Channel.COMMENTARY) else [*thoughts, *given]
    both = (Channel.ANALYSIS, Channel.COMMENTARY)
    if all(_same(given, said, channel) for channel in both):
        return said
    # Where the content had to be JSON, preambles were told with the reasoning.
    told_as_one = not _text(given, Channel.COMMENTARY)
    return said if told_as_one and _text(given, *both) == _text(said, *both) else given


def _same_calls(given: Iterable[Message], said: Iterable[Message]) -> bool:
    back, made = _calls(given), _calls(said)
    return len(back) == len(made) and all(map(_same_call, back, made))


def _calls(messages: Iterable[Message]) -> list[Message]:
    return [each for each in messages if each.recipient is not None]


def _same_call(given: Message, said: Message) -> bool:
    """What is given says by its content type whether its input is JSON."""
    if given.recipient != said.recipient:
        return False
    one, other = str(given.content), str(said.content)
    return same_arguments(one, other) if given.content_type == "json" else one == other


def _same(given: Sequence[Message], said: Sequence[Message], channel: Channel) -> bool:
    return _text(given, channel) == _text(said, channel)


def _text(messages: Iterable[Message], *channels: Channel) -> str:
    """As an answer shows it: all of a channel is one field there."""
    return joined(str(each.content) for each in messages if _is_text(each, *channels))


def _is_text(message: Message, *channels: Channel) -> bool:
    return message.recipient is None and message.channel in channels
