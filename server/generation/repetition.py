"""Finds loops in sampled tokens: a short sequence that repeats.

Measured with `python -m benchmarks.repetition`.
"""

from collections.abc import Callable, Sequence
from functools import cache

from harmony.events import Header
from harmony.messages import Channel
from harmony.tokenizer import encode_with_control
from harmony.vocab import MESSAGE

WINDOW = 512
"""The length of a loop, in tokens, from which on it counts."""
LONGEST_PERIOD = 64
"""The longest sequence that is repeated, in tokens."""
EVERY = 64
"""Tokens between two checks: a loop is found within `WINDOW + EVERY - 1` tokens of its start."""


_NO_MESSAGE = Header(Channel.FINAL)


class RepetitionGuard:
    """Checks the tokens of one turn for loops, every `EVERY` tokens.

    Reasoning that loops is closed. Loops elsewhere may be intended, such as a long row of zeros:
    they are reported once for each message. Reasoning messages that repeat each other are a loop.

    report: called with the place of a loop: `analysis`, `commentary`, `final`, `call`, or `header`
    outside of messages.
    look: the number of the turn's tokens at which `closes` is to be called next. It does not
    depend on how the tokens are cut into chunks.
    """

    def __init__(self, report: Callable[[str], None]) -> None:
        self.look = WINDOW
        self._report = report
        self._reported: Header | None = None

    def anew(self) -> "RepetitionGuard":
        """A guard for another turn, with the same report."""
        return RepetitionGuard(self._report)

    def closes(self, tokens: Sequence[int], header: Header | None) -> bool:
        """Whether the turn's tokens, `look` of them, end in reasoning that must be closed.

        header: that of the open message, None if none is open.
        """
        self.look += EVERY
        window = list(tokens[-WINDOW:])
        if not is_loop(window):
            return False
        place = _place(header)
        if not _only_reasons(window, place):
            if self._reported is not (header or _NO_MESSAGE):
                self._reported = header or _NO_MESSAGE
                self._report(place)
            return False
        if header is None:
            # Between two reasoning messages: the next one opens within a few tokens.
            self.look += 1 - EVERY
        return header is not None

    def closed(self, count: int) -> None:
        """Note that the reasoning was closed, and that the turn has `count` tokens now."""
        self.look = count + WINDOW
        self._report(Channel.ANALYSIS.value)


def is_loop(tokens: list[int]) -> bool:
    """Whether the tokens are repetitions of their first ones, at most `LONGEST_PERIOD` of them."""
    last = tokens[-1]
    return any(
        tokens[-1 - period] == last and tokens[period:] == tokens[:-period]
        for period in range(1, LONGEST_PERIOD + 1)
    )


def _place(header: Header | None) -> str:
    if header is None:
        return "header"
    return header.channel.value if header.recipient is None else "call"


def _only_reasons(window: list[int], place: str) -> bool:
    """Whether all messages in the window are reasoning. place: that of the window's end."""
    header = _reasoning_header()
    starts = [at for at, token in enumerate(window) if token == MESSAGE and at >= 2]
    if any(window[at - 2 : at + 1] != header for at in starts):
        return False
    return place == Channel.ANALYSIS or (place == "header" and bool(starts))


@cache
def _reasoning_header() -> list[int]:
    return encode_with_control("<|channel|>analysis<|message|>")
