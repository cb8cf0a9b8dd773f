"""Parses sampled tokens to messages, as they arrive.

The parser accepts any ids in any order. Every character of a body becomes part of its message; no
control token or header word does. Departures from legal harmony are reported (`events.Repair`). No
decision depends on a later message.

A header reaches from `<|start|>` (or from the token in its place) to `<|message|>`, a body from
there to the next control token. Tokens outside of bodies are withheld. If a `<|message|>` follows,
they were a header and stray text before it, and neither becomes text of a message.

If the sampling ends there, by a stop token or by length, they become the text of messages: one for
each part between `<|start|>` and `<|end|>`. The text has no header words. These are the longest
legal header at the beginning of a part, and after it each part of a legal header that begins with
`<|channel|>` or `<|constrain|>`, complete or cut off at the end. A part that has header words
after its role, and else white space alone, is no message; nor is one that may yet become a header
word.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from harmony import headers
from harmony.events import ContentDelta, Event, Header, MessageEnded, MessageStarted, Repair
from harmony.headers import Reading, Recipients, recipients_of
from harmony.messages import Channel
from harmony.tokenizer import Utf8Decoder
from harmony.vocab import (
    CALL,
    CHANNEL,
    CONSTRAIN,
    END,
    FIRST_SPECIAL,
    MESSAGE,
    RETURN,
    START,
    STOP_TOKENS,
    token_bytes,
)

ASSISTANT = (START, 173781)
"""`<|start|>assistant`, with which every prompt for a sampling ends."""
NEXT_MESSAGE = (END, *ASSISTANT)
"""`<|end|><|start|>assistant`, which stands between two messages of one turn."""

_ENDS = STOP_TOKENS | {END}
_OPENS = frozenset({START, CHANNEL, CONSTRAIN, MESSAGE})
_MOST_PARTS = 64
"""The parts of an unfinished header that can become messages. The last one has all others."""
_TOKENS_OF_DELTA = 64
"""The most tokens of a delta of an unfinished header, whose text comes at once."""
_ENDS_OF_CALL = frozenset({CALL})
_ENDS_OF_TEXT = {
    Channel.ANALYSIS: frozenset({END}),
    Channel.COMMENTARY: frozenset({END}),
    Channel.FINAL: frozenset({END, RETURN}),
}


class Parser:
    """Parses the tokens of one sampling.

    declared: full recipient names of the tools, such as `functions.f`, `browser.search`, `python`.
    prefix: the tokens of the first message at the end of the prompt. They are part of the message.
    """

    def __init__(self, declared: Iterable[str] = (), prefix: Sequence[int] = ASSISTANT) -> None:
        self._recipients = recipients_of(tuple(declared))
        self._index = 0
        self._events: list[Event] = []
        self._position = -len(prefix)
        self._open: _OpenHeader | _OpenMessage = _OpenHeader(self._position)
        self._read(prefix)

    def push(self, token: int) -> Sequence[Event]:
        """The events that the next sampled token completes. Accepts any int."""
        return self.push_many((token,))

    def push_many(self, tokens: Sequence[int]) -> Sequence[Event]:
        """The events of the next tokens. Adjacent deltas of a message are merged."""
        if len(tokens) == 1 and 0 <= tokens[0] < FIRST_SPECIAL and not self._events:
            message = self._open
            if isinstance(message, _OpenMessage):
                # The common case, optimized: one token of a body.
                self._position += 1
                return message.add(tokens, self._position - 1)
        self._read(tokens)
        return self._take_events()

    def finish(self) -> Sequence[Event]:
        """The events at the end of the sampling, with or without a stop token."""
        if isinstance(self._open, _OpenMessage):
            self._close(self._open, None)
        else:
            self._end_unfinished_header(self._open, None)
        return self._take_events()

    @staticmethod
    def has_text(token: int) -> bool:
        """Whether the token can be part of a text. Control tokens never are."""
        return 0 <= token < FIRST_SPECIAL

    def _take_events(self) -> list[Event]:
        events, self._events = self._events, []
        return events

    def _read(self, tokens: Sequence[int]) -> None:
        at = 0
        while at < len(tokens):
            stop = at + 1
            if isinstance(self._open, _OpenHeader):
                self._read_header(self._open, tokens[at])
            elif 0 <= tokens[at] < FIRST_SPECIAL:
                while stop < len(tokens) and 0 <= tokens[stop] < FIRST_SPECIAL:
                    stop += 1
                self._events += self._open.add(tokens[at:stop], self._position)
            else:
                self._read_control(self._open, tokens[at])
            self._position += stop - at
            at = stop

    def _read_header(self, header: "_OpenHeader", token: int) -> None:
        if token == MESSAGE:
            self._start(header)
        elif token in STOP_TOKENS:
            self._end_unfinished_header(header, token)
        else:
            header.add(token)

    def _read_control(self, message: "_OpenMessage", token: int) -> None:
        if token in _ENDS:
            self._close(message, token)
        elif token in _OPENS:
            self._close(message, token)
            self._open = header = _OpenHeader(self._position, message.fallback(token))
            self._read_header(header, token)
        else:
            message.skip(token)

    def _start(self, header: "_OpenHeader") -> None:
        reading = header.read(self._recipients)
        self._events.append(MessageStarted(self._index, reading.header))
        tokens = [*header.own_tokens, MESSAGE]
        self._open = _OpenMessage(self._index, reading, tokens, self._position + 1)

    def _close(self, message: "_OpenMessage", end: int | None) -> None:
        self._events += message.ended(end, self._position)
        self._index += 1
        self._open = _OpenHeader(self._position + 1)

    def _end_unfinished_header(self, header: "_OpenHeader", end: int | None) -> None:
        """Emit the messages of a header without `<|message|>`. end: the stop token, if any."""
        texts = [
            (part, reading) for part in header.parts() if (reading := self._read_unfinished(part))
        ]
        for place, (part, reading) in enumerate(texts, start=1):
            # The stop token ends the last message. At the token limit there is none.
            last = end if end is not None and place == len(texts) else part.end
            self._events += part.message(self._index, reading, last)
            self._index += 1
        self._open = _OpenHeader(self._position + 1)

    def _read_unfinished(self, part: "_Part") -> Reading | None:
        return headers.read_unfinished_header(
            _without_start(part.tokens), self._recipients, part.fallback
        )


@dataclass(frozen=True, slots=True)
class _Part:
    """Tokens of an unfinished header between `<|start|>` or `<|end|>` and the next of these.

    tokens: with the `<|start|>` before them, without the `<|end|>` after them. position: of the
    first token. end: the token that closed it, None at the end of the sampling. fallback: the
    channel if it names none. stray: whether other tokens precede it.
    """

    tokens: Sequence[int]
    position: int
    end: int | None
    fallback: Channel
    stray: bool

    def message(self, index: int, reading: Reading, end: int | None) -> list[Event]:
        """The events of the message with the header and text of `reading`, ended by `end`."""
        reading = _with_repairs(reading, self.tokens, stray=self.stray)
        header = reading.header
        end_position = self.position + len(self.tokens)
        start = end_position - len(_without_start(self.tokens))
        span = (max(start + reading.text_start, 0), max(end_position, 0))
        body = (self.position, end_position)
        ended = _ended(index, reading, reading.text, self.tokens, body, end)
        return [MessageStarted(index, header), *self._deltas(index, reading.text, *span), ended]

    def _deltas(self, index: int, text: str, start: int, stop: int) -> Iterator[ContentDelta]:
        """The text in deltas of few tokens: what reads these may take long for each token.

        The tokens of header words are not told apart from those of the text between them.
        """
        decoder, pieces = Utf8Decoder(), token_bytes()
        while stop - start > _TOKENS_OF_DELTA:
            cut = start + _TOKENS_OF_DELTA
            tokens = self.tokens[start - self.position : cut - self.position]
            has_text = filter(Parser.has_text, tokens)
            length = len(decoder.push(b"".join(pieces[token] for token in has_text)))
            if length >= len(text):
                stop = cut
                break
            if length:
                yield ContentDelta(index, text[:length], (start, cut))
            start, text = cut, text[length:]
        yield ContentDelta(index, text, (start, stop))


class _OpenHeader:
    """The tokens since the last message: a header, possibly after stray tokens.

    position: of the first token. fallback: the channel of a header that names none.
    """

    def __init__(self, position: int, fallback: Channel = Channel.FINAL) -> None:
        self._position = position
        self._fallback = fallback
        self._tokens: list[int] = []
        self._own = 0
        self._earlier: list[_Part] = []

    @property
    def own_tokens(self) -> list[int]:
        """The tokens of the header, from `<|start|>` on, without the stray tokens before it."""
        return self._tokens[self._own :]

    def add(self, token: int) -> None:
        """Add a token other than `<|message|>`. `<|start|>` begins a new header."""
        if token == START:
            if self._tokens:
                self._earlier.append(self._part(START))
            self._own = len(self._tokens)
            self._fallback = Channel.FINAL
        self._tokens.append(token)
        if token == END:
            self._earlier.append(self._part(END))
            self._own = len(self._tokens)

    def read(self, recipients: Recipients) -> Reading:
        """Interpret the header. Called at `<|message|>`."""
        reading = headers.read(_without_start(self.own_tokens), recipients, self._fallback)
        return _with_repairs(reading, self.own_tokens, stray=self._own > 0)

    def parts(self) -> list[_Part]:
        """The parts since the last message, in order."""
        if len(self._earlier) < _MOST_PARTS:
            return [*self._earlier, self._part(None)]
        *first, last = self._earlier[:_MOST_PARTS]
        rest = self._tokens[last.position - self._position :]
        return [*first, replace(last, tokens=rest, end=None)]

    def _part(self, end: int | None) -> _Part:
        own = self.own_tokens
        tokens = own[:-1] if end == END else own
        return _Part(tokens, self._position + self._own, end, self._fallback, self._own > 0)


class _OpenMessage:
    """A message whose header is known and whose body is being sampled.

    tokens: from `<|start|>` to `<|message|>`. position: of the first token of the body.
    """

    def __init__(self, index: int, reading: Reading, tokens: list[int], position: int) -> None:
        self._index = index
        self._reading = reading
        self._repairs: list[Repair] = []
        self._tokens = tokens
        self._body = len(tokens)
        self._position = position
        self._delta_start = position
        self._content: list[str] = []
        self._decoder = Utf8Decoder()
        self._pieces = token_bytes()

    def fallback(self, token: int) -> Channel:
        """The channel of a header that begins with `token` in this body, if it names none."""
        return Channel.FINAL if token == CHANNEL else self._reading.header.channel

    def add(self, tokens: Sequence[int], position: int) -> list[Event]:
        """The delta that text tokens complete. position: of the first of them."""
        self._tokens += tokens
        pieces = self._pieces
        stop = position + len(tokens)
        if len(tokens) == 1:
            text = self._decoder.push(pieces[tokens[0]])
        else:
            text = self._decoder.push(b"".join([pieces[token] for token in tokens]))
        if not text:
            return []
        if pending := self._decoder.pending:
            stop -= _tokens_within(tokens, pending)
        return [self._delta(text, stop)]

    def skip(self, token: int) -> None:
        """Exclude from the text a token that is neither text nor a control token of harmony."""
        self._tokens.append(token)
        self._repairs.append(Repair.CONTROL_IN_BODY)

    def ended(self, end: int | None, position: int) -> list[Event]:
        """The last delta, if any, and the end of the message by the token `end` at `position`."""
        events: list[Event] = []
        if text := self._decoder.finish():
            events.append(self._delta(text, position))
        content = "".join(self._content)
        if "\N{REPLACEMENT CHARACTER}" in content and not self._is_utf8():
            self._repairs.append(Repair.INVALID_UTF8)
        reading = replace(self._reading, repairs=(*self._reading.repairs, *self._repairs))
        body = (self._position, position)
        return [*events, _ended(self._index, reading, content, self._tokens, body, end)]

    def _delta(self, text: str, stop: int) -> ContentDelta:
        self._content.append(text)
        start, self._delta_start = self._delta_start, stop
        # Tokens of the prompt have negative positions.
        span = (start, stop) if start >= 0 else (0, max(stop, 0))
        return ContentDelta(self._index, text, span)

    def _is_utf8(self) -> bool:
        body = [self._pieces[t] for t in self._tokens[self._body :] if 0 <= t < FIRST_SPECIAL]
        try:
            b"".join(body).decode()
        except UnicodeDecodeError:
            return False
        return True


def _ended(
    index: int,
    reading: Reading,
    content: str,
    tokens: Sequence[int],
    body: tuple[int, int],
    end: int | None,
) -> MessageEnded:
    """The end of a message with the header and the repairs of `reading`.

    tokens: all but `end`. body: the positions of the first token of the body, and after its last;
    negative ones are of the prompt.
    """
    start, stop = (max(position, 0) for position in body)
    return MessageEnded(
        index,
        reading.header,
        content,
        (*tokens, end) if end in _ENDS else tuple(tokens),
        end,
        _unique(*reading.repairs, *_end_repairs(reading.header, end)),
        stop - start,
        stop + (end in _ENDS),
    )


def _without_start(tokens: Sequence[int]) -> Sequence[int]:
    return tokens[1:] if tokens and tokens[0] == START else tokens


def _with_repairs(reading: Reading, tokens: Sequence[int], *, stray: bool) -> Reading:
    """`reading` with the repairs for tokens before the header, and for a missing `<|start|>`."""
    own = []
    if stray:
        own.append(Repair.STRAY_TOKENS)
    if not tokens or tokens[0] != START:
        own.append(Repair.MISSING_START)
    return replace(reading, repairs=_unique(*own, *reading.repairs)) if own else reading


def _tokens_within(tokens: Sequence[int], size: int) -> int:
    """The number of tokens at the end whose bytes are all among the last `size` bytes."""
    count = 0
    while size and count < len(tokens):
        size -= len(token_bytes()[tokens[-1 - count]])
        if size < 0:
            break
        count += 1
    return count


def _end_repairs(header: Header, end: int | None) -> Sequence[Repair]:
    if end is None:
        return ()
    if end not in _ENDS:
        return (Repair.CONTROL_IN_BODY,)
    legal = _ENDS_OF_TEXT[header.channel] if header.recipient is None else _ENDS_OF_CALL
    return () if end in legal else (Repair.UNEXPECTED_END,)


def _unique(*repairs: Repair) -> tuple[Repair, ...]:
    return tuple(dict.fromkeys(repairs))
