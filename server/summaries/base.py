"""The interface of summarisers: reasoning in, one part of its summary out."""

from dataclasses import dataclass, field
from typing import Literal, Protocol

from server.summaries.sources import Sources

Detail = Literal["auto", "concise", "detailed"]
"""How long a summary is, in the values of `reasoning.summary`."""

SUMMARY_USAGE_FIELD = "gpt_oss:summary_usage"
"""The extension field of answers with the tokens and the parts of summaries that a model wrote."""

OUTCOMES = ("written", "withheld", "skipped", "failed", "late")
"""How a part ends: it is shown; it is withheld; the summariser has no capacity; it fails; it is not
there when the patience of the answer ends."""


MOST_TITLE = 80
"""Characters of the title of a part."""


@dataclass(frozen=True, slots=True)
class SummaryUsage:
    """Tokens that a model read and sampled for summaries."""

    input: int = 0
    output: int = 0

    def __add__(self, other: "SummaryUsage") -> "SummaryUsage":
        return SummaryUsage(self.input + other.input, self.output + other.output)


NO_USAGE = SummaryUsage()


class NoCapacity(Exception):
    """The summariser is busy with other work. The same reasoning may be summarised later."""


class SummaryFailed(Exception):
    """The summariser gave no summary. The message has no text of the model.

    usage: the tokens of an answer that cannot be used.
    """

    def __init__(self, message: str, usage: SummaryUsage = NO_USAGE) -> None:
        super().__init__(message)
        self.usage = usage


@dataclass(frozen=True, slots=True)
class SummaryRequest:
    """A request for one part of a summary.

    text: the reasoning to summarise, not empty. earlier: the texts of the answer's parts so far.
    sources: the texts that a summary must not quote.
    """

    text: str
    detail: Detail = "auto"
    earlier: tuple[str, ...] = ()
    sources: Sources = field(default_factory=Sources)


@dataclass(frozen=True, slots=True)
class SummaryPart:
    """One part of a summary.

    text: Markdown that begins with a bold title. withheld: why the text says only that a step is
    not shown, in one word; empty where it is the summary. usage: what writing it took.
    """

    text: str
    withheld: str = ""
    usage: SummaryUsage = NO_USAGE


def as_title(text: str) -> str:
    """`text` as the title of a part, without Markdown around it; empty if nothing is left."""
    return " ".join(text.replace("*", "").split())[:MOST_TITLE].strip(" .:#_`")


class Summariser(Protocol):
    """Writes the parts of summaries.

    quotes: whether parts are sentences of the reasoning, which nothing has screened.
    """

    quotes: bool

    async def summarise(self, request: SummaryRequest) -> SummaryPart:
        """One part. Raises NoCapacity and SummaryFailed. It may be cancelled."""
        ...

    async def close(self) -> None:
        """Close connections. Called once, after the last call of `summarise`."""
        ...
