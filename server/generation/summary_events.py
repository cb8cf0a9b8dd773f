"""Adds the summaries of reasoning to the events of an answer's turns."""

from collections.abc import AsyncGenerator, Sequence

from harmony.events import Header, MessageStarted
from harmony.messages import Channel, DeveloperContent, Message, Role
from server.generation.plan import TurnPlan
from server.generation.turn_events import (
    MessageClosed,
    SummaryTotals,
    SummaryWritten,
    TextDelta,
    TurnEvent,
)
from server.summaries.base import SummaryPart
from server.summaries.sources import Sources
from server.summaries.writer import LatePart, SummaryWriter


class SummaryEvents:
    """Gives the text of reasoning to a writer, and its parts to the answer."""

    def __init__(self, writer: SummaryWriter) -> None:
        self._writer = writer
        self._is_open = False

    async def add_to(
        self, events: Sequence[TurnEvent], tokens: int
    ) -> AsyncGenerator[list[TurnEvent], None]:
        """The events of a chunk with the parts that are written, in batches.

        Before the end of a reasoning message it waits for the message's last parts, as long as the
        patience of the answer lasts. tokens: those of the chunk.
        """
        batch: list[TurnEvent] = []
        for event in events:
            match event:
                case TextDelta() if self._is_open:
                    self._writer.add(event.text)
                case MessageStarted(header=header):
                    self._is_open = _is_reasoning(header)
                    if self._is_open:
                        self._writer.begin()
                case MessageClosed() if self._is_open:
                    self._is_open = False
                    if batch:
                        # These events do not wait.
                        yield batch
                    batch = [*map(self._event, await self._writer.end(event.body_tokens))]
            batch.append(event)
        if self._is_open:
            self._writer.count(tokens)
            batch += map(self._event, self._writer.take())
        if batch:
            yield batch

    def protect(self, text: str) -> None:
        """The result of a call, which no part may quote."""
        self._writer.sources.add(text)

    @property
    def totals(self) -> SummaryTotals | None:
        """What a model did for the summaries; None for summaries without a model."""
        if self._writer.quotes:
            return None
        return SummaryTotals(self._writer.usage, dict(self._writer.counts))

    def close(self) -> None:
        """Cancel what is being written."""
        self._writer.close()

    def _event(self, part: SummaryPart | LatePart) -> SummaryWritten:
        if isinstance(part, LatePart):
            return SummaryWritten("", complete=False, quotes=self._writer.quotes)
        return SummaryWritten(part.text, quotes=self._writer.quotes)


def protected_texts(plan: TurnPlan) -> Sources:
    """The instructions and the results of tools in the plan's conversation."""
    return Sources(
        text for message in plan.conversation.messages if (text := _protected_text(message))
    )


def _protected_text(message: Message) -> str | None:
    match message.content:
        case DeveloperContent(instructions):
            return instructions
        case str() as text if message.author.role is Role.TOOL:
            return text
    return None


def _is_reasoning(header: Header) -> bool:
    return header.channel is Channel.ANALYSIS and header.recipient is None
