"""Reads one completion as it is sampled: tokens in; text, messages and usage out."""

from collections.abc import Sequence
from dataclasses import dataclass

from harmony.parser import Parser

from adapters.base import FinishReason, GenerationChunk, TokenLogprobs
from harmony.events import ContentDelta, Event, Header, MessageEnded, MessageStarted, Repair
from harmony.messages import Author, Channel, Message, Role
from server.stops import StopStrings


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one sampling; `cached` is part of `input`, `reasoning` of `output`."""

    input: int
    cached: int = 0
    output: int = 0
    reasoning: int = 0


@dataclass(frozen=True, slots=True)
class MessageOpened:
    """A message's header is known; `index` counts the turn's messages from 0."""

    index: int
    header: Header


@dataclass(frozen=True, slots=True)
class TextDelta:
    """More text of an open message, with its tokens' logprobs where the plan asked for them."""

    index: int
    text: str
    logprobs: tuple[TokenLogprobs, ...] = ()


@dataclass(frozen=True, slots=True)
class MessageClosed:
    """A message is whole, or was cut off by the token budget (`complete` is False).

    `message.tokens` is set where the sampled ids can be replayed as they were.
    """

    index: int
    header: Header
    message: Message
    complete: bool
    repairs: tuple[Repair, ...] = ()


@dataclass(frozen=True, slots=True)
class TurnFinished:
    """The last event of a sampling. `length` means that the token budget cut it off."""

    reason: FinishReason
    usage: Usage


TurnEvent = MessageOpened | TextDelta | MessageClosed | TurnFinished


class CompletionReader:
    """Folds one generation's chunks into turn events.

    prompt_tokens: the prompt's length, for usage. stop: strings that end the final channel.
    `stopped` turns True when one of them came: the rest of the generation is not wanted.
    """

    def __init__(self, parser: Parser, prompt_tokens: int, stop: tuple[str, ...] = ()) -> None:
        self._parser = parser
        self._prompt_tokens = prompt_tokens
        self._stop = stop
        self._stops = StopStrings(())
        self._open = MessageOpened(0, Header(Channel.FINAL))
        self._content: list[str] = []
        self._unsent: int | None = None
        self._logprobs: list[TokenLogprobs] = []
        self._sampled = 0
        self._reasoning = 0
        self._cached = 0
        self.stopped = False

    def push(self, chunk: GenerationChunk) -> list[TurnEvent]:
        """The events that a chunk's tokens complete."""
        self._sampled += len(chunk.token_ids)
        self._cached = chunk.cached_tokens or self._cached
        self._logprobs.extend(chunk.logprobs or ())
        return self._read(self._parser.push_many(chunk.token_ids))

    def finish(self, reason: FinishReason) -> list[TurnEvent]:
        """The events that the generation's end completes; `TurnFinished` is the last."""
        events = [] if self.stopped else self._read(self._parser.finish())
        usage = Usage(self._prompt_tokens, self._cached, self._sampled, self._reasoning)
        return [*events, TurnFinished("stop" if self.stopped else reason, usage)]

    def _read(self, parsed: Sequence[Event]) -> list[TurnEvent]:
        events: list[TurnEvent] = []
        for event in parsed:
            match event:
                case MessageStarted():
                    events.append(self._opened(event))
                case ContentDelta():
                    events.extend(self._delta(event))
                case MessageEnded():
                    events.extend(self._closed(event))
            if self.stopped:
                break
        return events

    def _opened(self, event: MessageStarted) -> MessageOpened:
        answers = event.header.channel is Channel.FINAL and event.header.recipient is None
        self._stops = StopStrings(self._stop if answers else ())
        self._content = []
        self._unsent = None
        self._open = MessageOpened(event.index, event.header)
        return self._open

    def _delta(self, event: ContentDelta) -> list[TurnEvent]:
        start, end = event.span
        if self._unsent is None:
            self._unsent = start
        text, self.stopped = self._stops.push(event.text)
        events = self._send(text, end)
        if self.stopped:
            events.append(self._close("".join(self._content), complete=True))
        return events

    def _closed(self, event: MessageEnded) -> list[TurnEvent]:
        if event.header.channel is Channel.ANALYSIS and event.header.recipient is None:
            self._reasoning += event.body_tokens
        replayable = event.complete and not event.repairs
        return [
            *self._send(self._stops.flush(), None),
            self._close(
                event.content,
                complete=event.complete,
                tokens=event.tokens if replayable else None,
                repairs=event.repairs,
            ),
        ]

    def _send(self, text: str, end: int | None) -> list[TurnEvent]:
        if not text:
            return []
        logprobs = tuple(self._logprobs[self._unsent : end])
        self._content.append(text)
        self._unsent = None
        return [TextDelta(self._open.index, text, logprobs)]

    def _close(
        self,
        content: str,
        *,
        complete: bool,
        tokens: tuple[int, ...] | None = None,
        repairs: tuple[Repair, ...] = (),
    ) -> MessageClosed:
        header = self._open.header
        message = Message(
            author=Author(Role.ASSISTANT),
            content=content,
            channel=header.channel,
            recipient=header.recipient,
            content_type=header.content_type,
            tokens=tokens,
        )
        return MessageClosed(self._open.index, header, message, complete, repairs)
