"""Turn events -> chat completion chunks.

One outbound is one choice.

Sources: https://platform.openai.com/docs/api-reference/chat-streaming and, for `reasoning` and
`reasoning_details`, https://openrouter.ai/docs/use-cases/reasoning-tokens.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from harmony.events import Header, MessageStarted
from harmony.messages import Channel, Message
from server.errors import APIError
from server.generation.plan import TurnPlan
from server.generation.runs import WireEvent
from server.generation.turn_events import (
    MessageClosed,
    TextDelta,
    TurnEvent,
    TurnFinished,
    Usage,
)
from server.outbound.deltas import (
    Content,
    Delta,
    Field,
    LegacyCall,
    Reasoning,
    ToolCall,
    seal_detail,
)
from server.outbound.logprobs import entries


@dataclass(frozen=True, slots=True)
class ChatRenderOptions:
    """How a choice is told.

    hide_reasoning: raw chain of thought is counted, and not shown. alias: it is shown as
    `reasoning_content` too. legacy: a call goes to the deprecated `function_call`. json: content
    is for a parser, so that preambles are told with the reasoning. show_ids: the last chunk has
    the prompt's ids and the sampled ones. seal: makes sealed reasoning for the client to keep,
    whether or not it is shown; None for none.
    """

    hide_reasoning: bool = False
    alias: bool = False
    legacy: bool = False
    json: bool = False
    show_ids: bool = False
    seal: Callable[[Message], str] | None = None


PLAIN = ChatRenderOptions()
NOTHING: Mapping[str, Any] = {}


class ChatOutbound:
    """One choice. shared: what is the same in all chunks. opening: what the first has besides."""

    def __init__(
        self,
        shared: dict[str, Any],
        plan: TurnPlan,
        options: ChatRenderOptions = PLAIN,
        *,
        index: int = 0,
        opening: Mapping[str, Any] = NOTHING,
    ) -> None:
        self.usage: Usage
        """Set when the turn has finished."""
        self.called: dict[str, tuple[Message, ...]] = {}
        """What was said up to each call, by the call's id."""
        self._said: list[Message] = []
        self._shared = shared
        self._plan = plan
        self._index = index
        self._opening = opening
        self._render_options = options
        self._content = Content()
        self._reasoning = Reasoning(alias=options.alias)
        self._seals = 0
        self._calls = 0
        self._field: Field | None = None
        self._shows_logprobs = False

    def start(self) -> list[WireEvent]:
        """The role. Content is null until there is some: it stays null beside calls alone."""
        delta = {"role": "assistant", "content": None, "refusal": None}
        return [{**self._chunk(delta), **self._opening}]

    def push(self, event: TurnEvent) -> list[WireEvent]:
        """Chunks; none where the event does not show."""
        match event:
            case TextDelta():
                return self._text(event)
            case MessageStarted():
                return self._opened(event.header)
            case MessageClosed():
                return self._closed(event.header, event.message)
            case TurnFinished():
                return self._finished(event)

    def fail(self, error: APIError) -> list[WireEvent]:
        """OpenAI's error body."""
        return [error.body()]

    def cancel(self) -> list[WireEvent]:
        """Nothing: the API has no event for it."""
        return []

    def _text(self, event: TextDelta) -> list[WireEvent]:
        if self._field is None:
            return []
        logprobs = None
        if self._shows_logprobs:
            logprobs = {"content": entries(event.logprobs), "refusal": None}
        return [self._chunk(self._field.delta(event.text), logprobs=logprobs)]

    def _opened(self, header: Header) -> list[WireEvent]:
        self._shows_logprobs = False
        if header.recipient is not None:
            return [self._chunk(self._open_call(header.recipient))]
        if self._is_thought(header):
            self._reasoning.next_message()
            self._field = None if self._render_options.hide_reasoning else self._reasoning
        else:
            self._content.next_message()
            self._field = self._content
            answers = header.channel is Channel.FINAL
            self._shows_logprobs = answers and self._plan.top_logprobs is not None
        return []

    def _closed(self, header: Header, message: Message) -> list[WireEvent]:
        self._said.append(message)
        if isinstance(self._field, ToolCall):
            self.called[self._field.id] = tuple(self._said)
        if self._render_options.seal is None or not self._is_thought(header):
            return []
        # The first place is the text's, where that is shown.
        index = self._seals + (not self._render_options.hide_reasoning)
        self._seals += 1
        detail = seal_detail(self._render_options.seal(message), index)
        return [self._chunk({"reasoning_details": [detail]})]

    def _is_thought(self, header: Header) -> bool:
        """Whether it is told as reasoning: analysis, and preambles beside JSON."""
        if header.recipient is not None:
            return False
        is_aside = self._render_options.json and header.channel is Channel.COMMENTARY
        return header.channel is Channel.ANALYSIS or is_aside

    def _open_call(self, recipient: str) -> Delta:
        tool = self._plan.tool(recipient)
        # The whole name, a namespace included: Chat has no other field for it.
        name = tool.recipient.removeprefix("functions.")
        legacy = self._render_options.legacy and self._calls == 0
        call = LegacyCall() if legacy else ToolCall(self._calls, tool.kind)
        self._calls += 1
        self._field = call
        return call.opened(name)

    def _finished(self, event: TurnFinished) -> list[WireEvent]:
        self.usage = event.usage
        silent = not (self._calls or self._content.said)
        last = self._chunk({"content": ""} if silent else {}, self._finish_reason(event))
        if self._render_options.show_ids:
            last["prompt_token_ids"] = event.prompt_token_ids
            last["choices"][0]["token_ids"] = event.token_ids
        return [last]

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
