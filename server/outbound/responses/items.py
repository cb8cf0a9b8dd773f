"""The output items of a response in progress: each collects its text and makes its events."""

from collections.abc import Sequence
from typing import Any, Protocol

import orjson

from adapters.base import TokenLogprobs
from harmony.events import Header
from harmony.messages import Channel
from server.encoding.json_pieces import EncodedArray
from server.generation.plan import DeclaredTool
from server.generation.runs import WireEvent
from server.generation.turn_events import SummaryWritten
from server.ids import new_call_id, new_id
from server.outbound.citations import CitationRewriter, CitedText, url_fields
from server.outbound.logprobs import logprob_entries
from server.outbound.responses.file_citations import file_citations
from server.outbound.responses.item_events import TEXT_FIELDS, added, closing_events
from server.outbound.summary_parts import SummaryParts
from server.schemas.items import ItemStatus
from server.tools.base import CreatedFile

FINAL_ANSWER = "final_answer"
"""The phase of a message in the final channel."""


class OutputItem(Protocol):
    """An open item. Call `open` once, `delta` for each piece of text, and `close` once."""

    @property
    def id(self) -> str:
        """The item's id, which is the same in all of its events."""
        ...

    def open(self) -> list[WireEvent]:
        """The events that begin the item."""
        ...

    def delta(self, text: str, logprobs: Sequence[TokenLogprobs]) -> list[WireEvent]:
        """The events that add text."""
        ...

    def close(self, status: ItemStatus) -> list[WireEvent]:
        """The events that end the item; `response.output_item.done` has the whole item."""
        ...


class TextItem:
    """A message with one `output_text` part, whose text may be empty. It cites `files`.

    Only an answer shows logprobs: they are those of the final channel, as in Chat.
    """

    def __init__(self, index: int, phase: str, files: Sequence[CreatedFile]) -> None:
        self.id = new_id("msg")
        self._files = files
        self._index = index
        self._phase = phase
        self._position = {"item_id": self.id, "output_index": index, "content_index": 0}
        self._text: list[str] = []
        self._logprobs = EncodedArray()
        self._annotations: list[dict[str, Any]] = []

    def open(self) -> list[WireEvent]:
        """The events that add the message without content and its part without text."""
        return [
            added(self._index, self._item("in_progress", [])),
            {"type": "response.content_part.added", **self._position, "part": self._part()},
        ]

    def delta(self, text: str, logprobs: Sequence[TokenLogprobs]) -> list[WireEvent]:
        """One event with the text."""
        self._text.append(text)
        new_logprobs: list[orjson.Fragment] = []
        if logprobs and self._phase == FINAL_ANSWER:
            new_logprobs = logprob_entries(logprobs)
            self._logprobs.add(new_logprobs)
        return [
            {
                "type": "response.output_text.delta",
                **self._position,
                "delta": text,
                "logprobs": new_logprobs,
            }
        ]

    def close(self, status: ItemStatus) -> list[WireEvent]:
        """The events with the citations of files, and those with the whole text, part and
        message."""
        annotations = file_citations("".join(self._text), self._files)
        events = [self._annotate(annotation) for annotation in annotations]
        return [*events, *closing_events(self._index, self._item(status, [self._part()]))]

    def _annotate(self, annotation: dict[str, Any]) -> WireEvent:
        self._annotations.append(annotation)
        return {
            "type": "response.output_text.annotation.added",
            **self._position,
            "annotation_index": len(self._annotations) - 1,
            "annotation": annotation,
        }

    def _part(self) -> dict[str, Any]:
        return {
            "type": "output_text",
            "text": "".join(self._text),
            "annotations": list(self._annotations),
            "logprobs": self._logprobs or [],
        }

    def _item(self, status: ItemStatus, content: list[dict[str, Any]]) -> dict[str, Any]:
        return {
            "type": "message",
            "id": self.id,
            "status": status,
            "role": "assistant",
            "content": content,
            "phase": self._phase,
        }


class CitedTextItem(TextItem):
    """A message whose citation markers are rewritten.

    citations: rewrites those of this message.
    """

    def __init__(
        self, index: int, phase: str, files: Sequence[CreatedFile], citations: CitationRewriter
    ) -> None:
        super().__init__(index, phase, files)
        self._citations = citations

    def delta(self, text: str, logprobs: Sequence[TokenLogprobs]) -> list[WireEvent]:
        """One event for each link and the text around it."""
        if self._citations.add_plain(text):
            return super().delta(text, logprobs)
        return self._cited(self._citations.push(text, logprobs))

    def close(self, status: ItemStatus) -> list[WireEvent]:
        """The events with withheld text, then those of any message."""
        return [*self._cited(self._citations.finish()), *super().close(status)]

    def _cited(self, pieces: Sequence[CitedText]) -> list[WireEvent]:
        """The events of pieces of text."""
        events: list[WireEvent] = []
        for piece in pieces:
            events += super().delta(piece.text, piece.logprobs)
            if piece.citation is not None:
                annotation = {"type": "url_citation", **url_fields(piece.citation)}
                events.append(self._annotate(annotation))
        return events


