"""The deltas of a chat message's fields: what a piece of text adds to which field.

Source of `reasoning_details`: https://openrouter.ai/docs/use-cases/reasoning-tokens
"""

from typing import Any, Protocol

from server.ids import new_id
from server.replay.joining import BETWEEN_MESSAGES
from server.schemas.chat import ALIAS, SEAL_FORMAT

Delta = dict[str, Any]


class Field(Protocol):
    """A field that text is added to."""

    def delta(self, text: str) -> Delta:
        """The delta that adds `text`."""
        ...


class Joined:
    """Text of one or more messages, set apart. `said` turns True with the first text."""

    def __init__(self) -> None:
        self.said = False
        self._gap = ""

    def next_message(self) -> None:
        """What follows is another message's."""
        self._gap = BETWEEN_MESSAGES if self.said else ""

    def push(self, text: str) -> str:
        """`text`, after the gap where one is due."""
        text, self._gap, self.said = self._gap + text, "", True
        return text


class Content(Joined):
    """`content`: preambles and the answer."""

    def delta(self, text: str) -> Delta:
        return {"content": self.push(text)}


class Reasoning(Joined):
    """`reasoning`, and the same again as `reasoning_details`; readers join these by index.

    alias: and once more as `reasoning_content`, the name that some clients know it by.
    """

    def __init__(self, *, alias: bool = False) -> None:
        super().__init__()
        self._alias = alias

    def delta(self, text: str) -> Delta:
        text = self.push(text)
        delta = {"reasoning": text, "reasoning_details": [reasoning_detail(text)]}
        return {**delta, ALIAS: text} if self._alias else delta


class ToolCall:
    """An entry of `tool_calls`: a function's JSON arguments, or a custom tool's free input."""

    def __init__(self, index: int, kind: str) -> None:
        self.id = new_id("call")
        self._index = index
        self._kind = kind
        self._body = "input" if kind == "custom" else "arguments"

    def opened(self, name: str) -> Delta:
        """The call before its arguments."""
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

    def opened(self, name: str) -> Delta:
        """The call before its arguments."""
        return {"function_call": {"name": name, "arguments": ""}}

    def delta(self, text: str) -> Delta:
        return {"function_call": {"arguments": text}}


def reasoning_detail(text: str) -> dict[str, Any]:
    """OpenRouter's entry for raw reasoning of a model that does not sign it."""
    return {
        "type": "reasoning.text",
        "text": text,
        "signature": None,
        "id": None,
        "format": "unknown",
        "index": 0,
    }


def seal_detail(seal: str, index: int) -> dict[str, Any]:
    """OpenRouter's entry for sealed reasoning. index: its place among all details."""
    return {
        "type": "reasoning.encrypted",
        "data": seal,
        "id": new_id("rs"),
        "format": SEAL_FORMAT,
        "index": index,
    }
