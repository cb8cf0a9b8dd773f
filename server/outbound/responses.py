"""Turn events -> the events of the Responses API, numbered from 0.

Source: the Open Responses specification (2026-04-24) and
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
    """One response.

    created: the response object as it stands before the first token. hide_reasoning: raw chain of
    thought stays in `messages_by_item_id` alone. show_ids: the last event has the prompt's and the
    sampled ids (`prompt_token_ids`, `token_ids`: an extension). seal: makes the
    `encrypted_content` of reasoning, None for none. now: Unix time in seconds.
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
        """What the model said, by the id of the item that shows it."""
        self._created = created
        self._plan = plan
        self._hide_reasoning = hide_reasoning
        self._show_ids = show_ids
        self._seal = seal
        self._now = now
        self._open: OutputItem | None = None
        self._closed: list[WireEvent] = []
        self._sequence_number = 0

    def start(self) -> list[WireEvent]:
        """The response was created, and is in progress or queued."""
        return self._number(
            [
                {"type": "response.created", "response": self._created},
                {"type": f"response.{self._created['status']}", "response": self._created},
            ]
        )

    def push(self, event: TurnEvent) -> list[WireEvent]:
        """An item's events, or the response's last one. The first ends the waiting in a queue."""
        told = self._told(event)
        if self._created["status"] == "queued":
            told = [self._leave_queue(), *told]
        return self._number(told)

    def fail(self, error: APIError) -> list[WireEvent]:
        """The open item ends incomplete; an `error` event, then `response.failed`."""
        failure = {"code": _failure_code(error), "message": error.message}
        return self._number(
            [
                *self._close_item("incomplete"),
                error_event(error),
                self._ended("response.failed", status="failed", error=failure),
            ]
        )

    def cancel(self) -> list[WireEvent]:
        """The open item ends incomplete, the response `cancelled`.

        The API has no event of its own for that: the last one is `response.incomplete`.
        """
        return self._number(
            [
                *self._close_item("incomplete"),
                self._ended("response.incomplete", status="cancelled"),
            ]
        )

    def _leave_queue(self) -> WireEvent:
        self._created = {**self._created, "status": "in_progress"}
        return {"type": "response.in_progress", "response": self._created}

    def _told(self, event: TurnEvent) -> list[WireEvent]:
        match event:
            case TextDelta():
                assert self._open is not None
                return self._open.delta(event.text, event.logprobs)
            case MessageStarted():
                return self._open_item(event)
            case MessageClosed():
                return self._close_message(event)
            case TurnFinished():
                return self._finish(event)

    def _open_item(self, event: MessageStarted) -> list[WireEvent]:
        header = event.header
        tool = None if header.recipient is None else self._plan.tool(header.recipient)
        self._open = output_item(
            len(self._closed), header, tool, hide_reasoning=self._hide_reasoning
        )
        return self._open.open()

    def _close_message(self, event: MessageClosed) -> list[WireEvent]:
        assert self._open is not None
        self.messages_by_item_id[self._open.id] = event.message
        events = self._close_item("completed" if event.complete else "incomplete")
        if self._seal is not None and events[-1]["item"]["type"] == "reasoning":
            events[-1]["item"]["encrypted_content"] = self._seal(event.message)
        return events

    def _close_item(self, status: Status) -> list[WireEvent]:
        if self._open is None:
            return []
        events = self._open.close(status)
        self._open = None
        self._closed.append(events[-1])
        return events

    def _finish(self, event: TurnFinished) -> list[WireEvent]:
        told: dict[str, Any] = {"usage": _usage(event.usage)}
        if self._show_ids:
            told |= {"prompt_token_ids": event.prompt_token_ids, "token_ids": event.token_ids}
        if event.reason == "length":
            details = {"reason": "max_output_tokens"}
            ended = self._ended(
                "response.incomplete", status="incomplete", incomplete_details=details, **told
            )
        else:
            at = int(self._now())
            ended = self._ended("response.completed", status="completed", completed_at=at, **told)
        return [ended]

    def _ended(self, kind: str, **fields: Any) -> WireEvent:
        ended = {"type": kind, "response": {**self._created, **fields}}
        return {"type": kind, "response": fold([*self._closed, ended])}

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
    """One of the codes that the SDK's `ResponseError` allows."""
    if isinstance(error, RateLimited):
        return "rate_limit_exceeded"
    return "invalid_prompt" if isinstance(error, InvalidRequest) else "server_error"
