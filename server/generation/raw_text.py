"""Reads sampled tokens as plain text instead of harmony."""

from collections.abc import Sequence

from harmony.events import ContentDelta, Event, Header, MessageEnded, MessageStarted
from harmony.messages import Channel
from harmony.tokenizer import Utf8Decoder
from harmony.vocab import STOP_TOKENS, VOCAB_SIZE, token_bytes

_HEADER = Header(Channel.FINAL)


class RawText:
    """Reads one sampling as one final message.

    Control tokens become text, except the stop token at the end.
    """

    def __init__(self) -> None:
        self._utf8 = Utf8Decoder()
        self._tokens: list[int] = []
        self._text: list[str] = []
        self._delta_start = 0
        self._started = False

    def push_many(self, tokens: Sequence[int]) -> Sequence[Event]:
        """The text that more tokens complete."""
        started = self._start_message()
        self._tokens += tokens
        pieces = token_bytes()
        text = (pieces[i] for i in tokens if self.has_text(i))
        return [*started, *self._delta(self._utf8.push(b"".join(text)))]

    def finish(self) -> Sequence[Event]:
        """The text of an incomplete character, if any, and the end of the message."""
        events = [*self._start_message(), *self._delta(self._utf8.finish())]
        tokens = tuple(self._tokens)
        end = tokens[-1] if tokens and tokens[-1] in STOP_TOKENS else None
        text = "".join(self._text)
        return [*events, MessageEnded(0, _HEADER, text, tokens, end, stop=len(tokens))]

    @staticmethod
    def has_text(token: int) -> bool:
        """Whether the token's bytes are part of the text."""
        return token not in STOP_TOKENS and token < VOCAB_SIZE

    def _start_message(self) -> list[Event]:
        if self._started:
            return []
        self._started = True
        return [MessageStarted(0, _HEADER)]

    def _delta(self, text: str) -> list[Event]:
        if not text:
            return []
        self._text.append(text)
        span = (self._delta_start, len(self._tokens))
        self._delta_start = len(self._tokens)
        return [ContentDelta(0, text, span)]
