"""Replaces an assistant's turn that a Chat client sends back by the messages that were sampled."""

from collections.abc import Iterable, Sequence

from harmony.messages import Channel, Message, Role
from harmony.tools import FUNCTIONS
from server.replay.arguments import same_arguments
from server.replay.cited_text import same_cited_text
from server.replay.joining import join_texts


def restore_turn(
    received: Sequence[Message], sampled: Sequence[Message], *, json_content: bool = False
) -> Sequence[Message]:
    """The messages that the prompt has for an assistant's turn that ends in calls.

    received: the turn as the client sent it. sampled: the turn as the model made it, empty where
    that is unknown. An unchanged turn is `sampled`, with its token ids; arguments that were only
    formatted differently are unchanged, and so are texts with links for citation markers. A changed
    turn is `received`, with the sampled reasoning before it where the client sent none. Calls of
    hosted tools, which the API does not show, and their results are part of the reasoning.
    json_content: whether the content had to be JSON; the answer then had its preambles in the
    reasoning field.
    """
    if not sampled or not _same_calls(received, sampled):
        return received
    if not _text(received, Channel.ANALYSIS):
        calls = client_calls(sampled)
        reasoning = [
            message
            for message in sampled
            if _is_text(message, Channel.ANALYSIS)
            or (message.recipient is not None and message not in calls)
        ]
        dropped = json_content and not _text(received, Channel.COMMENTARY)
        same_preamble = dropped or _same_text(received, sampled, Channel.COMMENTARY)
        return sampled if same_preamble else [*reasoning, *received]
    both = (Channel.ANALYSIS, Channel.COMMENTARY)
    if all(_same_text(received, sampled, channel) for channel in both):
        return sampled
    # Also where this request asks for no JSON and the earlier one did.
    in_one_field = not _text(received, Channel.COMMENTARY)
    return sampled if in_one_field and _same_text(received, sampled, *both) else received


def _same_calls(received: Sequence[Message], sampled: Sequence[Message]) -> bool:
    ours, theirs = client_calls(sampled), client_calls(received)
    return len(ours) == len(theirs) and all(map(_same_call, theirs, ours))


def client_calls(messages: Sequence[Message]) -> list[Message]:
    """The calls of the client's tools. One that has its result here was of a hosted tool."""
    followers = (*messages, None)[1:]
    return [
        message
        for message, follower in zip(messages, followers, strict=True)
        if message.recipient is not None
        and message.author.role == Role.ASSISTANT
        and (follower is None or follower.author.role != Role.TOOL)
    ]


def _same_call(received: Message, sampled: Message) -> bool:
    """A received function call has the content type `json`; the model may leave its own out."""
    if _name(received) != _name(sampled):
        return False
    one, other = str(received.content), str(sampled.content)
    return same_arguments(one, other) if received.content_type == "json" else one == other


def _name(call: Message) -> str:
    """The API has one name for `functions.python` and a `python` that the model made up."""
    return (call.recipient or "").removeprefix(f"{FUNCTIONS}.")


def _same_text(received: Iterable[Message], sampled: Iterable[Message], *of: Channel) -> bool:
    return same_cited_text(_text(received, *of), _text(sampled, *of))


def _text(messages: Iterable[Message], *channels: Channel) -> str:
    """The text of the channels, joined as in a field of the answer."""
    return join_texts(str(message.content) for message in messages if _is_text(message, *channels))


def _is_text(message: Message, *channels: Channel) -> bool:
    return message.recipient is None and message.channel in channels
