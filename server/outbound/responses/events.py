"""Convert turn events to events of the Responses API, numbered from 0.

Sources: the Open Responses specification (2026-04-24) and
https://platform.openai.com/docs/api-reference/responses-streaming
"""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from harmony.events import MessageStarted
from harmony.messages import Message
from server.errors import APIError, InvalidRequest, RateLimited
from server.generation.plan import DeclaredTool, TurnPlan
from server.generation.runs import WireEvent
from server.generation.turn_events import (
    CallEnded,
    CallEvent,
    CallStarted,
    MessageClosed,
    SummaryWritten,
    TextDelta,
    TurnEvent,
    TurnFinished,
    Usage,
)
from server.outbound.citations import CitationRewriter
from server.outbound.hosted_usage import CallCounter
from server.outbound.responses.failure import error_event
from server.outbound.responses.fold import fold
from server.outbound.responses.hosted.item import HostedItem, Include
from server.outbound.responses.hosted.kinds import hosted_item
from server.outbound.responses.hosted.mcp import UnapprovedItem, approval_events, opening_events
from server.outbound.responses.items import OutputItem, ReasoningItem, output_item
from server.outbound.responses.record import record_fields
from server.outbound.usage import summary_usage
from server.schemas.items import ItemStatus
from server.schemas.responses import RECORD
from server.store.items import StoredItem
from server.tools.base import ApprovalRequested, CreatedFile, ToolCall, ToolProgress


