"""The events of a turn: sampled tokens in; text, messages and usage out."""

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from adapters.base import FinishReason, GenerationChunk, TokenLogprobs
from harmony.events import ContentDelta, Event, Header, MessageEnded, MessageStarted, Repair
from harmony.messages import Author, Channel, Message, Role
from harmony.vocab import STOP_TOKENS
from server.generation.plan import DeclaredTool
from server.generation.recording import Record
from server.generation.stop_strings import StopStrings
from server.summaries.base import SummaryUsage
from server.tools.base import ApprovalRequested, ToolCall, ToolProgress, ToolResult


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one answer; `cached` is part of `input`, `reasoning` of `output`.

    Each turn of the answer counts its whole prompt. later_input, later_cached: the parts of `input`
    and `cached` that the turns after the first one counted.
    """

    input: int
    cached: int = 0
    output: int = 0
    reasoning: int = 0
    later_input: int = 0
    later_cached: int = 0


# Not frozen: one is made for each token, and freezing takes three times as long.
@dataclass(slots=True)
class TextDelta:
    """More text of an open message, with its tokens' logprobs if the plan requests them."""

    index: int
    text: str
    logprobs: tuple[TokenLogprobs, ...] = ()


@dataclass(frozen=True, slots=True)
class MessageClosed:
    """A message has ended, and can be added to the conversation.

    Unlike harmony's `MessageEnded`, it ends before a stop string. `complete` is False if the token
    limit cut the message off. `message.tokens` has the sampled ids if they can be replayed.
    body_tokens: the tokens of its content. stop: the number of the turn's tokens up to its end; 0
    if a stop string ended it.
    """

    index: int
    header: Header
    message: Message
    complete: bool
    repairs: tuple[Repair, ...] = ()
    body_tokens: int = field(default=0, compare=False)
    stop: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class SummaryWritten:
    """A part of the summary of the open reasoning message.

    text: Markdown; empty if the part was not written in time. complete: whether it was. quotes:
    whether the text is made of sentences of the reasoning.
    """

    text: str
    complete: bool = True
    quotes: bool = False


@dataclass(frozen=True, slots=True)
class SummaryTotals:
    """What a model did for the summaries of one answer.

    usage: its tokens. counts: the parts by how they ended, as in `SummaryWriter`.
    """

    usage: SummaryUsage
    counts: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class CallStarted:
    """The server begins to run a hosted call.

    Its message was closed before, unless the call comes from an earlier answer. tool: the tool as
    the request declares it.
    """

    call: ToolCall
    tool: DeclaredTool


@dataclass(frozen=True, slots=True)
class CallEnded:
    """A hosted call has its result, and the next turn follows.

    message: the result as the model reads it. ran: False if a limit refused the call; no
    `CallStarted` came before then.
    """

    call: ToolCall
    tool: DeclaredTool
    result: ToolResult
    message: Message
    ran: bool = True


@dataclass(frozen=True, slots=True)
class TurnFinished:
    """The last event of an answer. The reason `length` means that the token limit cut it off.

    prompt_token_ids: the first prompt. token_ids: the tokens after it, both sampled by the
    engine and inserted by the server: results of hosted calls are among them.
    record: what the request asks to be recorded, None if it does not. summaries: what a model did
    for summaries; None if none was asked for any.
    """

    reason: FinishReason
    usage: Usage
    prompt_token_ids: tuple[int, ...] = ()
    token_ids: tuple[int, ...] = ()
    record: Record | None = None
    summaries: SummaryTotals | None = None


CallEvent = CallStarted | ToolProgress | CallEnded | ApprovalRequested
"""The events of a hosted call, between the turn that ends with the call and the next turn."""

TurnEvent = MessageStarted | TextDelta | MessageClosed | SummaryWritten | CallEvent | TurnFinished


class TokenParser(Protocol):
    """Reads messages from sampled ids, as `harmony.parser.Parser` does."""

    def push_many(self, tokens: Sequence[int]) -> Sequence[Event]: ...

    def finish(self) -> Sequence[Event]: ...

    def has_text(self, token: int) -> bool: ...


LogprobsOf = Callable[[tuple[int, int]], Sequence[TokenLogprobs]]
"""The logprobs of the tokens with text in a span of positions."""


