"""What turns a run's turn events into one API's wire events."""

from typing import Protocol

from server.errors import APIError
from server.generation.runs import WireEvent
from server.generation.turn_events import TurnEvent


class Outbound(Protocol):
    """One answer's wire events, in order; its methods are pure but for the answer's own state.

    `start` is called once, `push` for each turn event, and if the run ends before its
    `TurnFinished`, `fail` or `cancel` once. Folding all events gives the final object.
    """

    def start(self) -> list[WireEvent]:
        """What can be said before the first token."""
        ...

    def push(self, event: TurnEvent) -> list[WireEvent]:
        """What a turn event says on the wire; on `TurnFinished` the terminal events."""
        ...

    def fail(self, error: APIError) -> list[WireEvent]:
        """Close what is open and tell the error."""
        ...

    def cancel(self) -> list[WireEvent]:
        """Close what is open: nobody wants the rest. Empty where the API has no words for it."""
        ...
