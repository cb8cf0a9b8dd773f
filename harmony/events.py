"""What the parser reports, in order, while tokens arrive.

For each message: one `MessageStarted`, any number of `ContentDelta`, one `MessageEnded`. Indices
count messages from 0. The concatenated deltas of a message equal its `MessageEnded.content`.
"""

from dataclasses import dataclass
from enum import StrEnum

from harmony.messages import Channel


class Repair(StrEnum):
    """A departure from legal harmony that the parser read through; each names what was wrong."""

    MISSING_START = "missing_start"
    """No `<|start|>assistant` opened the message."""
    STRAY_TOKENS = "stray_tokens"
    """Something stood before the message, where only its header may."""
    UNEXPECTED_ROLE = "unexpected_role"
    """Something other than `assistant`, said once, stood where the role stands."""
    MISSING_CHANNEL = "missing_channel"
    UNKNOWN_CHANNEL = "unknown_channel"
    REPEATED_CHANNEL = "repeated_channel"
    REPEATED_RECIPIENT = "repeated_recipient"
    GLUED_RECIPIENT = "glued_recipient"
    """A declared name ran into what followed it."""
    RENAMED_RECIPIENT = "renamed_recipient"
    """A declared name stood without its namespace, or in the wrong one."""
    MISPLACED_RECIPIENT = "misplaced_recipient"
    """A declared name stood where no name may, without `to=`."""
    HEADER_WORDS = "header_words"
    """The header held more, or other spacing, than a header does."""
    HEADERLESS_TEXT = "headerless_text"
    """No `<|message|>` parted the text from the header."""
    CONTROL_IN_BODY = "control_in_body"
    UNEXPECTED_END = "unexpected_end"
    """Another token ended the message than one of its kind ends with."""
    INVALID_UTF8 = "invalid_utf8"
    REPETITION = "repetition"
    """The same few tokens came over and over, and the server ended the message."""


@dataclass(frozen=True, slots=True)
class Header:
    """What stood between `<|start|>` and `<|message|>`.

    `recipient` is the called tool's full name (`functions.f`, `python`), None for text;
    `content_type` all that followed `<|constrain|>`, or the word in its place.
    """

    channel: Channel
    recipient: str | None = None
    content_type: str | None = None


@dataclass(frozen=True, slots=True)
class MessageStarted:
    """A header is complete: the kind of the message is known and will not change."""

    index: int
    header: Header


# Not frozen, though nobody changes one: each token makes one, which would take three times as long.
@dataclass(slots=True)
class ContentDelta:
    """New text of the open message.

    `span` is the half-open range of sampled-token positions (0 is the first token pushed) whose
    bytes this text completes, for logprobs and token counts.
    """

    index: int
    text: str
    span: tuple[int, int]


@dataclass(frozen=True, slots=True)
class MessageEnded:
    """The message is closed.

    `tokens` are all its ids from `<|start|>` on, including those that the prompt had given (so
    that they can be replayed) and the token that ended it; parsed again they give this message.
    `end` is the control token that closed it, None where sampling stopped before one came; a
    control token that opens something new closes too, but is not among `tokens`.
    `repairs` is empty exactly when the message, and what led up to it, was legal harmony.
    `body_tokens` counts the sampled ids between `<|message|>` and the end; where no `<|message|>`
    came, all of the message that were sampled.
    """

    index: int
    header: Header
    content: str
    tokens: tuple[int, ...]
    end: int | None
    repairs: tuple[Repair, ...] = ()
    body_tokens: int = 0

    @property
    def complete(self) -> bool:
        """True when a control token closed the message."""
        return self.end is not None


Event = MessageStarted | ContentDelta | MessageEnded