class TurnReader:
    """Turns the chunks of a sampling into turn events.

    prompt_tokens: the prompt's length, for usage. stop: strings that end the final channel.
    opened: whether the prompt ends with the header of the first message, which the model did not
    choose: without text it is left out where another message follows. `stopped` becomes True after
    a stop string; later chunks are not needed. `header` is that of the open message, None if none
    is open. `last` is the message that ended last, None once another one begins. `sampled` counts
    the tokens of all chunks. `repairs` has those of the messages that ended, without one that a
    stop string ended.
    """

    def __init__(
        self,
        parser: TokenParser,
        prompt_tokens: int,
        stop: tuple[str, ...] = (),
        *,
        opened: bool = False,
    ) -> None:
        self._opened = opened
        self._withheld: list[TurnEvent] = []
        self._parser = parser
        self._prompt_tokens = prompt_tokens
        self._stop = stop
        self._logprobs: list[TokenLogprobs] = []
        self.sampled = 0
        self.repairs: list[Repair] = []
        self._reasoning = 0
        self._cached = 0
        self._message: _OpenMessage
        self.stopped = False
        self.header: Header | None = None
        self.last: MessageClosed | None = None

    @property
    def usage(self) -> Usage:
        """The tokens so far; reasoning counts once its message has ended."""
        return Usage(self._prompt_tokens, self._cached, self.sampled, self._reasoning)

    def push(self, chunk: GenerationChunk) -> list[TurnEvent]:
        """The events that a chunk's tokens complete."""
        self.sampled += len(chunk.token_ids)
        self._cached = chunk.cached_tokens or self._cached
        if chunk.logprobs is None:
            return self._read(self._parser.push_many(chunk.token_ids))
        self._logprobs.extend(chunk.logprobs)
        # Token by token, so that each text comes with the logprobs of its own tokens.
        read = self._parser.push_many
        return self._read(event for token in chunk.token_ids for event in read((token,)))

    def insert(self, tokens: Sequence[int], repair: Repair) -> list[TurnEvent]:
        """The events of tokens that the server inserts; `repair` is added to messages they end.

        Usage does not count these tokens, and no event has their logprobs.
        """
        if self._logprobs:
            self._logprobs += [TokenLogprobs(token, 0.0) for token in tokens]
        return self._read(_repaired(event, repair) for event in self._parser.push_many(tokens))

    def finish(self, reason: FinishReason) -> list[TurnEvent]:
        """The events that the end of the sampling completes; `TurnFinished` is the last."""
        events = [] if self.stopped else self._read(self._parser.finish())
        return [*events, TurnFinished("stop" if self.stopped else reason, self.usage)]

    def _read(self, parsed: Iterable[Event]) -> list[TurnEvent]:
        events: list[TurnEvent] = []
        for event in parsed:
            if isinstance(event, ContentDelta):
                # The common case comes first, without calls and patterns.
                if self._message.may_stop:
                    events += self._before_stop(event)
                else:
                    logprobs = self._logprobs_of(event.span) if self._logprobs else ()
                    events.append(TextDelta(event.index, event.text, logprobs))
            elif isinstance(event, MessageStarted):
                self._message = _OpenMessage(event.index, event.header, self._stop)
                self.header = event.header
                self.last = None
                if self._opened and event.index == 0:
                    self._withheld = [event]
                else:
                    events.append(event)
            else:
                events += self._ended(event)
            if self.stopped:
                break
        if self._withheld and events:
            events, self._withheld = [*self._withheld, *events], []
        return events

    def _logprobs_of(self, span: tuple[int, int]) -> tuple[TokenLogprobs, ...]:
        """Those of the tokens in the span that have text, if the plan requests any."""
        has_text = self._parser.has_text
        return tuple(each for each in self._logprobs[slice(*span)] if has_text(each.token_id))

    def _before_stop(self, event: ContentDelta) -> list[TurnEvent]:
        """The events of text that may contain a stop string."""
        text, self.stopped = self._message.push(event)
        events = self._message.send(text, self._logprobs_of)
        if self.stopped:
            self.last = self._message.close_at_stop()
            events.append(self.last)
        return events

    def _ended(self, event: MessageEnded) -> list[TurnEvent]:
        if event.header.channel is Channel.ANALYSIS and event.header.recipient is None:
            self._reasoning += event.body_tokens
        self.repairs += event.repairs
        self.header = None
        is_withheld = bool(self._withheld) and event.index == 0
        if is_withheld and event.end not in (None, *STOP_TOKENS) and not event.content:
            self._withheld = []
            return []
        events = self._message.send(self._message.flush(), self._logprobs_of)
        self.last = self._message.close(event)
        return [*events, self.last]


def _repaired(event: Event, repair: Repair) -> Event:
    if isinstance(event, MessageEnded):
        return replace(event, repairs=(*event.repairs, repair))
    return event


class _OpenMessage:
    """The message that is being sampled: the text that was sent, and text that waits.

    may_stop: whether a stop string may end it. If not, no text waits, and `push` must not be
    called.
    """

    def __init__(self, index: int, header: Header, stop: tuple[str, ...]) -> None:
        is_answer = header.channel is Channel.FINAL and header.recipient is None
        self.may_stop = is_answer and bool(stop)
        self._index = index
        self._header = header
        self._stops = StopStrings(stop)
        self._sent: list[str] = []
        self._received_length = 0
        self._sent_length = 0
        self._unsent: deque[tuple[int, tuple[int, int]]] = deque()
        """Where the text of each delta begins that was not sent, and the span of its tokens."""

    def push(self, delta: ContentDelta) -> tuple[str, bool]:
        """The text that can be sent now, and whether a stop string came right after it."""
        self._unsent.append((self._received_length, delta.span))
        self._received_length += len(delta.text)
        return self._stops.push(delta.text)

    def flush(self) -> str:
        """The text that waited for the rest of a stop string."""
        return self._stops.flush()

    def send(self, text: str, logprobs_of: LogprobsOf) -> list[TurnEvent]:
        """The text, unless it is empty, with the logprobs of the tokens that begin in it."""
        if not text:
            return []
        self._sent.append(text)
        self._sent_length += len(text)
        own: list[TokenLogprobs] = []
        while self._unsent and self._unsent[0][0] < self._sent_length:
            _, span = self._unsent.popleft()
            own += logprobs_of(span)
        return [TextDelta(self._index, text, tuple(own))]

    def close(self, event: MessageEnded) -> MessageClosed:
        """The message as the parser read it, with its ids if they can be replayed."""
        replayable = event.complete and not event.repairs
        message = self._to_message(event.content, event.tokens if replayable else None)
        return MessageClosed(
            self._index,
            self._header,
            message,
            event.complete,
            event.repairs,
            event.body_tokens,
            event.stop,
        )

    def close_at_stop(self) -> MessageClosed:
        """The message up to the stop string."""
        message = self._to_message("".join(self._sent))
        return MessageClosed(self._index, self._header, message, True)

    def _to_message(self, content: str, tokens: tuple[int, ...] | None = None) -> Message:
        return Message(
            author=Author(Role.ASSISTANT),
            content=content,
            channel=self._header.channel,
            recipient=self._header.recipient,
            content_type=self._header.content_type,
            tokens=tokens,
        )
