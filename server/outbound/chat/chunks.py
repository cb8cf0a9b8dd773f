"""Convert turn events to chat completion chunks.

One `ChatOutbound` makes the chunks of one choice.

Sources: https://platform.openai.com/docs/api-reference/chat-streaming and, for `reasoning` and
`reasoning_details`, https://openrouter.ai/docs/use-cases/reasoning-tokens.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from adapters.base import TokenLogprobs
from harmony.events import Header, MessageStarted
from harmony.messages import Channel, Message
from harmony.tools import FUNCTIONS
from server.errors import APIError, InvalidRequest
from server.generation.plan import DeclaredTool, TurnPlan
from server.generation.runs import WireEvent
from server.generation.turn_events import (
    CallEnded,
    MessageClosed,
    SummaryTotals,
    SummaryWritten,
    TextDelta,
    TurnEvent,
    TurnFinished,
    Usage,
)
from server.outbound.chat.deltas import (
    Content,
    Delta,
    Field,
    LegacyCall,
    Reasoning,
    ToolCall,
    seal_detail,
    summary_detail,
)
from server.outbound.chat.fields import NO_FIELDS
from server.outbound.citations import CitationRewriter, CitedText
from server.outbound.hosted_usage import CallCounter
from server.outbound.logprobs import logprob_entries
from server.store.items import SampledTurn
from server.tools.base import ApprovalRequested


@dataclass(frozen=True, slots=True)
class ChatRenderOptions:
    """How the chunks of a choice show the model's messages.

    hide_reasoning: leave the raw chain of thought out. Usage still counts it.
    alias: repeat `reasoning` as `reasoning_content`.
    legacy: write the first call to the deprecated `function_call`.
    json: the client parses `content` as JSON, so preambles are added to `reasoning`.
    show_ids: add the prompt's token ids and the sampled ones to the last chunk.
    seal: encrypts a reasoning message for the client, whether or not its text is shown. With None
    there is no sealed reasoning.
    """

    hide_reasoning: bool = False
    alias: bool = False
    legacy: bool = False
    json: bool = False
    show_ids: bool = False
    seal: Callable[[Message], str] | None = None


DEFAULT_OPTIONS = ChatRenderOptions()


class ChatOutbound:
    """Makes the chunks of one choice; implements `server.generation.outbound_protocol.Outbound`.

    shared: the fields that all chunks of the completion have (`chunk_fields`).
    plan: the compiled request.
    options: what the chunks show.
    index: the choice's index.
    first_chunk_fields: additional fields of the first chunk.
    citations: rewrites the citation markers of the content; None leaves them as they are.
    """

    def __init__(
        self,
        shared: dict[str, Any],
        plan: TurnPlan,
        options: ChatRenderOptions = DEFAULT_OPTIONS,
        *,
        index: int = 0,
        first_chunk_fields: Mapping[str, Any] = NO_FIELDS,
        citations: CitationRewriter | None = None,
    ) -> None:
        self.usage: Usage
        """The answer's usage; set by the `TurnFinished` event."""
        self.summaries: SummaryTotals | None = None
        """What a model did for the summaries of the reasoning."""
        self.call_counter = CallCounter(plan)
        """The calls that the server ran in this answer."""
        self._messages: list[Message] = []
        self._ends: dict[str, int] = {}  # how many messages there are up to each call
        self._shared = shared
        self._plan = plan
        self._index = index
        self._first_chunk_fields = first_chunk_fields
        self._render_options = options
        self._content = Content()
        self._citations = citations
        self._reasoning = Reasoning(alias=options.alias)
        self._details = 0
        self._calls = 0
        self._field: Field | None = None
        self._shows_logprobs = False

    @property
    def turn(self) -> SampledTurn | None:
        """The messages up to the calls of the client's tools; None if there are none.

        Calls that the server ran are among them, each followed by its result.
        """
        if not self._ends:
            return None
        last = max(self._ends.values())
        return SampledTurn(tuple(self._messages[:last]), dict(self._ends))

    @property
    def dropped_citations(self) -> int:
        """How many citation markers had no source, and were left out."""
        return 0 if self._citations is None else self._citations.dropped

    @property
    def open_item_id(self) -> str | None:
        """None: the API has no items."""
        return None

    def start(self) -> list[WireEvent]:
        """The chunk with the role. `content` stays null if the model only calls tools."""
        delta = {"role": "assistant", "content": None, "refusal": None}
        return [{**self._chunk(delta), **self._first_chunk_fields}]

    def push(self, event: TurnEvent) -> list[WireEvent]:
        """The chunks of an event; an event that the options hide has none."""
        match event:
            case TextDelta():
                return self._text_chunks(event)
            case MessageStarted():
                return self._open_message(event.header)
            case MessageClosed():
                return self._close_message(event.header, event.message)
            case TurnFinished():
                return self._finish(event)
            case SummaryWritten():
                return self._summary_chunks(event)
            case CallEnded():
                self.call_counter.add(event)
                self._messages.append(event.message)
            case ApprovalRequested():
                raise approval_required(event.item)
        # Calls that the server runs are not shown, but for their number in the usage.
        return []

    def fail(self, error: APIError) -> list[WireEvent]:
        """Withheld text, the annotations of the links so far, and the error in OpenAI's form."""
        return [*self._withheld_chunks(), *self._annotation_chunks(), error.body()]

    def cancel(self) -> list[WireEvent]:
        """No events: the API has none for a cancelled completion."""
        return []

    def _text_chunks(self, event: TextDelta) -> list[WireEvent]:
        if self._field is None:
            return []
        text, logprobs = event.text, event.logprobs if self._shows_logprobs else ()
        if self._citations is not None and self._field is self._content:
            text = self._content.push(text)
            if not self._citations.add_plain(text):
                return self._cited_chunks(self._citations.push(text, logprobs))
        return [self._text_chunk(self._field.delta(text), logprobs)]

    def _cited_chunks(self, pieces: Iterable[CitedText]) -> list[WireEvent]:
        content = self._content
        return [self._text_chunk(content.cited_delta(piece), piece.logprobs) for piece in pieces]

    def _withheld_chunks(self) -> list[WireEvent]:
        """The chunks of text that was withheld, as it could have become a marker."""
        return [] if self._citations is None else self._cited_chunks(self._citations.finish())

    def _text_chunk(self, delta: Delta, logprobs: Iterable[TokenLogprobs]) -> WireEvent:
        """The chunk of a delta with text. logprobs: shown if the message shows any."""
        if not self._shows_logprobs:
            return self._chunk(delta)
        shown = {"content": logprob_entries(logprobs), "refusal": None}
        return self._chunk(delta, logprobs=shown)

    def _open_message(self, header: Header) -> list[WireEvent]:
        self._shows_logprobs = False
        if header.recipient is not None:
            return self._open_call(self._plan.tool(header.recipient))
        if self._is_reasoning(header):
            self._reasoning.next_message()
            self._field = None if self._render_options.hide_reasoning else self._reasoning
        else:
            self._content.next_message()
            self._field = self._content
            is_answer = header.channel is Channel.FINAL
            self._shows_logprobs = is_answer and self._plan.top_logprobs is not None
        return []

    def _close_message(self, header: Header, message: Message) -> list[WireEvent]:
        self._messages.append(message)
        if isinstance(self._field, ToolCall):
            self._ends[self._field.id] = len(self._messages)
        if self._render_options.seal is None or not self._is_reasoning(header):
            return self._withheld_chunks()
        detail = seal_detail(self._render_options.seal(message), self._next_detail())
        return [self._chunk({"reasoning_details": [detail]})]

    def _summary_chunks(self, part: SummaryWritten) -> list[WireEvent]:
        """The chunk with a part of a summary. One that is not there in time has none."""
        if not part.text:
            return []
        index = self._next_detail()
        if self._render_options.hide_reasoning:
            return [self._chunk(self._reasoning.summary_delta(part, index))]
        return [self._chunk({"reasoning_details": [summary_detail(part, index)]})]

    def _next_detail(self) -> int:
        """The index of the next whole entry of `reasoning_details`."""
        # Index 0 belongs to the text of the reasoning if that is shown.
        self._details += 1
        return self._details - self._render_options.hide_reasoning

    def _is_reasoning(self, header: Header) -> bool:
        """Whether `reasoning` shows the message: analysis, and preambles where content is JSON."""
        if header.recipient is not None:
            return False
        is_json_preamble = self._render_options.json and header.channel is Channel.COMMENTARY
        return header.channel is Channel.ANALYSIS or is_json_preamble

    def _open_call(self, tool: DeclaredTool) -> list[WireEvent]:
        if tool.kind == "hosted":
            self._field = None
            return []
        # Chat has no field for a namespace, so the name includes it.
        name = tool.recipient.removeprefix(f"{FUNCTIONS}.")
        legacy = self._render_options.legacy and self._calls == 0
        call = LegacyCall() if legacy else ToolCall(self._calls, tool.kind)
        self._calls += 1
        self._field = call
        return [self._chunk(call.first_delta(name))]

    def _finish(self, event: TurnFinished) -> list[WireEvent]:
        self.usage = event.usage
        self.summaries = event.summaries
        is_empty = not self._calls and self._content.is_empty
        last = self._chunk({"content": ""} if is_empty else {}, self._finish_reason(event))
        if self._render_options.show_ids:
            last["prompt_token_ids"] = event.prompt_token_ids
            last["choices"][0]["token_ids"] = event.token_ids
        return [*self._annotation_chunks(), last]

    def _annotation_chunks(self) -> list[WireEvent]:
        """The chunk with the annotations of all links, if there are any.

        It is a single one: an annotation has no `index`, without which OpenAI's SDK cannot join the
        lists of several deltas.
        """
        if not self._content.annotations:
            return []
        return [self._chunk({"annotations": self._content.annotations})]

    def _finish_reason(self, event: TurnFinished) -> str:
        if event.reason == "length":
            return "length"
        if self._calls:
            return "function_call" if self._render_options.legacy else "tool_calls"
        return "stop"

    def _chunk(
        self,
        delta: Delta,
        finish_reason: str | None = None,
        logprobs: dict[str, Any] | None = None,
    ) -> WireEvent:
        choice = {
            "index": self._index,
            "delta": delta,
            "logprobs": logprobs,
            "finish_reason": finish_reason,
        }
        return {**self._shared, "choices": [choice]}


def approval_required(item: Mapping[str, Any]) -> InvalidRequest:
    """The error for a call that needs the client's approval, which this API has no form for.

    item: the item `mcp_approval_request` that the Responses API has.
    """
    return InvalidRequest(
        f"A call of '{item.get('name')}' of the MCP server '{item.get('server_label')}' needs your"
        " approval, which Chat Completions cannot request. Use /v1/responses, or set"
        " 'require_approval' to 'never' for this tool.",
        param="tools",
        code="approval_required",
    )
