"""Summaries of sentences of the reasoning itself, without a model and without screening."""

import re

from server.summaries.base import (
    Detail,
    SummaryFailed,
    SummaryPart,
    SummaryRequest,
    as_title,
)

_BETWEEN = re.compile(r"(?<=[.!?])\s+|(?<=[\u3002\uff01\uff1f])|\n+")
_SENTENCES: dict[Detail, int] = {"concise": 1, "auto": 2, "detailed": 4}
_TITLE_WORDS = 6
MOST_SENTENCE = 240
"""Characters of a sentence; the rest of a longer one is left out."""


class ExtractiveSummariser:
    """Takes the first sentence and the last ones. Implements `server.summaries.base.Summariser`."""

    quotes = True

    async def summarise(self, request: SummaryRequest) -> SummaryPart:
        """The sentences, below a title made of the first words. Raises SummaryFailed."""
        sentences = [each for found in _BETWEEN.split(request.text) if (each := found.strip())]
        count = _SENTENCES[request.detail]
        chosen = sentences if len(sentences) <= count else _first_and_last(sentences, count)
        words = chosen[0].split()[:_TITLE_WORDS] if chosen else ()
        title = as_title(" ".join(words)).rstrip(" ,;!?")
        if not title:
            raise SummaryFailed("the reasoning has no sentence")
        return SummaryPart(f"**{title}**\n\n{' '.join(map(_shortened, chosen))}")

    async def close(self) -> None:
        """Nothing to close."""


def _first_and_last(sentences: list[str], count: int) -> list[str]:
    last = sentences[len(sentences) - count + 1 :]
    return [sentences[0], *last]


def _shortened(sentence: str) -> str:
    if len(sentence) <= MOST_SENTENCE:
        return sentence
    return f"{sentence[:MOST_SENTENCE].rsplit(maxsplit=1)[0]} …"
