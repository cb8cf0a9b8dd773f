"""Turn events -> legacy completion chunks, and chunks -> the completion.

Source: https://platform.openai.com/docs/api-reference/completions/object
"""

from collections.abc import Sequence
from typing import Any

from adapters.base import TokenLogprobs
from harmony.events import MessageStarted
from harmony.vocab import token_bytes
from server.errors import APIError
from server.generation.runs import WireEvent
from server.generation.turn_events import (
    MessageClosed,
    TextDelta,
    TurnEvent,
    TurnFinished,
    Usage,
)

_LISTS = ("tokens", "token_logprobs", "top_logprobs", "text_offset")


class CompletionOutbound:
    """One choice.

    shared: what is the same in all chunks. echo: what its text begins with. show_ids: its last
    chunk has the prompt's ids and the sampled ones.
    """

    def __init__(
        self, shared: dict[str, Any], *, index: int = 0, echo: str = "", show_ids: bool = False
    ) -> None:
        self.usage: Usage
        """Set when the turn has finished."""
        self._shared = shared
        self._index = index
        self._echo = echo
        self._show_ids = show_ids
        self._offset = len(echo)

    def start(self) -> list[WireEvent]:
        """What the text begins with, perhaps nothing."""
        return [self._chunk(self._echo)]

    def push(self, event: TurnEvent) -> list[WireEvent]:
        """A chunk for each piece of text, and one for the end."""
        match event:
            case TextDelta():
                return [self._text(event)]
            case MessageStarted() | MessageClosed():
                return []
            case TurnFinished():
                return [self._finished(event)]

    def fail(self, error: APIError) -> list[WireEvent]:
        """OpenAI's error body."""
        return [error.body()]

    def cancel(self) -> list[WireEvent]:
        """Nothing: the API has no event for it."""
        return []

    def _text(self, event: TextDelta) -> WireEvent:
        logprobs = _logprobs(event.logprobs, self._offset) if event.logprobs else None
        self._offset += len(event.text)
        return self._chunk(event.text, logprobs=logprobs)

    def _finished(self, event: TurnFinished) -> WireEvent:
        self.usage = event.usage
        last = self._chunk("", finish_reason=event.reason)
        if self._show_ids:
            last["choices"][0] |= {
                "prompt_token_ids": event.prompt_token_ids,
                "token_ids": event.token_ids,
            }
        return last

    def _chunk(self, text: str, **fields: Any) -> WireEvent:
        choice = {"index": self._index, "text": text, "logprobs": None, "finish_reason": None}
        return {**self._shared, "choices": [choice | fields]}


def fold(chunks: Sequence[WireEvent]) -> dict[str, Any]:
    """The completion, which is what joining all chunks gives; the last one holds the usage."""
    choices: dict[int, list[dict[str, Any]]] = {}
    for chunk in chunks:
        for choice in chunk["choices"]:
            choices.setdefault(choice["index"], []).append(choice)
    return {**chunks[-1], "choices": [_joined(choices[index]) for index in sorted(choices)]}


def best(completion: dict[str, Any], *, n: int, best_of: int, logprobs: bool) -> dict[str, Any]:
    """The completion with the `n` likeliest of each prompt's `best_of` choices, likeliest first.

    Where all are kept, they stay in order. logprobs: whether the choices keep theirs.
    """
    if n == best_of:
        return completion
    made = completion["choices"]
    kept = [
        choice
        for first in range(0, len(made), best_of)
        for choice in sorted(made[first : first + best_of], key=_mean_logprob, reverse=True)[:n]
    ]
    shown = {} if logprobs else {"logprobs": None}
    choices = [choice | {"index": index} | shown for index, choice in enumerate(kept)]
    return {**completion, "choices": choices}


def _mean_logprob(choice: dict[str, Any]) -> float:
    each = (choice["logprobs"] or {}).get("token_logprobs", ())
    return sum(each) / len(each) if each else 0.0


def _logprobs(logprobs: Sequence[TokenLogprobs], offset: int) -> dict[str, Any]:
    shown: dict[str, Any] = {name: [] for name in _LISTS}
    for sampled in logprobs:
        token = _spelled(sampled.token_id)
        top = {_spelled(token_id): logprob for token_id, logprob in sampled.top}
        shown["tokens"].append(token)
        shown["token_logprobs"].append(sampled.logprob)
        shown["top_logprobs"].append(top)
        shown["text_offset"].append(offset)
        offset += len(token_bytes()[sampled.token_id].decode(errors="ignore"))
    return shown


def _spelled(token_id: int) -> str:
    """The token's text; the API writes what is no text of its own as `bytes:\\xe2\\x80`."""
    data = token_bytes()[token_id]
    try:
        return data.decode()
    except UnicodeDecodeError:
        return "bytes:" + "".join(f"\\x{byte:02x}" for byte in data)


def _joined(pieces: Sequence[dict[str, Any]]) -> dict[str, Any]:
    text = "".join(piece["text"] for piece in pieces)
    logprobs = [shown for piece in pieces if (shown := piece["logprobs"]) is not None]
    lists = {name: [entry for each in logprobs for entry in each[name]] for name in _LISTS}
    return {**pieces[-1], "text": text, "logprobs": lists if logprobs else None}
