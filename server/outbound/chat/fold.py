"""Fold chat completion chunks into the completion."""

from collections.abc import Sequence
from typing import Any

from server.encoding.json_pieces import EncodedArray
from server.generation.runs import WireEvent
from server.outbound.chat.deltas import reasoning_detail
from server.schemas.chat import ALIAS, TEXT_DETAIL

_LAST_CHUNK_FIELDS = ("finish_reason", "token_ids")


def fold(chunks: Sequence[WireEvent]) -> dict[str, Any]:
    """The completion that results from joining all deltas. The last chunk has the usage."""
    choices: dict[int, _Choice] = {}
    shared: dict[str, Any] = {}
    for chunk in chunks:
        shared |= chunk
        for choice in chunk["choices"]:
            choices.setdefault(choice["index"], _Choice()).add(choice)
    ordered = [{"index": index, **choices[index].joined()} for index in sorted(choices)]
    return {**shared, "object": "chat.completion", "choices": ordered}


class _Choice:
    """Joins the deltas of one choice."""

    def __init__(self) -> None:
        self._content: list[str] = []
        self._annotations: list[dict[str, Any]] = []
        self._reasoning: list[str] = []
        self._details: list[dict[str, Any]] = []
        self._shows_text = False
        self._alias = False
        self._calls: dict[int, _Call] = {}
        self._legacy: _Call | None = None
        self._logprobs: EncodedArray | None = None
        self._last_chunk_fields: dict[str, Any] = {"finish_reason": None}

    def add(self, choice: dict[str, Any]) -> None:
        delta = choice["delta"]
        if (text := delta.get("content")) is not None:
            self._content.append(text)
        self._annotations += delta.get("annotations", ())
        if (text := delta.get("reasoning")) is not None:
            self._reasoning.append(text)
            self._alias = ALIAS in delta
        for detail in delta.get("reasoning_details", ()):
            # The text of the reasoning is one entry; all other entries are whole.
            if detail["type"] == TEXT_DETAIL:
                self._shows_text = True
            else:
                self._details.append(detail)
        for part in delta.get("tool_calls", ()):
            self._calls.setdefault(part["index"], _Call()).add(part)
        if (part := delta.get("function_call")) is not None:
            self._legacy = self._legacy or _Call()
            self._legacy.add({"function": part})
        if choice["logprobs"] is not None:
            self._logprobs = self._logprobs or EncodedArray()
            self._logprobs.add(choice["logprobs"]["content"])
        if choice["finish_reason"] is not None:
            self._last_chunk_fields = {
                key: choice[key] for key in _LAST_CHUNK_FIELDS if key in choice
            }

    def joined(self) -> dict[str, Any]:
        logprobs = self._logprobs
        return {
            "message": self._message(),
            "logprobs": None if logprobs is None else {"content": logprobs, "refusal": None},
            **self._last_chunk_fields,
        }

    def _message(self) -> dict[str, Any]:
        message: dict[str, Any] = {
            "role": "assistant",
            "content": "".join(self._content) if self._content else None,
            "refusal": None,
            "annotations": self._annotations,
        }
        details = list(self._details)
        if self._reasoning:
            text = "".join(self._reasoning)
            if self._shows_text:
                details.insert(0, reasoning_detail(text))
            message |= {"reasoning": text, ALIAS: text} if self._alias else {"reasoning": text}
        if details:
            message["reasoning_details"] = details
        if self._calls:
            message["tool_calls"] = [self._calls[index].joined() for index in sorted(self._calls)]
        if self._legacy is not None:
            message["function_call"] = self._legacy.joined()["function"]
        return message


class _Call:
    """Joins the deltas of one call: the first has its type and name, each adds to its body."""

    def __init__(self) -> None:
        self._first_delta: dict[str, Any] = {}
        self._text: list[str] = []

    def add(self, part: dict[str, Any]) -> None:
        self._first_delta = self._first_delta or part
        self._text.append(part[self._kind][self._body])

    def joined(self) -> dict[str, Any]:
        call = {key: value for key, value in self._first_delta.items() if key != "index"}
        body = {**call[self._kind], self._body: "".join(self._text)}
        return {**call, self._kind: body}

    @property
    def _kind(self) -> str:
        return "custom" if "custom" in self._first_delta else "function"

    @property
    def _body(self) -> str:
        return "input" if self._kind == "custom" else "arguments"
