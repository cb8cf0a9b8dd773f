"""The deltas that add text to the fields of a chat message.

Source of `reasoning_details`: https://openrouter.ai/docs/use-cases/reasoning-tokens
"""

from typing import Any, Protocol

from server.generation.turn_events import SummaryWritten
from server.ids import new_call_id, new_id
from server.outbound.citations import CitedText, url_fields
from server.outbound.summary_parts import QUOTED_FIELD
from server.replay.joining import BETWEEN_MESSAGES
from server.schemas.chat import ALIAS, SEAL_DETAIL, SEAL_FORMAT, SUMMARY_DETAIL, TEXT_DETAIL

Delta = dict[str, Any]


class Field(Protocol):
    """A field of the message to which deltas add text."""

    def delta(self, text: str) -> Delta:
        """The delta that adds `text`."""
        ...


class JoinedText:
    """Separates the texts of several messages in one field.

    `has_text` becomes True with the first text.
    """

    def __init__(self) -> None:
        self.has_text = False
        self._separator = ""

    def next_message(self) -> None:
        """The next text belongs to another message."""
        self._separator = BETWEEN_MESSAGES if self.has_text else ""

    def push(self, text: str) -> str:
        """`text`, after a separator if it begins another message."""
        self.has_text = True
        if not self._separator:
            return text
        text, self._separator = self._separator + text, ""
        return text


class Content(JoinedText):
    """`content`: preambles and the answer.

    is_empty: whether no delta was made so far. annotations: those of all links so far.
    """

    def __init__(self) -> None:
        super().__init__()
        self.is_empty = True
        self.annotations: list[dict[str, Any]] = []

    def delta(self, text: str) -> Delta:
        self.is_empty = False
        return {"content": self.push(text)}

    def cited_delta(self, piece: CitedText) -> Delta:
        """The delta that adds a piece of rewritten text, which has its separator already."""
        self.is_empty = False
        if piece.citation is not None:
            fields = url_fields(piece.citation)
            self.annotations.append({"type": "url_citation", "url_citation": fields})
        return {"content": piece.text}


class Reasoning(JoinedText):
    """`reasoning`, repeated in `reasoning_details`, whose entries clients join by index.

    alias: repeat the text as `reasoning_content` too, which some clients read instead.
    """

    def __init__(self, *, alias: bool) -> None:
        super().__init__()
        self._alias = alias

    def delta(self, text: str) -> Delta:
        text = self.push(text)
        return self._delta(text, reasoning_detail(text))

    def summary_delta(self, part: SummaryWritten, index: int) -> Delta:
        """The delta with a part of a summary, where the summary is all that is shown.

        index: its position in `reasoning_details`.
        """
        self.next_message()
        return self._delta(self.push(part.text), summary_detail(part, index))

    def _delta(self, text: str, detail: dict[str, Any]) -> Delta:
        delta = {"reasoning": text, "reasoning_details": [detail]}
        return {**delta, ALIAS: text} if self._alias else delta


class ToolCall:
    """An entry of `tool_calls`: a function's JSON arguments, or a custom tool's free input."""

    def __init__(self, index: int, kind: str) -> None:
        self.id = new_call_id()
        self._index = index
        self._kind = kind
        self._body = "input" if kind == "custom" else "arguments"

    def first_delta(self, name: str) -> Delta:
        """The delta that begins the call, without arguments."""
        call = {
            "index": self._index,
            "id": self.id,
            "type": self._kind,
            self._kind: {"name": name, self._body: ""},
        }
        return {"tool_calls": [call]}

    def delta(self, text: str) -> Delta:
        return {"tool_calls": [{"index": self._index, self._kind: {self._body: text}}]}


class LegacyCall:
    """The deprecated `function_call`."""

    def first_delta(self, name: str) -> Delta:
        """The delta that begins the call, without arguments."""
        return {"function_call": {"name": name, "arguments": ""}}

    def delta(self, text: str) -> Delta:
        return {"function_call": {"arguments": text}}


def reasoning_detail(text: str) -> dict[str, Any]:
    """OpenRouter's entry for raw reasoning without a signature."""
    return {
        "type": TEXT_DETAIL,
        "text": text,
        "signature": None,
        "id": None,
        "format": "unknown",
        "index": 0,
    }


def summary_detail(part: SummaryWritten, index: int) -> dict[str, Any]:
    """OpenRouter's entry for a part of a summary. index: its position in `reasoning_details`."""
    detail = {
        "type": SUMMARY_DETAIL,
        "summary": part.text,
        "id": new_id("rs"),
        "format": "unknown",
        "index": index,
    }
    return {**detail, QUOTED_FIELD: True} if part.quotes else detail


def seal_detail(seal: str, index: int) -> dict[str, Any]:
    """OpenRouter's entry for sealed reasoning. index: its position in `reasoning_details`."""
    return {
        "type": SEAL_DETAIL,
        "data": seal,
        "id": new_id("rs"),
        "format": SEAL_FORMAT,
        "index": index,
    }
