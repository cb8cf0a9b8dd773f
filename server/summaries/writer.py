"""Writes the summaries of one answer's reasoning, part by part, while the model reasons.

A part is requested every `EVERY` tokens, at the end of a paragraph, and one at the end of the
reasoning. Its summariser runs in a task of its own, so nothing waits for it but the end of the
reasoning, and that no longer than the answer's patience.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from server.summaries.base import (
    Detail,
    NoCapacity,
    Summariser,
    SummaryFailed,
    SummaryPart,
    SummaryRequest,
    SummaryUsage,
)
from server.summaries.sources import Sources

logger = logging.getLogger(__name__)

EVERY = 300
"""Tokens of reasoning from which on a part is requested at the end of a paragraph."""
LATEST = 600
"""Tokens of reasoning from which on a part is requested at the end of a line or a sentence."""
LEAST = 40
"""Tokens of reasoning that have a summary. Fewer have none."""

_ENDS = ("\n\n",)
_LATE_ENDS = ("\n\n", "\n", ". ", "\u3002", " ", "")


class LatePart:
    """A part that was not written in time, or could not be written."""


@dataclass(frozen=True, slots=True)
class _Writing:
    """A part that is being written, from the reasoning in `text`, of `tokens` tokens."""

    task: asyncio.Task[SummaryPart]
    text: str
    tokens: int


class SummaryWriter:
    """The summaries of one answer.

    Call `begin` when a reasoning message begins, `add` for its text, `take` now and then, and `end`
    when it ends. Call `close` when the answer ends.

    sources: the texts that no part may quote. patience: seconds that the answer waits for parts, in
    all. all_counts: the parts of all answers by how they ended, which the writer adds to:
    `written`, `withheld`, `skipped` (no capacity), `failed` and `late`. name: that of the answer,
    for the log.
    """

    def __init__(
        self,
        summariser: Summariser,
        detail: Detail,
        sources: Sources,
        *,
        patience: float,
        all_counts: Counter[str],
        name: str = "",
    ) -> None:
        self.usage = SummaryUsage()
        """The tokens of all parts."""
        self.counts = Counter[str]()
        """The parts of this answer by how they ended, as in `all_counts`."""
        self.sources = sources
        self.quotes = summariser.quotes
        """Whether parts are sentences of the reasoning."""
        self._summariser = summariser
        self._detail = detail
        self._patience = patience
        self._all_counts = all_counts
        self._name = name
        self._earlier: list[str] = []
        self._writing: list[_Writing] = []
        self._unread: list[str] = []
        self._unread_tokens = 0
        self._attempted_at = 0
        self._requested_tokens = 0

    def begin(self) -> None:
        """A reasoning message begins."""
        self._unread = []
        self._unread_tokens = self._attempted_at = self._requested_tokens = 0

    def add(self, text: str) -> None:
        """Add text to the message."""
        self._unread.append(text)

    def count(self, tokens: int) -> None:
        """Add to the tokens of the text."""
        self._unread_tokens += tokens

    def take(self) -> list[SummaryPart]:
        """The parts that are written, in order. A further part is requested if it is time to."""
        parts = self._written()
        if not self._writing and self._unread_tokens - self._attempted_at >= EVERY:
            self._request_paragraphs()
        return parts

    async def end(self, tokens: int) -> list[SummaryPart | LatePart]:
        """The message's last parts; waits for them at most as long as the patience lasts.

        tokens: those of the whole message.
        """
        if tokens < LEAST:
            return []
        first: list[SummaryPart | LatePart] = [*self._written()]
        text, unread = "".join(self._unread), tokens - self._requested_tokens
        if text.strip() and (unread >= LEAST or not self._requested_tokens):
            self._request(text, unread)
        if self._writing:
            loop = asyncio.get_running_loop()
            began = loop.time()
            tasks = [each.task for each in self._writing]
            await asyncio.wait(tasks, timeout=self._patience)
            self._patience = max(self._patience - (loop.time() - began), 0)
        writings, self._writing = self._writing, []
        last = [part for each in writings if (part := self._last_part(each))]
        late = [part for part in last if isinstance(part, LatePart)]
        return [*first, *(part for part in last if part not in late[1:])]

    def close(self) -> None:
        """Cancel what is being written."""
        for each in self._writing:
            each.task.cancel()
        self._writing = []

    def _written(self) -> list[SummaryPart]:
        """The parts that are written. The text of one that could not be is read again."""
        parts: list[SummaryPart] = []
        while self._writing and self._writing[0].task.done():
            writing = self._writing.pop(0)
            match self._result(writing):
                case SummaryPart() as part:
                    parts.append(part)
                case _:
                    self._unread.insert(0, writing.text)
                    self._unread_tokens += writing.tokens
                    self._requested_tokens -= writing.tokens
                    self._attempted_at = writing.tokens
        return parts

    def _request_paragraphs(self) -> None:
        """Request a part of the text up to the end of its last paragraph."""
        text = "".join(self._unread)
        is_late = self._unread_tokens - self._attempted_at >= LATEST
        at = _end(text, _LATE_ENDS if is_late else _ENDS)
        if not at:
            self._unread = [text]
            return
        tokens = self._unread_tokens * at // len(text)
        self._request(text[:at], tokens)
        self._unread, self._unread_tokens = [text[at:]], self._unread_tokens - tokens
        self._attempted_at = 0

    def _request(self, text: str, tokens: int) -> None:
        request = SummaryRequest(text, self._detail, tuple(self._earlier), self.sources)
        task = asyncio.ensure_future(self._summariser.summarise(request))
        self._writing.append(_Writing(task, text, tokens))
        self._requested_tokens += tokens

    def _last_part(self, writing: _Writing) -> SummaryPart | LatePart | None:
        """The part, as it is at the end of the reasoning; None if it was skipped."""
        if not writing.task.done():
            writing.task.cancel()
            self._note("late")
            return LatePart()
        result = self._result(writing)
        if isinstance(result, SummaryPart):
            return result
        return LatePart() if result == "failed" else None

    def _result(self, writing: _Writing) -> SummaryPart | Literal["skipped", "failed"]:
        """The part of a task that is done, or why there is none."""
        error = writing.task.exception()
        if error is None:
            part = writing.task.result()
            self.usage += part.usage
            self._earlier.append(part.text)
            self._note("withheld" if part.withheld else "written")
            return part
        if isinstance(error, NoCapacity):
            self._note("skipped")
            return "skipped"
        what: object = type(error).__name__
        if isinstance(error, SummaryFailed):
            self.usage += error.usage
            what = error
        logger.warning("request %s: a summary failed: %s", self._name, what)
        self._note("failed")
        return "failed"

    def _note(self, outcome: str) -> None:
        self.counts[outcome] += 1
        self._all_counts[outcome] += 1


def _end(text: str, ends: Sequence[str]) -> int | None:
    """The position after the last of `ends` in the second half of the text.

    The first of them that occurs there counts; the empty one is the end of the text.
    """
    for end in ends:
        if (at := text.rfind(end)) >= len(text) // 2:
            return at + len(end)
    return None
