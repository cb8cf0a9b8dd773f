"""Hosted calls in chat completions: they are not shown, but counted and recalled."""

from typing import Any

from harmony.events import Header
from harmony.messages import Channel
from server.generation.call_results import result_message
from server.generation.plan import DeclaredTool
from server.generation.turn_events import (
    CallEnded,
    CallStarted,
    TurnEvent,
    TurnFinished,
    Usage,
)
from server.outbound.chat.chunks import ChatOutbound
from server.outbound.chat.fields import usage_chunk
from server.outbound.chat.fold import fold
from server.outbound.chat.legacy_completions import LegacyCompletionOutbound
from server.outbound.hosted_usage import server_tool_use
from server.outbound.usage import usage_object
from server.tools.base import ToolCall, ToolDeclaration, ToolProgress, ToolResult
from tests.server.outbound.chat.test_chunks import SHARED, message
from tests.server.outbound.responses.test_events import ANALYSIS, CALL, FINAL
from tests.server.tools.hosted import PYTHON, SEARCH, declared, plan

FUNCTION = DeclaredTool("functions.f", "f")


def hosted_call(
    hosted: ToolDeclaration = PYTHON, *, ran: bool = True, text: str = "1"
) -> list[TurnEvent]:
    (tool,) = declared(hosted)
    call = ToolCall("call_1", tool.recipient, Channel.ANALYSIS, text)
    result = ToolResult(f"RESULT {text}")
    ended = CallEnded(call, tool, result, result_message(call, result.text), ran)
    sampled = message(0, Header(Channel.ANALYSIS, tool.recipient, "code"), text)
    return [*sampled, CallStarted(call, tool), ToolProgress({}), ended]


def outbound() -> ChatOutbound:
    tools = (*declared(PYTHON, SEARCH), FUNCTION)
    return ChatOutbound(SHARED, plan(tools=tools))


def play(out: ChatOutbound, *events: TurnEvent) -> dict[str, Any]:
    chunks = [*out.start(), *(chunk for event in events for chunk in out.push(event))]
    more = server_tool_use([out.call_counter])
    return fold([*chunks, usage_chunk(SHARED, [out.usage], per_prompt=1, more=more)])


END = TurnFinished("stop", Usage(30, 8, 6, 2, later_input=20, later_cached=5))


def test_reasoning_and_content_are_shown_and_the_call_is_not() -> None:
    thought, other = message(0, ANALYSIS, "Think."), message(0, ANALYSIS, "Again.")
    completion = play(outbound(), *thought, *hosted_call(), *other, *message(0, FINAL, "Two."), END)
    (choice,) = completion["choices"]
    assert choice["finish_reason"] == "stop"
    assert choice["message"]["content"] == "Two."
    assert choice["message"]["reasoning"] == "Think.\n\nAgain."
    assert "tool_calls" not in choice["message"]


def test_calls_are_counted() -> None:
    refused = hosted_call(ran=False)
    usage = play(outbound(), *hosted_call(), *hosted_call(SEARCH), *refused, END)["usage"]
    counts = {"web_search_requests": 1, "tool_calls_requested": 3, "tool_calls_executed": 2}
    assert usage["server_tool_use"] == usage["server_tool_use_details"] == counts
    assert (usage["prompt_tokens"], usage["completion_tokens"]) == (30, 6)
    assert usage["prompt_tokens_details"]["cached_tokens"] == 8


def test_without_hosted_tools_there_are_no_counts() -> None:
    out = ChatOutbound(SHARED, plan(tools=(FUNCTION,)))
    assert "server_tool_use" not in play(out, *message(0, FINAL, "a"), END)["usage"]


def test_choices_share_their_first_prompt_only() -> None:
    usages = [Usage(30, 8, 6, later_input=20, later_cached=5), Usage(10, 3, 4)]
    usage = usage_object(usages[:1], usages)
    assert (usage["prompt_tokens"], usage["completion_tokens"]) == (10 + 20, 10)
    assert usage["prompt_tokens_details"]["cached_tokens"] == 3 + 5


def test_a_call_of_the_client_recalls_the_hosted_calls_before_it() -> None:
    out = outbound()
    thought = message(0, ANALYSIS, "Think.")
    completion = play(out, *thought, *hosted_call(), *message(0, CALL, "{}"), END)
    (choice,) = completion["choices"]
    assert choice["finish_reason"] == "tool_calls"
    (call,) = choice["message"]["tool_calls"]
    assert out.turn is not None
    recalled = out.turn.up_to(call["id"])
    assert [str(each.content) for each in recalled] == ["Think.", "1", "RESULT 1", "{}"]
    assert [each.recipient for each in recalled] == [None, "python", "assistant", "functions.f"]


def test_apis_without_items_have_no_open_one() -> None:
    assert outbound().open_item_id is None
    legacy = LegacyCompletionOutbound({})
    assert legacy.open_item_id is None
    assert legacy.push(ToolProgress({})) == []
