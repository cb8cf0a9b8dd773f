"""The events of the parser, in the order in which tokens arrive.

Each message has one `MessageStarted`, any number of `ContentDelta`, and one `MessageEnded`. Indices
count messages from 0. The concatenated deltas of a message equal its `MessageEnded.content`.
"""

from dataclasses import dataclass
from enum import StrEnum

from harmony.messages import Channel


class Repair(StrEnum):
    """A departure from legal harmony that the parser accepted. The name says what was wrong."""

    MISSING_START = "missing_start"
    """No `<|start|>assistant` opened the message."""
    STRAY_TOKENS = "stray_tokens"
    """Other tokens preceded the header of the message."""
    UNEXPECTED_ROLE = "unexpected_role"
    """The role was not exactly one `assistant`."""
    MISSING_CHANNEL = "missing_channel"
    UNKNOWN_CHANNEL = "unknown_channel"
    REPEATED_CHANNEL = "repeated_channel"
    REPEATED_RECIPIENT = "repeated_recipient"
    GLUED_RECIPIENT = "glued_recipient"
    """No space separated a declared name from the text after it."""
    RENAMED_RECIPIENT = "renamed_recipient"
    """A declared name had no namespace, or the wrong one."""
    MISPLACED_RECIPIENT = "misplaced_recipient"
    """A declared name had no `to=` before it."""
    HEADER_WORDS = "header_words"
    """The header had additional words, or other spaces than a legal header."""
    HEADERLESS_TEXT = "headerless_text"
    """No `<|message|>` separated the text from the header."""
    CONTROL_IN_BODY = "control_in_body"
    UNEXPECTED_END = "unexpected_end"
    """The message ended with a token that does not end messages of its kind."""
    INVALID_UTF8 = "invalid_utf8"
    REPETITION = "repetition"
    """The model repeated the same few tokens, and the server ended the message."""


@dataclass(frozen=True, slots=True)
class Header:
    """The content of a header, between `<|start|>` and `<|message|>`.

    recipient: the full name of the called tool (`functions.f`, `python`), None for text.
    content_type: the text after `<|constrain|>`, or the word in its place.
    """

    channel: Channel
    recipient: str | None = None
    content_type: str | None = None


@dataclass(frozen=True, slots=True)
class MessageStarted:
    """The header of a message is complete. It does not change afterwards."""

    index: int
    header: Header


# Not frozen, since creating a frozen instance takes three times as long, and each token needs one.
@dataclass(slots=True)
class ContentDelta:
    """New text of the open message.

    span: the half-open range of positions of the sampled tokens (0 is the first token pushed) whose
    bytes this text completes, for logprobs and token counts. For a message without `<|message|>`,
    it begins with the first token after the header.
    """

    index: int
    text: str
    span: tuple[int, int]


@dataclass(frozen=True, slots=True)
class MessageEnded:
    """The message is complete.

    tokens: all its ids from `<|start|>` on, for replay: those of the prompt, those that were
    sampled, and the token that ended the message. If it is complete and has no repairs, parsing
    them gives this message.
    end: the control token that ended the message, None if sampling stopped without one. A control
    token that opens the next header ends a message as well, but is not part of `tokens`.
    repairs: empty exactly if the message, and the tokens before it, were legal harmony.
    body_tokens: the number of sampled ids between `<|message|>` and the end. For a message
    without `<|message|>`, the number of all its sampled ids.
    stop: the position after its last sampled token, which may be the token that ended it.
    """

    index: int
    header: Header
    content: str
    tokens: tuple[int, ...]
    end: int | None
    repairs: tuple[Repair, ...] = ()
    body_tokens: int = 0
    stop: int = 0

    @property
    def complete(self) -> bool:
        """Whether a control token ended the message."""
        return self.end is not None


Event = MessageStarted | ContentDelta | MessageEnded
