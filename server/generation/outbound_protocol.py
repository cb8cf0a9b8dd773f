"""The interface of what turns turn events into the wire events of an API."""

from typing import Protocol

from server.errors import APIError
from server.generation.runs import WireEvent
from server.generation.turn_events import TurnEvent


class Outbound(Protocol):
    """One answer's wire events, in order. Its methods change nothing but the answer's own state.

    `start` is called once, then `push` for each turn event. If the run ends before
    `TurnFinished`, `fail` or `cancel` is called once. Folding all events gives the final object.
    """

    @property
    def open_item_id(self) -> str | None:
        """The id of the item that is open; None if none is, or if the API has no items."""
        ...

    def start(self) -> list[WireEvent]:
        """The events before the first token."""
        ...

    def push(self, event: TurnEvent) -> list[WireEvent]:
        """The wire events of a turn event; for `TurnFinished` the terminal events."""
        ...

    def fail(self, error: APIError) -> list[WireEvent]:
        """Close open items, and report the error."""
        ...

    def cancel(self) -> list[WireEvent]:
        """Close open items of a cancelled answer. Empty if the API has no events for this."""
        ...
