"""Counts the hosted calls of an answer, for the usage fields of both APIs."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from server.generation.plan import TurnPlan
from server.generation.turn_events import CallEnded

_WEB_SEARCH = "web_search"
_NO_TOKENS = {"image_tokens": 0, "text_tokens": 0}
# The SDK's type requires it.
_NO_IMAGES = {
    "input_tokens": 0,
    "input_tokens_details": _NO_TOKENS,
    "output_tokens": 0,
    "output_tokens_details": _NO_TOKENS,
    "total_tokens": 0,
}


class CallCounter:
    """The hosted calls of one answer; one whose request has no hosted tool shows no counts."""

    def __init__(self, plan: TurnPlan) -> None:
        self._types = {tool.hosted.type for tool in plan.tools if tool.hosted is not None}
        self._calls = Counter[str]()
        self._requested = 0
        self._searches = 0

    def add(self, event: CallEnded) -> None:
        """Count a call that has its result. One that a limit refused was only requested."""
        self._requested += 1
        if not event.ran or event.tool.hosted is None:
            return
        self._calls[event.tool.hosted.type] += 1
        if event.tool.hosted.item == "web_search_call":
            action = event.result.fields.get("action", {})
            self._searches += action.get("type", "search") == "search"

    def tool_usage(self) -> dict[str, Any]:
        """The field `tool_usage` of a response: calls by the request's type of tool.

        `web_search` is always there and counts searches only, as OpenAI does.
        """
        if not self._types:
            return {}
        counts = {kind: {"num_requests": self._calls[kind]} for kind in sorted(self._types)}
        searches = {_WEB_SEARCH: {"num_requests": self._searches}}
        return {"tool_usage": {"image_gen": _NO_IMAGES, **counts, **searches}}

    @property
    def is_shown(self) -> bool:
        """Whether the request has a hosted tool."""
        return bool(self._types)

    @property
    def counts(self) -> dict[str, int]:
        """The calls in OpenRouter's names, for one choice of a completion."""
        return {
            "web_search_requests": self._searches,
            "tool_calls_requested": self._requested,
            "tool_calls_executed": self._calls.total(),
        }


def server_tool_use(counters: Sequence[CallCounter]) -> dict[str, Any]:
    """The fields of a completion's `usage` with the calls of all choices.

    OpenRouter documents the first name, and sends the second one.
    """
    if not any(counter.is_shown for counter in counters):
        return {}
    counts = Counter[str]()
    for counter in counters:
        counts.update(counter.counts)
    return {"server_tool_use": dict(counts), "server_tool_use_details": dict(counts)}
