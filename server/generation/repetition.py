"""Loops in what is sampled: the last tokens are one short sequence, over and over.

Measured with `python -m benchmarks.repetition`.
"""

from collections.abc import Callable, Sequence

from harmony.events import Header
from harmony.messages import Channel
from harmony.vocab import MESSAGE

WINDOW = 512
"""So many tokens have to be a loop."""
LONGEST_PERIOD = 64
"""The most tokens that are repeated."""
EVERY = 64
"""Tokens between two looks: a loop is found at most `WINDOW + EVERY - 1` tokens after its start."""


class LoopDetector:
    """Whether the last `WINDOW` of some tokens repeat with a period of at most `LONGEST_PERIOD`.

    Looks at every `EVERY`th token alone, counted from the first, whatever the pieces are that the
    tokens come in. `looping` is what the last look found.
    """

    def __init__(self) -> None:
        self._recent: list[int] = []
        self._unseen = 0
        self.looping = False

    @property
    def until_look(self) -> int:
        """How many more tokens the next look is at."""
        return EVERY - self._unseen

    def add(self, tokens: Sequence[int]) -> None:
        """Take the next tokens, at most `until_look`."""
        self._recent += tokens
        self._unseen += len(tokens)
        if self._unseen == EVERY:
            self._unseen = 0
            del self._recent[:-WINDOW]
            self.looping = len(self._recent) == WINDOW and _is_loop(self._recent)


def _is_loop(tokens: list[int]) -> bool:
    last = tokens[-1]
    return any(
        tokens[-1 - period] == last and tokens[period:] == tokens[:-period]
        for period in range(1, LONGEST_PERIOD + 1)
    )


class RepetitionGuard:
    """Watches the messages of one turn.

    Reasoning that loops is to be closed; a loop elsewhere, where a long row of zeros may be meant,
    is reported once a message. Messages of reasoning that follow each other count as one.

    report: called with where a loop was found: `analysis`, `commentary`, `final`, `call`, or
    `header` outside of messages.
    """

    def __init__(self, report: Callable[[str], None]) -> None:
        self._report = report
        self._header: Header | None = None
        self._place = "header"
        self._reported = False
        self._detector = LoopDetector()

    def span(self, tokens: Sequence[int]) -> int:
        """How many of the tokens that come next are to be read before the guard sees them."""
        if len(tokens) <= 1:
            return len(tokens)
        if self._detector.looping and self._place == Channel.ANALYSIS:
            return 1
        count = min(len(tokens), self._detector.until_look)
        # What comes after it is of another message.
        return tokens.index(MESSAGE) + 1 if MESSAGE in tokens[:count] else count

    def saw(self, tokens: Sequence[int], header: Header | None) -> bool:
        """Take `span` tokens; True where they end in reasoning that is to be closed.

        header: the open message's after them, None where none is open.
        """
        if header is not None and header is not self._header and self._open(header):
            return False
        self._detector.add(tokens)
        if not self._detector.looping:
            return False
        if self._place != Channel.ANALYSIS:
            self._note()
            return False
        return header is not None

    def closed(self) -> None:
        """The reasoning was closed: what follows is looked at anew."""
        self._note()
        self._restart("header")

    def _open(self, header: Header) -> bool:
        """True where a message begins that is looked at anew."""
        self._header = header
        place = header.channel.value if header.recipient is None else "call"
        if place == Channel.ANALYSIS and place == self._place:
            return False
        self._restart(place)
        return True

    def _restart(self, place: str) -> None:
        self._place = place
        self._reported = False
        self._detector = LoopDetector()

    def _note(self) -> None:
        if not self._reported:
            self._reported = True
            self._report(self._place)
