"""Harmony text as messages: whole prompts, completions, and both together."""

import codecs
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from operator import itemgetter

from harmony.events import ContentDelta, MessageEnded, MessageStarted, Repair
from harmony.messages import Role
from harmony.parser import ASSISTANT, Parser
from harmony.tokenizer import decode
from harmony.vocab import CHANNEL, CONSTRAIN, FIRST_SPECIAL, MESSAGE, START, VOCAB_SIZE, token_bytes

Span = tuple[int, int]
"""A half-open range of positions of tokens."""

_GIVEN_ROLES = frozenset({Role.SYSTEM, Role.DEVELOPER, Role.USER})
_IN_BODY = frozenset({Repair.HEADERLESS_TEXT, Repair.INVALID_UTF8, Repair.CONTROL_IN_BODY})
_AT_END = frozenset({Repair.UNEXPECTED_END, Repair.REPETITION})


@dataclass(frozen=True, slots=True)
class PlacedRepair:
    """A repair, and the tokens that it concerns."""

    name: Repair
    span: Span


@dataclass(frozen=True, slots=True)
class PlacedMessage:
    """A message and its place.

    span: all its tokens, those before its header included that belong to no message.
    body: the tokens of its content. complete: whether a control token ends it.
    """

    role: str
    channel: str | None
    recipient: str | None
    content_type: str | None
    content: str
    complete: bool
    span: Span
    body: Span
    repairs: tuple[PlacedRepair, ...] = ()


def parse(
    token_ids: Sequence[int], tools: Sequence[str] = (), sampled: Sequence[Span] | None = None
) -> Iterator[PlacedMessage]:
    """The messages of `token_ids`, in order. A header without a body has none.

    token_ids: whole messages, or a completion, which continues `<|start|>assistant`.
    tools: the declared recipients. sampled: the ranges that the model sampled, ascending; messages
    with these are read as the server reads a completion, with its repairs. None: messages of the
    assistant are.
    """
    model_start: int | None = None
    for span in _segments(token_ids, sampled or ()):
        if _is_given(token_ids, span, sampled or ()):
            if model_start is not None:
                yield from _completion(token_ids, (model_start, span[0]), tools)
                model_start = None
            yield from _given(token_ids, span)
        elif model_start is None:
            model_start = span[0]
    if model_start is not None:
        yield from _completion(token_ids, (model_start, len(token_ids)), tools)


def _segments(token_ids: Sequence[int], sampled: Sequence[Span]) -> Iterator[Span]:
    """The ranges that begin with `<|start|>`, where the model did not sample it."""
    starts = (place for place, token in enumerate(token_ids) if token == START)
    given = (place for place in starts if not _overlaps((place, place + 1), sampled))
    return pairwise(sorted({0, *given, len(token_ids)}))


def _overlaps(span: Span, sampled: Sequence[Span]) -> bool:
    """Whether the model sampled a token of the range. sampled: ascending."""
    start, end = span
    count = bisect_left(sampled, end, key=itemgetter(0))
    return count > 0 and sampled[count - 1][1] > start


def _is_given(token_ids: Sequence[int], span: Span, sampled: Sequence[Span]) -> bool:
    """Whether the segment is a message of somebody else than the assistant."""
    start, end = span
    if token_ids[start] != START or _overlaps(span, sampled):
        return False
    header = decode(token_ids[start + 1 : _next_control(token_ids, start + 1, end)])
    role = header.partition(" ")[0]
    return role in _GIVEN_ROLES or (role != Role.ASSISTANT and " to=assistant" in header)


def _next_control(token_ids: Sequence[int], start: int, end: int) -> int:
    """The place of the first control token in the range; `end` without one."""
    return next((place for place in range(start, end) if token_ids[place] >= FIRST_SPECIAL), end)


