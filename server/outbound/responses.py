"""Convert turn events to events of the Responses API, numbered from 0.

Sources: the Open Responses specification (2026-04-24) and
https://platform.openai.com/docs/api-reference/responses-streaming
"""

import time
from collections.abc import Callable
from typing import Any

from harmony.events import MessageStarted
from harmony.messages import Message
from server.errors import APIError, InvalidRequest, RateLimited
from server.generation.plan import TurnPlan
from server.generation.runs import WireEvent
from server.generation.turn_events import (
    MessageClosed,
    TextDelta,
    TurnEvent,
    TurnFinished,
    Usage,
)
from server.outbound.failure import error_event
from server.outbound.fold import fold
from server.outbound.items import OutputItem, Status, output_item


class ResponsesOutbound:
    """Makes the events of one response; implements `server.generation.outbound_protocol.Outbound`.

    created: the response object before its first token.
    plan: the compiled request.
    hide_reasoning: leave the raw chain of thought out of all events. It is still in
    `messages_by_item_id`.
    show_ids: add the prompt's token ids and the sampled ones to the last event (`prompt_token_ids`
    and `token_ids`, an extension of the API).
    seal: encrypts a reasoning message for `encrypted_content`. With None, items have no such field.
    now: the current Unix time in seconds.
    """

    def __init__(
        self,
        created: dict[str, Any],
        plan: TurnPlan,
        *,
        hide_reasoning: bool = False,
        show_ids: bool = False,
        seal: Callable[[Message], str] | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.messages_by_item_id: dict[str, Message] = {}
        """The model's messages, by the id of the item that shows each."""
        self._created = created
        self._plan = plan
        self._hide_reasoning = hide_reasoning
        self._show_ids = show_ids
        self._seal = seal
        self._now = now
        self._open_item: OutputItem | None = None
        self._done_events: list[WireEvent] = []
        self._sequence_number = 0

    def start(self) -> list[WireEvent]:
        """`response.created`, then `response.in_progress` or `response.queued`."""
        return self._number(
            [
                {"type": "response.created", "response": self._created},
                {"type": f"response.{self._created['status']}", "response": self._created},
            ]
        )

    def push(self, event: TurnEvent) -> list[WireEvent]:
        """An item's events, or the response's last event. The first call ends `queued`."""
        events = self._events(event)
        if self._created["status"] == "queued":
            events = [self._leave_queue(), *events]
        return self._number(events)

    def fail(self, error: APIError) -> list[WireEvent]:
        """End the open item as incomplete, then send `error` and `response.failed`."""
        failure = {"code": _failure_code(error), "message": error.message}
        return self._number(
            [
                *self._close_item("incomplete"),
                error_event(error),
                self._terminal_event("response.failed", status="failed", error=failure),
            ]
        )

    def cancel(self) -> list[WireEvent]:
        """End the open item as incomplete and the response as `cancelled`.

        The API has no event for cancellation, so the last event is `response.incomplete`.
        """
        return self._number(
            [
                *self._close_item("incomplete"),
                self._terminal_event("response.incomplete", status="cancelled"),
            ]
        )

    def _leave_queue(self) -> WireEvent:
        self._created = {**self._created, "status": "in_progress"}
        return {"type": "response.in_progress", "response": self._created}

    def _events(self, event: TurnEvent) -> list[WireEvent]:
        match event:
            case TextDelta():
                assert self._open_item is not None
                return self._open_item.delta(event.text, event.logprobs)
            case MessageStarted():
                return self._begin_item(event)
            case MessageClosed():
                return self._close_message(event)
            case TurnFinished():
                return self._finish(event)

    def _begin_item(self, event: MessageStarted) -> list[WireEvent]:
        header = event.header
        tool = None if header.recipient is None else self._plan.tool(header.recipient)
        self._open_item = output_item(
            len(self._done_events), header, tool, hide_reasoning=self._hide_reasoning
        )
        return self._open_item.open()

    def _close_message(self, event: MessageClosed) -> list[WireEvent]:
        assert self._open_item is not None
        self.messages_by_item_id[self._open_item.id] = event.message
        events = self._close_item("completed" if event.complete else "incomplete")
        if self._seal is not None and events[-1]["item"]["type"] == "reasoning":
            events[-1]["item"]["encrypted_content"] = self._seal(event.message)
        return events

    def _close_item(self, status: Status) -> list[WireEvent]:
        if self._open_item is None:
            return []
        events = self._open_item.close(status)
        self._open_item = None
        self._done_events.append(events[-1])
        return events

    def _finish(self, event: TurnFinished) -> list[WireEvent]:
        fields: dict[str, Any] = {"usage": _usage(event.usage)}
        if self._show_ids:
            fields |= {"prompt_token_ids": event.prompt_token_ids, "token_ids": event.token_ids}
        if event.reason == "length":
            details = {"reason": "max_output_tokens"}
            terminal = self._terminal_event(
                "response.incomplete", status="incomplete", incomplete_details=details, **fields
            )
        else:
            completed_at = int(self._now())
            terminal = self._terminal_event(
                "response.completed", status="completed", completed_at=completed_at, **fields
            )
        return [terminal]

    def _terminal_event(self, kind: str, **fields: Any) -> WireEvent:
        ended = {"type": kind, "response": {**self._created, **fields}}
        return {"type": kind, "response": fold([*self._done_events, ended])}

    def _number(self, events: list[WireEvent]) -> list[WireEvent]:
        for event in events:
            event["sequence_number"] = self._sequence_number
            self._sequence_number += 1
        return events


def _usage(usage: Usage) -> dict[str, Any]:
    return {
        "input_tokens": usage.input,
        "input_tokens_details": {"cached_tokens": usage.cached, "cache_write_tokens": 0},
        "output_tokens": usage.output,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning},
        "total_tokens": usage.input + usage.output,
    }


def _failure_code(error: APIError) -> str:
    """The code for the error, among those that the SDK's `ResponseError` allows."""
    if isinstance(error, RateLimited):
        return "rate_limit_exceeded"
    return "invalid_prompt" if isinstance(error, InvalidRequest) else "server_error"