class ReasoningItem:
    """Raw chain of thought, and its summary.

    The first text adds its part, so reasoning without text has none. The parts of the summary come
    while the text does.
    """

    def __init__(self, index: int) -> None:
        self.id = new_id("rs")
        self._index = index
        self._summary = SummaryParts()
        self._position = {"item_id": self.id, "output_index": index, "content_index": 0}
        self._text: list[str] = []

    def open(self) -> list[WireEvent]:
        """The event that adds the item without content."""
        return [added(self._index, self._item("in_progress", []))]

    def delta(self, text: str, logprobs: Sequence[TokenLogprobs]) -> list[WireEvent]:
        """One event with the text; the first text is preceded by the event that adds the part."""
        events: list[WireEvent] = []
        if not self._text:
            part = {"type": "reasoning_text", "text": ""}
            events.append({"type": "response.content_part.added", **self._position, "part": part})
        self._text.append(text)
        events.append({"type": "response.reasoning_text.delta", **self._position, "delta": text})
        return events

    def close(self, status: ItemStatus) -> list[WireEvent]:
        """The events with the whole text, part and item."""
        part = {"type": "reasoning_text", "text": "".join(self._text)}
        return closing_events(self._index, self._item(status, [part] if self._text else []))

    def add_summary(self, part: SummaryWritten) -> list[WireEvent]:
        """The events of a part of the summary."""
        return self._summary.add(part, self.id, self._index)

    def _item(self, status: ItemStatus, content: list[dict[str, Any]]) -> dict[str, Any]:
        return {
            "type": "reasoning",
            "id": self.id,
            "status": status,
            **self._summary.fields(),
            "content": content,
        }


class HiddenReasoningItem(ReasoningItem):
    """Reasoning whose text is not shown."""

    def delta(self, text: str, logprobs: Sequence[TokenLogprobs]) -> list[WireEvent]:
        """No events."""
        return []


class CallItem:
    """A call of a function (JSON `arguments`) or of a custom tool (`input` as free text)."""

    def __init__(self, index: int, tool: DeclaredTool) -> None:
        custom = tool.kind == "custom"
        self.id = new_id("ctc" if custom else "fc")
        self._index = index
        self._tool = tool
        self._call_id = new_call_id()
        self._kind = "custom_tool_call" if custom else "function_call"
        self._text_field = TEXT_FIELDS[self._kind]
        self._position = {"item_id": self.id, "output_index": index}
        self._text: list[str] = []

    def open(self) -> list[WireEvent]:
        """The event that adds the call without arguments."""
        return [added(self._index, self._item("in_progress"))]

    def delta(self, text: str, logprobs: Sequence[TokenLogprobs]) -> list[WireEvent]:
        """One event with the text."""
        self._text.append(text)
        kind = f"response.{self._kind}_{self._text_field}.delta"
        return [{"type": kind, **self._position, "delta": text}]

    def close(self, status: ItemStatus) -> list[WireEvent]:
        """The events with the whole arguments and call."""
        return closing_events(self._index, self._item(status))

    def _item(self, status: ItemStatus) -> dict[str, Any]:
        item = {
            "type": self._kind,
            "id": self.id,
            "status": status,
            "call_id": self._call_id,
            "name": self._tool.name,
            self._text_field: "".join(self._text),
        }
        return item if self._tool.namespace is None else item | {"namespace": self._tool.namespace}


def output_item(
    index: int,
    header: Header,
    tool: DeclaredTool | None,
    *,
    hide_reasoning: bool,
    files: Sequence[CreatedFile],
    citations: CitationRewriter | None,
) -> OutputItem:
    """The item for a message with this header.

    A message with a recipient is a call, in any channel.

    index: the item's `output_index`.
    header: the message's header.
    tool: the recipient's tool; None for a message without recipient.
    hide_reasoning: leave out the text of reasoning.
    files: the files that hosted calls wrote, which a final message cites.
    citations: rewrites the citation markers of a message; None where nothing is cited.
    """
    if tool is not None:
        return CallItem(index, tool)
    if header.channel is Channel.ANALYSIS:
        return HiddenReasoningItem(index) if hide_reasoning else ReasoningItem(index)
    is_final = header.channel is Channel.FINAL
    phase = FINAL_ANSWER if is_final else "commentary"
    cited = files if is_final else ()
    if citations is None:
        return TextItem(index, phase, cited)
    return CitedTextItem(index, phase, cited, citations)
