"""Sampled tokens as the text that they are, where no harmony is to be read."""

from collections.abc import Sequence

from harmony.events import ContentDelta, Event, Header, MessageEnded, MessageStarted
from harmony.messages import Channel
from harmony.tokenizer import Utf8Decoder
from harmony.vocab import STOP_TOKENS, VOCAB_SIZE, token_bytes

_HEADER = Header(Channel.FINAL)


class RawText:
    """Reads one sampling as one final message.

    Control tokens are spelled out, but for the stop token that ends it.
    """

    def __init__(self) -> None:
        self._utf8 = Utf8Decoder()
        self._tokens: list[int] = []
        self._text: list[str] = []
        self._unsaid = 0
        self._started = False

    def push(self, token: int) -> Sequence[Event]:
        """The text that one more token completes."""
        return self.push_many((token,))

    def push_many(self, tokens: Sequence[int]) -> Sequence[Event]:
        """The text that more tokens complete."""
        opened = self._opened()
        self._tokens += tokens
        pieces = token_bytes()
        said = (pieces[i] for i in tokens if i not in STOP_TOKENS and i < VOCAB_SIZE)
        return [*opened, *self._said(self._utf8.push(b"".join(said)))]

    def finish(self) -> Sequence[Event]:
        """What a half character leaves, and the end."""
        events = [*self._opened(), *self._said(self._utf8.finish())]
        end = self._tokens[-1] if self._tokens and self._tokens[-1] in STOP_TOKENS else None
        return [*events, MessageEnded(0, _HEADER, "".join(self._text), tuple(self._tokens), end)]

    def _opened(self) -> list[Event]:
        if self._started:
            return []
        self._started = True
        return [MessageStarted(0, _HEADER)]

    def _said(self, text: str) -> list[Event]:
        if not text:
            return []
        self._text.append(text)
        span = (self._unsaid, len(self._tokens))
        self._unsaid = len(self._tokens)
        return [ContentDelta(0, text, span)]
