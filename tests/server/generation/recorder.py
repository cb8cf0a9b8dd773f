"""An outbound that records an answer."""

from typing import Any

from harmony.messages import Channel
from server.errors import APIError
from server.generation.runs import WireEvent
from server.generation.turn_events import MessageClosed, TurnEvent, TurnFinished


class Recorder:
    """Records the turn events. The type of its wire events is what happened."""

    open_item_id: str | None = None

    def __init__(self) -> None:
        self.events: list[TurnEvent] = []

    def start(self) -> list[WireEvent]:
        return [{"type": "started"}]

    def push(self, event: TurnEvent) -> list[WireEvent]:
        self.events.append(event)
        return [{"type": type(event).__name__}]

    def fail(self, error: APIError) -> list[WireEvent]:
        return [{"type": "failed"}]

    def cancel(self) -> list[WireEvent]:
        return [{"type": "cancelled"}]

    def of(self, *kinds: type) -> list[Any]:
        """The events of these types."""
        return [event for event in self.events if isinstance(event, kinds)]

    @property
    def finished(self) -> TurnFinished:
        """The last event, of an answer that neither failed nor was cancelled."""
        (last,) = self.of(TurnFinished)
        assert isinstance(last, TurnFinished)
        return last

    @property
    def text(self) -> str:
        """The text of the final message."""
        closed = self.of(MessageClosed)
        return "".join(
            str(each.message.content) for each in closed if each.header.channel == Channel.FINAL
        )
