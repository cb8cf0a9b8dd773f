"""Convert turn events to chunks of a legacy completion, and fold chunks into the completion.

Source: https://platform.openai.com/docs/api-reference/completions/object
"""

import math
from collections.abc import Sequence
from typing import Any

from adapters.base import TokenLogprobs
from harmony.tokenizer import Utf8Decoder
from harmony.vocab import token_bytes
from server.errors import APIError
from server.generation.runs import WireEvent
from server.generation.turn_events import TextDelta, TurnEvent, TurnFinished, Usage

_LOGPROB_LISTS = ("tokens", "token_logprobs", "top_logprobs", "text_offset")


class LegacyCompletionOutbound:
    """Makes the chunks of one choice; implements `server.generation.outbound_protocol.Outbound`.

    shared: the fields that all chunks of the completion have (`chunk_fields`).
    index: the choice's index.
    echo: the prompt if the text begins with it, else empty.
    show_ids: add the prompt's token ids and the sampled ones to the last chunk.
    """

    def __init__(
        self, shared: dict[str, Any], *, index: int = 0, echo: str = "", show_ids: bool = False
    ) -> None:
        self.usage: Usage
        """The turn's usage; set by the `TurnFinished` event."""
        self._shared = shared
        self._index = index
        self._echo = echo
        self._show_ids = show_ids
        self._offset = len(echo)
        self._decoder = Utf8Decoder()

    @property
    def open_item_id(self) -> str | None:
        """None: the API has no items."""
        return None

    def start(self) -> list[WireEvent]:
        """One chunk with the echo, which may be empty."""
        return [self._chunk(self._echo)]

    def push(self, event: TurnEvent) -> list[WireEvent]:
        """One chunk for each piece of text, and one for the end of the turn."""
        match event:
            case TextDelta():
                return [self._text_chunk(event)]
            case TurnFinished():
                return [self._finish(event)]
        return []

    def fail(self, error: APIError) -> list[WireEvent]:
        """The error in OpenAI's form."""
        return [error.body()]

    def cancel(self) -> list[WireEvent]:
        """No events: the API has none for a cancelled completion."""
        return []

    def _text_chunk(self, event: TextDelta) -> WireEvent:
        logprobs = self._logprob_lists(event.logprobs) if event.logprobs else None
        return self._chunk(event.text, logprobs=logprobs)

    def _logprob_lists(self, logprobs: Sequence[TokenLogprobs]) -> dict[str, Any]:
        lists: dict[str, Any] = {name: [] for name in _LOGPROB_LISTS}
        for sampled in logprobs:
            lists["tokens"].append(_token_text(sampled.token_id))
            lists["token_logprobs"].append(sampled.logprob)
            top = {_token_text(token_id): logprob for token_id, logprob in sampled.top}
            lists["top_logprobs"].append(top)
            lists["text_offset"].append(self._offset)
            # A character may be split over the tokens of several chunks.
            self._offset += len(self._decoder.push(token_bytes()[sampled.token_id]))
        return lists

    def _finish(self, event: TurnFinished) -> WireEvent:
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
    """The completion that results from joining all chunks. The last chunk has the usage."""
    choices: dict[int, list[dict[str, Any]]] = {}
    for chunk in chunks:
        for choice in chunk["choices"]:
            choices.setdefault(choice["index"], []).append(choice)
    return {**chunks[-1], "choices": [_join_choice(choices[index]) for index in sorted(choices)]}


def select_best(
    completion: dict[str, Any], *, n: int, best_of: int, logprobs: bool
) -> dict[str, Any]:
    """The completion with the `n` likeliest of each prompt's `best_of` choices, likeliest first.

    If `n` equals `best_of`, the completion is returned as it is. logprobs: whether the selected
    choices show their logprobs.
    """
    if n == best_of:
        return completion
    sampled = completion["choices"]
    selected = [
        choice
        for first in range(0, len(sampled), best_of)
        for choice in sorted(sampled[first : first + best_of], key=_mean_logprob, reverse=True)[:n]
    ]
    hidden = {} if logprobs else {"logprobs": None}
    choices = [choice | {"index": index} | hidden for index, choice in enumerate(selected)]
    return {**completion, "choices": choices}


def _mean_logprob(choice: dict[str, Any]) -> float:
    """That of the text's tokens. A choice without text has none, and is the least likely."""
    values = (choice["logprobs"] or {}).get("token_logprobs", ())
    return sum(values) / len(values) if values else -math.inf


def _token_text(token_id: int) -> str:
    """The token's text; the API writes incomplete UTF-8 as `bytes:\\xe2\\x80`."""
    data = token_bytes()[token_id]
    try:
        return data.decode()
    except UnicodeDecodeError:
        return "bytes:" + "".join(f"\\x{byte:02x}" for byte in data)


def _join_choice(pieces: Sequence[dict[str, Any]]) -> dict[str, Any]:
    text = "".join(piece["text"] for piece in pieces)
    logprobs = [part for piece in pieces if (part := piece["logprobs"]) is not None]
    lists = {name: [entry for part in logprobs for entry in part[name]] for name in _LOGPROB_LISTS}
    return {**pieces[-1], "text": text, "logprobs": lists if logprobs else None}