class ResponsesOutbound:
    """Makes the events of one response; implements `server.generation.outbound_protocol.Outbound`.

    created: the response object before its first token.
    plan: the compiled request.
    hide_reasoning: leave the raw chain of thought out of all events. It is still in
    `messages_by_item_id`.
    show_ids: add the prompt's token ids and the sampled ones to the last event (`prompt_token_ids`
    and `token_ids`, an extension of the API).
    seal: encrypts a reasoning message for `encrypted_content`. With None, items have no such field.
    include: the request's `include` values, which hosted calls need.
    rewriter: makes what rewrites the citation markers of one message; None leaves them as they are.
    opening: complete items that the answer begins with.
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
        include: Include = frozenset(),
        rewriter: Callable[[], CitationRewriter] | None = None,
        opening: Sequence[Mapping[str, Any]] = (),
        now: Callable[[], float] = time.time,
    ) -> None:
        self.messages_by_item_id: dict[str, Message] = {}
        """The model's messages, by the id of the item that shows each."""
        self.results_by_item_id: dict[str, Message] = {}
        """The results of hosted calls, by the id of the item that shows each."""
        self._created = created
        self._is_queued = created["status"] == "queued"
        self._plan = plan
        self._hide_reasoning = hide_reasoning
        self._show_ids = show_ids
        self._seal = seal
        self._include = include
        self._now = now
        self._open_item: OutputItem | None = None
        self._files: list[CreatedFile] = []
        self._rewriter = rewriter
        self._opening_items = opening
        self._citations: list[CitationRewriter] = []
        self._calls = CallCounter(plan)
        self._done_events: list[WireEvent] = []
        self._sequence_number = 0

    @property
    def open_item_id(self) -> str | None:
        """The id of the item that is open; None if none is."""
        return None if self._open_item is None else self._open_item.id

    @property
    def hosted_calls(self) -> list[StoredItem]:
        """The calls of hosted tools that have ended, with their results."""
        messages, results = self.messages_by_item_id, self.results_by_item_id
        items = (event["item"] for event in self._done_events)
        return [
            StoredItem(item, messages.get(item["id"]), results[item["id"]])
            for item in items
            if item["id"] in results
        ]

    @property
    def dropped_citations(self) -> int:
        """How many citation markers had no source, and were left out."""
        return sum(citations.dropped for citations in self._citations)

    def start(self) -> list[WireEvent]:
        """`response.created`, then `response.in_progress` or `response.queued`.

        Items that the answer begins with follow `response.in_progress`.
        """
        status = self._created["status"]
        events: list[WireEvent] = [
            {"type": "response.created", "response": self._created},
            {"type": f"response.{status}", "response": self._created},
        ]
        return self._number(events if self._is_queued else [*events, *self._opening()])

    def push(self, event: TurnEvent) -> list[WireEvent]:
        """An item's events, or the response's last event. The first call ends `queued`."""
        if self._is_queued:
            first = [self._leave_queue(), *self._opening()]
            return self._number([*first, *self._events(event)])
        return self._number(self._events(event))

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
        self._is_queued = False
        self._created = {**self._created, "status": "in_progress"}
        return {"type": "response.in_progress", "response": self._created}

    def _opening(self) -> list[WireEvent]:
        """The events of the items that the answer begins with."""
        events: list[WireEvent] = []
        for item in self._opening_items:
            events += opening_events(len(self._done_events), item)
            self._done_events.append(events[-1])
        return events

    def _events(self, event: TurnEvent) -> list[WireEvent]:
        match event:
            case TextDelta():
                assert self._open_item is not None
                return self._open_item.delta(event.text, event.logprobs)
            case MessageStarted():
                return self._begin_item(event)
            case SummaryWritten():
                assert isinstance(self._open_item, ReasoningItem)
                return self._open_item.add_summary(event)
            case MessageClosed():
                return self._close_message(event)
            case TurnFinished():
                return [*self._close_item("incomplete"), *self._finish(event)]
            case _:
                return self._call_events(event)

    def _begin_item(self, event: MessageStarted) -> list[WireEvent]:
        # A hosted call that was not the last message of its turn does not run.
        ended = self._close_item("incomplete")
        header = event.header
        index = len(self._done_events)
        tool = None if header.recipient is None else self._plan.tool(header.recipient)
        if tool is not None and tool.hosted is not None:
            self._open_item = hosted_item(index, tool, self._include)
        else:
            self._open_item = output_item(
                index,
                header,
                tool,
                hide_reasoning=self._hide_reasoning,
                files=self._files,
                citations=self._message_citations(),
            )
        return [*ended, *self._open_item.open()]

    def _message_citations(self) -> CitationRewriter | None:
        if self._rewriter is None:
            return None
        self._citations.append(self._rewriter())
        return self._citations[-1]

    def _call_events(self, event: CallEvent) -> list[WireEvent]:
        match event:
            case CallStarted(call, tool):
                return self._start_call(call, tool)
            case ToolProgress(fields):
                return self._hosted_item.progress(fields)
            case CallEnded():
                return self._end_call(event)
            case ApprovalRequested(item):
                return self._request_approval(item)

    def _start_call(self, call: ToolCall, tool: DeclaredTool) -> list[WireEvent]:
        return [*self._opened(call, tool), *self._hosted_item.begin()]

    def _opened(self, call: ToolCall, tool: DeclaredTool) -> list[WireEvent]:
        """The events of a call whose item is not open: one that the client has approved."""
        if self._open_item is not None:
            return []
        item = hosted_item(len(self._done_events), tool, self._include, call)
        self._open_item = item
        return [*item.open(), *item.delta(call.content, ()), *item.sampled()]

    def _end_call(self, event: CallEnded) -> list[WireEvent]:
        opened = self._opened(event.call, event.tool)  # a call that a limit refused did not start
        item = self._hosted_item
        self._calls.add(event)
        self._files += event.result.files
        self.results_by_item_id[item.id] = event.message
        return [*opened, *self._done(item.end(event.result, ran=event.ran))]

    def _request_approval(self, item: Mapping[str, Any]) -> list[WireEvent]:
        call = self._hosted_item
        # The call is in the history as what the model sampled for the request.
        if (message := self.messages_by_item_id.pop(call.id, None)) is not None:
            self.messages_by_item_id[item["id"]] = message
        replaced = [] if isinstance(call, UnapprovedItem) else self._close_item("incomplete")
        return [*replaced, *self._done(approval_events(len(self._done_events), item))]

    @property
    def _hosted_item(self) -> HostedItem:
        """The open item, of a hosted call."""
        assert isinstance(self._open_item, HostedItem)
        return self._open_item

    def _close_message(self, event: MessageClosed) -> list[WireEvent]:
        assert self._open_item is not None
        self.messages_by_item_id[self._open_item.id] = event.message
        if isinstance(self._open_item, HostedItem) and event.complete:
            return self._open_item.sampled()
        events = self._close_item("completed" if event.complete else "incomplete")
        if self._seal is not None and events[-1]["item"]["type"] == "reasoning":
            events[-1]["item"]["encrypted_content"] = self._seal(event.message)
        return events

    def _close_item(self, status: ItemStatus) -> list[WireEvent]:
        if self._open_item is None:
            return []
        return self._done(self._open_item.close(status))

    def _done(self, events: list[WireEvent]) -> list[WireEvent]:
        """The events that end the open item, the last of which has the whole item."""
        self._open_item = None
        self._done_events.append(events[-1])
        return events

    def _finish(self, event: TurnFinished) -> list[WireEvent]:
        fields: dict[str, Any] = {
            "usage": _usage(event.usage),
            **self._calls.tool_usage(),
            **summary_usage([event.summaries]),
        }
        if self._show_ids:
            fields |= {"prompt_token_ids": event.prompt_token_ids, "token_ids": event.token_ids}
        if event.record is not None:
            fields[RECORD] = record_fields(event, event.record)
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
