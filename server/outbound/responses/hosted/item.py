"""What the items of hosted calls have in common."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

from adapters.base import TokenLogprobs
from server.generation.runs import WireEvent
from server.outbound.responses.item_events import TEXT_FIELDS, added, done
from server.schemas.items import ItemStatus
from server.tools.base import ItemType, ToolResult

HostedStatus = Literal["in_progress", "completed", "incomplete", "failed"]

Include = frozenset[str]
"""The request's `include` values."""


class HostedItem(ABC):
    """The item of a hosted call.

    Call `open` once, `delta` for each piece of the call's text, and `sampled` after the last. Then
    call `begin` when the tool starts, `progress` for each of its events, and `end` with the result;
    or only `end` for a call that did not run; or `close` for one that has no result.

    id: the item's id. index: its `output_index`. fields: fields that are known before the call
    runs. include: the request's `include` values. The text is streamed if TEXT_FIELDS has the type.
    """

    type: ClassVar[ItemType]
    id_prefix: ClassVar[str]

    def __init__(
        self, item_id: str, index: int, fields: Mapping[str, Any], include: Include
    ) -> None:
        self.id = item_id
        self._index = index
        self._fields = dict(fields)
        self._include = include
        self._text_field = TEXT_FIELDS.get(self.type)
        self._text: list[str] = []

    def open(self) -> list[WireEvent]:
        """The events that begin the item."""
        return [added(self._index, self._item("in_progress")), self._event("in_progress")]

    def delta(self, text: str, logprobs: Sequence[TokenLogprobs]) -> list[WireEvent]:
        """The events that add text to the call."""
        self._text.append(text)
        if self._text_field is None:
            return []
        return [self._event("delta", f"_{self._text_field}", delta=text)]

    def sampled(self) -> list[WireEvent]:
        """The events after the last text of the call."""
        field = self._text_field
        return (
            [] if field is None else [self._event("done", f"_{field}", **{field: self._whole_text})]
        )

    def begin(self) -> list[WireEvent]:
        """The events when the tool starts."""
        return []

    def progress(self, fields: Mapping[str, Any]) -> list[WireEvent]:
        """The events for fields that are known now."""
        self._fields |= fields
        return []

    def end(self, result: ToolResult, *, ran: bool) -> list[WireEvent]:
        """The events with the result. ran: False if a limit refused the call."""
        self._fields |= self._result_fields(result, ran=ran)
        if not ran:
            return self._done("incomplete")
        status: HostedStatus = "failed" if result.failed else "completed"
        return [*self._result_events(status), *self._done(status)]

    def close(self, status: ItemStatus) -> list[WireEvent]:
        """The events that end an item whose call has no result. It is never completed."""
        return self._done("incomplete")

    @abstractmethod
    def _body(self, status: HostedStatus) -> dict[str, Any]:
        """The item's own fields."""

    def _result_fields(self, result: ToolResult, *, ran: bool) -> Mapping[str, Any]:
        return result.fields

    def _result_events(self, status: HostedStatus) -> list[WireEvent]:
        return [self._event("completed")] if status == "completed" else []

    def _item(self, status: HostedStatus) -> dict[str, Any]:
        return {"type": self.type, "id": self.id, "status": status, **self._body(status)}

    def _done(self, status: HostedStatus) -> list[WireEvent]:
        return [done(self._index, self._item(status))]

    def _event(self, name: str, part: str = "", **fields: Any) -> WireEvent:
        position = {"item_id": self.id, "output_index": self._index}
        return {"type": f"response.{self.type}{part}.{name}", **position, **fields}

    @property
    def _whole_text(self) -> str:
        return "".join(self._text)
