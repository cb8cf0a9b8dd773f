"""Summaries that a model writes and screens in one answer. The server checks them after that."""

import json
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from server import threads
from server.summaries.base import (
    NO_USAGE,
    SummaryFailed,
    SummaryPart,
    SummaryRequest,
    SummaryUsage,
    as_title,
)
from server.summaries.policy import Policy
from server.summaries.prompt import MOST_ANSWER, MOST_TEXT, SummaryPrompt, prompt
from server.summaries.screening import finding

WITHHELD = "**A step is not shown**"
"""The text of a part whose summary was withheld."""


@dataclass(frozen=True, slots=True)
class Completion:
    """A model's answer to a `SummaryPrompt`."""

    text: str
    usage: SummaryUsage = NO_USAGE


class SummaryModel(Protocol):
    """A model that answers prompts for summaries."""

    async def complete(self, prompt: SummaryPrompt) -> Completion:
        """The answer. Raises NoCapacity and SummaryFailed. It may be cancelled."""
        ...

    async def close(self) -> None:
        """Close connections. Called once, after the last call of `complete`."""
        ...


class ModelSummariser:
    """Implements `server.summaries.base.Summariser`. policy: what summaries may contain."""

    quotes = False

    def __init__(self, model: SummaryModel, policy: Policy) -> None:
        self._model = model
        self._policy = policy

    async def summarise(self, request: SummaryRequest) -> SummaryPart:
        """One part; `WITHHELD` if the model or a check withholds it."""
        completion = await self._model.complete(prompt(request, self._policy))
        usage = completion.usage
        answer = _answer(completion)
        if answer is None:
            return SummaryPart(WITHHELD, "verdict", usage)
        title, text = answer
        check = partial(
            finding, f"{title}\n\n{text}", request.text, request.sources, self._policy.never
        )
        characters = len(request.text) + request.sources.size
        if reason := await threads.run(check, threads.counted(characters, threads.MOST_SMALL)):
            return SummaryPart(WITHHELD, reason, usage)
        return SummaryPart(_markdown(title, text, MOST_TEXT[request.detail]), usage=usage)

    async def close(self) -> None:
        """Close the model's connections."""
        await self._model.close()


def _answer(completion: Completion) -> tuple[str, str] | None:
    """Title and text of the answer; None if it withholds them. Raises SummaryFailed."""
    text = completion.text
    # A server without grammars may write the object into a code block.
    begin, end = text.find("{"), text.rfind("}")
    try:
        value: Any = json.loads(text[begin : end + 1])
    except (RecursionError, ValueError):
        value = None
    match value:
        case {"verdict": "show", "title": str(title), "text": str(body)} if as_title(title):
            if len(title) + len(body) > MOST_ANSWER:
                raise SummaryFailed("the summariser's answer is too long", completion.usage)
            return _encodable(title), _encodable(body)
        case {"verdict": "withhold"}:
            return None
    raise SummaryFailed("the summariser's answer cannot be read", completion.usage)


def _encodable(text: str) -> str:
    """The text without halves of characters, which a limit on its length may leave."""
    return text.encode("utf-8", "replace").decode()


def _markdown(title: str, text: str, most: int) -> str:
    words = as_title(title)
    body = text.strip()
    shown = body if len(body) <= most else f"{body[:most].rsplit(maxsplit=1)[0]} …"
    return f"**{words}**\n\n{shown}" if shown else f"**{words}**"
