"""Loops in what is sampled: the last tokens are one short sequence, over and over.

Measured with `python -m benchmarks.repetition`.
"""

from collections.abc import Callable, Sequence
from functools import cache

from harmony.events import Header
from harmony.messages import Channel
from harmony.tokenizer import encode_with_control
from harmony.vocab import MESSAGE

WINDOW = 512
"""So many tokens have to be a loop."""
LONGEST_PERIOD = 64
"""The most tokens that are repeated."""
EVERY = 64
"""Tokens between two looks: a loop is found at most `WINDOW + EVERY - 1` tokens after its start."""


_NOWHERE = Header(Channel.FINAL)  # stands for no message


class RepetitionGuard:
    """Looks at the tokens of one turn, now and then.

    Reasoning that loops is to be closed; a loop elsewhere, where a long row of zeros may be meant,
    is reported once a message. Messages of reasoning that repeat each other are a loop, too.

    report: called with where a loop was found: `analysis`, `commentary`, `final`, `call`, or
    `header` outside of messages.
    look: how many tokens of the turn there have to be when `closes` is to be asked next. That
    depends on no chunks, and costs nothing in between.
    """

    def __init__(self, report: Callable[[str], None]) -> None:
        self.look = WINDOW
        self._report = report
        self._reported: Header | None = None

    def closes(self, tokens: Sequence[int], header: Header | None) -> bool:
        """Whether the turn's tokens, `look` of them, end in reasoning that is to be closed.

        header: the open message's, None where none is open.
        """
        self.look += EVERY
        window = list(tokens[-WINDOW:])
        if not is_loop(window):
            return False
        place = _place(header)
        if not _only_reasons(window, place):
            if self._reported is not (header or _NOWHERE):
                self._reported = header or _NOWHERE
                self._report(place)
            return False
        if header is None:
            # Between two messages of reasoning: the next one will be open in a few tokens.
            self.look += 1 - EVERY
        return header is not None

    def closed(self, count: int) -> None:
        """The reasoning was closed, and there are `count` tokens now."""
        self.look = count + WINDOW
        self._report(Channel.ANALYSIS.value)


def is_loop(tokens: list[int]) -> bool:
    """Whether the tokens repeat the first few of them, at most `LONGEST_PERIOD`, to the end."""
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
    """Whether all messages in the window are reasoning; `place` is where it ends."""
    header = _reasoning_header()
    begun = [at for at, token in enumerate(window) if token == MESSAGE and at >= 2]
    if any(window[at - 2 : at + 1] != header for at in begun):
        return False
    return place == Channel.ANALYSIS or (place == "header" and bool(begun))


@cache
def _reasoning_header() -> list[int]:
    return encode_with_control("<|channel|>analysis<|message|>")
