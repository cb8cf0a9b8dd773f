"""Replaces an assistant's turn that a Chat client sends back by the messages that were sampled."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import zip_longest

from harmony.messages import Channel, Message, Role
from harmony.tools import FUNCTIONS
from server.replay.arguments import same_arguments
from server.replay.cited_text import same_cited_text
from server.replay.joining import join_texts

# The channels of the sampled messages that the fields of an answer show. Without grammars, the
# model may call a tool after a final message, too.
_REASONING = (Channel.ANALYSIS,)
_CONTENT = (Channel.COMMENTARY, Channel.FINAL)
_JSON_REASONING = (Channel.ANALYSIS, Channel.COMMENTARY)
_JSON_CONTENT = (Channel.FINAL,)

_TAGGED = re.compile(r"\s*<think\b[^>]*>(.*?)</think>\s*", re.DOTALL)


def restore_turn(
    received: Sequence[Message],
    sampled: Sequence[Message],
    *,
    json_content: bool = False,
    is_secret: bool = False,
) -> Sequence[Message]:
    """The messages that the prompt has for an assistant's turn that ends in calls.

    received: the turn as the client sent it. sampled: the turn as the model made it, empty where
    that is unknown. An unchanged turn is `sampled`, with its token ids; arguments that were only
    formatted differently are unchanged, and so are texts with links for citation markers, and a
    piece of the reasoning, which may stand in a tag before the text. A changed turn is `received`,
    with the sampled reasoning before it where the client sent none. Calls of hosted tools, which
    the API does not show, and their results are part of the reasoning. json_content: whether the
    content had to be JSON; the answer then had its preambles in the reasoning field. is_secret:
    whether the client has never seen the reasoning. What it sends instead is not used then: the
    prompt's length would tell whether it is a piece.
    """
    if not sampled or not _same_calls(received, sampled):
        return received
    if is_secret:
        received = [each for each in received if not _is_text(each, Channel.ANALYSIS)]
    elif not _same_content(received, sampled):
        received = _without_tag(received, sampled)
    same_content = _same_content(received, sampled) or (
        json_content and _same_content(received, sampled, _JSON_CONTENT)
    )
    reasoning = _text(received, Channel.ANALYSIS)
    if not reasoning:
        return sampled if same_content else [*_dropped_reasoning(sampled), *received]
    # Some clients keep only a piece of it, such as the last delta of a stream.
    if same_content and reasoning in _text(sampled, *_JSON_REASONING):
        return sampled
    if _same_reasoning(received, sampled) and _same_content(received, sampled):
        return sampled
    # Also where this request asks for no JSON and the earlier one did.
    in_reasoning = _same_reasoning(received, sampled, _JSON_REASONING)
    same = in_reasoning and _same_content(received, sampled, _JSON_CONTENT)
    return sampled if same else received


def _without_tag(received: Sequence[Message], sampled: Sequence[Message]) -> Sequence[Message]:
    """The turn, with reasoning that stands in a tag before the text as a message of its own.

    A tag with anything else is a part of the text: the user may have asked for it.
    """
    at, text = next(
        ((at, one) for at, one in enumerate(received) if _is_text(one, *_CONTENT)), (0, None)
    )
    tagged = text and _TAGGED.match(str(text.content))
    if not text or not tagged or not _is_piece(tagged[1].strip(), sampled):
        return received
    reasoning = replace(text, content=tagged[1].strip(), channel=Channel.ANALYSIS)
    rest = replace(text, content=str(text.content)[tagged.end() :])
    before = received[:at] or [reasoning]
    return [*before, *([rest] if rest.content else ()), *received[at + 1 :]]


def _is_piece(reasoning: str, sampled: Sequence[Message]) -> bool:
    return reasoning != "" and any(
        reasoning in _text(sampled, *of) for of in (_REASONING, _JSON_REASONING)
    )


def _dropped_reasoning(sampled: Sequence[Message]) -> Iterator[Message]:
    """The reasoning and the hosted calls of a turn: some clients send neither back."""
    # By identity: to compare each of thousands of calls with all others takes seconds.
    calls = set(map(id, client_calls(sampled)))
    for message in sampled:
        is_hosted = message.recipient is not None and id(message) not in calls
        if is_hosted or _is_text(message, Channel.ANALYSIS):
            yield message


def _same_calls(received: Sequence[Message], sampled: Sequence[Message]) -> bool:
    # From the last one on, so that a message with one of many calls does not read them all.
    pairs = zip_longest(calls_from_last(received), calls_from_last(sampled))
    return all(one and other and _same_call(one, other) for one, other in pairs)


def client_calls(messages: Sequence[Message]) -> list[Message]:
    """The calls of the client's tools, in their order."""
    return [*calls_from_last(messages)][::-1]


def calls_from_last(messages: Sequence[Message]) -> Iterator[Message]:
    """The calls of the client's tools, backwards. One that has its result here was of a hosted
    tool."""
    follower: Message | None = None
    for message in reversed(messages):
        if (
            message.recipient is not None
            and message.author.role == Role.ASSISTANT
            and (follower is None or follower.author.role != Role.TOOL)
        ):
            yield message
        follower = message


def _same_call(received: Message, sampled: Message) -> bool:
    """A received function call has the content type `json`; the model may leave its own out."""
    if _name(received) != _name(sampled):
        return False
    one, other = str(received.content), str(sampled.content)
    return same_arguments(one, other) if received.content_type == "json" else one == other


def _name(call: Message) -> str:
    """The API has one name for `functions.python` and a `python` that the model made up."""
    return (call.recipient or "").removeprefix(f"{FUNCTIONS}.")


def _same_content(
    received: Iterable[Message], sampled: Iterable[Message], of: Sequence[Channel] = _CONTENT
) -> bool:
    """Whether the content that was received, a preamble, has the text of the sampled channels."""
    return same_cited_text(_text(received, Channel.COMMENTARY), _text(sampled, *of))


def _same_reasoning(
    received: Iterable[Message], sampled: Iterable[Message], of: Sequence[Channel] = _REASONING
) -> bool:
    return same_cited_text(_text(received, Channel.ANALYSIS), _text(sampled, *of))


def _text(messages: Iterable[Message], *channels: Channel) -> str:
    """The text of the channels, joined as in a field of the answer."""
    return join_texts(str(message.content) for message in messages if _is_text(message, *channels))


def _is_text(message: Message, *channels: Channel) -> bool:
    return message.recipient is None and message.channel in channels