def _given(token_ids: Sequence[int], span: Span) -> Iterator[PlacedMessage]:
    """The message of the prompt with this range, if it has a body."""
    start, end = span
    try:
        body = token_ids.index(MESSAGE, start, end) + 1
    except ValueError:
        return
    parts: dict[int, str] = {}
    place = start
    while place < body - 1:
        after = _next_control(token_ids, place + 1, body)
        parts[token_ids[place]] = decode(token_ids[place + 1 : after]).strip()
        place = after
    role, _, rest = parts[START].partition(" ")
    words = [*rest.split(), *parts.get(CHANNEL, "").split()]
    recipients = [word.removeprefix("to=") for word in words if word.startswith("to=")]
    content_end = _next_control(token_ids, body, end)
    yield PlacedMessage(
        role=role,
        channel=next(iter(parts.get(CHANNEL, "").split()), None),
        recipient=next(iter(recipients), None),
        content_type=parts.get(CONSTRAIN),
        content=decode(token_ids[body:content_end]),
        complete=content_end < end,
        span=span,
        body=(body, content_end),
    )


def _completion(
    token_ids: Sequence[int], span: Span, tools: Sequence[str]
) -> Iterator[PlacedMessage]:
    """The messages of the model in this range."""
    start, end = span
    parser = Parser(tools, prefix=() if token_ids[start] == START else ASSISTANT)
    header_start = start
    body: Span | None = None
    opened = start
    for place in range(start, end + 1):
        events = parser.push(token_ids[place]) if place < end else parser.finish()
        last_end = next((each for each in reversed(events) if isinstance(each, MessageEnded)), None)
        for event in events:
            if isinstance(event, MessageStarted):
                body, opened = None, min(place + 1, end)
            elif isinstance(event, ContentDelta):
                first, last = event.span
                body = (body[0] if body else first + start, last + start)
            else:
                body = body or (opened, opened)
                # Several messages end at once where a header has no end.
                message_end = place if event is last_end else body[1]
                # A token that opens the next header is no part of the message that it ends.
                if message_end < end and event.tokens[-1:] == (token_ids[message_end],):
                    message_end += 1
                yield _message(event, (header_start, message_end), body, token_ids)
                header_start = message_end


def _message(
    event: MessageEnded, span: Span, body: Span, token_ids: Sequence[int]
) -> PlacedMessage:
    header = event.header
    message = PlacedMessage(
        role=Role.ASSISTANT,
        channel=header.channel,
        recipient=header.recipient,
        content_type=header.content_type,
        content=event.content,
        complete=event.complete,
        span=span,
        body=body,
    )
    repairs = (PlacedRepair(name, _place(name, message, token_ids)) for name in event.repairs)
    return replace(message, repairs=tuple(repairs))


def _place(name: Repair, message: PlacedMessage, token_ids: Sequence[int]) -> Span:
    """The tokens that a repair concerns."""
    (start, end), (body_start, body_end) = message.span, message.body
    if name == Repair.MISSING_START:
        return start, start + 1
    if name in _AT_END:
        return end - 1, end
    if name not in _IN_BODY:
        return start, max(body_start, start + 1)
    wrong = None
    if name == Repair.CONTROL_IN_BODY:
        # The token that opens the next header is after the end.
        places = range(body_start, min(end + 1, len(token_ids)))
        wrong = next((place for place in places if token_ids[place] >= FIRST_SPECIAL), None)
    elif name == Repair.INVALID_UTF8:
        wrong = _first_invalid(token_ids, (body_start, end))
    return (body_start, max(body_end, body_start + 1)) if wrong is None else (wrong, wrong + 1)


def _first_invalid(token_ids: Sequence[int], span: Span) -> int | None:
    """The place of the token at which the text stops to be UTF-8."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    known, pieces = range(VOCAB_SIZE), token_bytes()
    for place in range(*span):
        token = token_ids[place]
        try:
            decoder.decode(pieces[token] if token in known else b"\xff", False)
        except UnicodeDecodeError:
            return place
    return None
