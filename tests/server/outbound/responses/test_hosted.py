"""The items and events of hosted calls in the Responses API, checked with the SDK's types."""

from typing import Any

import pytest
from openai.types.responses import Response

from harmony.events import Header
from harmony.messages import Author, Channel, Conversation, Role
from server.errors import ServerFailed
from server.generation.call_results import result_message
from server.generation.plan import TurnPlan
from server.generation.turn_events import (
    CallEnded,
    CallStarted,
    TurnEvent,
    TurnFinished,
    Usage,
)
from server.outbound.redacted import redacted_event
from server.outbound.responses.events import ResponsesOutbound
from server.outbound.responses.fold import fold
from server.outbound.responses.interrupted import end_interrupted
from server.tools.base import (
    ApprovalRequested,
    CreatedFile,
    ToolCall,
    ToolDeclaration,
    ToolProgress,
    ToolResult,
)
from tests.server.outbound.responses.test_events import CREATED, EVENT_TYPES, FINAL, kinds, message
from tests.server.tools.hosted import FILE, PYTHON, REMOTE, SEARCH, declaration, declared, plan

OUTPUTS = "code_interpreter_call.outputs"
APPROVED = declaration(
    "functions.srv__add",
    "mcp",
    "mcp_call",
    fields={"server_label": "srv"},
    approvals=frozenset({"functions.srv__add"}),
)
REQUEST = {
    "type": "mcp_approval_request",
    "id": "mcpr_1",
    "server_label": "srv",
    "name": "add",
    "arguments": "{}",
}


def outbound(*declarations: ToolDeclaration, include: tuple[str, ...] = ()) -> ResponsesOutbound:
    asked = plan(tools=declared(*declarations))
    return ResponsesOutbound(CREATED, asked, include=frozenset(include), now=lambda: 5.0)


def called(recipient: str, text: str, *, complete: bool = True) -> list[TurnEvent]:
    return message(Header(Channel.ANALYSIS, recipient, "code"), text, complete=complete)


def ran(
    out: ResponsesOutbound, hosted: ToolDeclaration, result: ToolResult, *, runs: bool = True
) -> list[TurnEvent]:
    """The events of a call whose message is open in `out`."""
    (tool,) = declared(hosted)
    call = ToolCall(str(out.open_item_id), tool.recipient, Channel.ANALYSIS, "")
    ended = CallEnded(call, tool, result, result_message(call, result.text), runs)
    return [CallStarted(call, tool), ended] if runs else [ended]


def push(out: ResponsesOutbound, *events: TurnEvent) -> list[dict[str, Any]]:
    return [wire for event in events for wire in out.push(event)]


def play(
    hosted: ToolDeclaration,
    text: str,
    result: ToolResult,
    *after: TurnEvent,
    include: tuple[str, ...] = (),
    runs: bool = True,
) -> list[dict[str, Any]]:
    """All events of an answer with one call."""
    out = outbound(hosted, include=include)
    (tool,) = declared(hosted)
    events = [*out.start(), *push(out, *called(tool.recipient, text))]
    events += push(out, *ran(out, hosted, result, runs=runs), *after)
    events += push(out, TurnFinished("stop", Usage(1)))
    check(events)
    return events


def check(events: list[dict[str, Any]]) -> None:
    """Check types, numbers, and that each item's events have its id and index."""
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    for event in events:
        item = event.get("item", {})
        if item.get("type") == "web_search_call" and "action" not in item:
            # OpenAI's own stream has none here, although the SDK's type requires one.
            event = {**event, "item": {**item, "action": {"type": "search"}}}
        EVENT_TYPES[event["type"]].validate_python(event, strict=True)
    ids = {
        event["output_index"]: event["item"]["id"]
        for event in events
        if event["type"] == "response.output_item.added"
    }
    for event in events:
        if "item_id" in event:
            assert event["item_id"] == ids[event["output_index"]]
    if "response" in events[-1]:
        assert fold(events) == events[-1]["response"]


def output(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    response = events[-1]["response"]
    Response.model_validate(response)
    items: list[dict[str, Any]] = response["output"]
    return items


LOGS = {"outputs": [{"type": "logs", "logs": "2"}]}


def test_code_is_streamed_and_then_runs() -> None:
    events = play(PYTHON, "1+1", ToolResult("2", fields=LOGS), *message(FINAL, "2"))
    assert kinds(events)[2:11] == [
        "output_item.added",
        "code_interpreter_call.in_progress",
        "code_interpreter_call_code.delta",
        "code_interpreter_call_code.delta",
        "code_interpreter_call_code.delta",
        "code_interpreter_call_code.done",
        "code_interpreter_call.interpreting",
        "code_interpreter_call.completed",
        "output_item.done",
    ]
    added = events[2]["item"]
    assert added == {
        "type": "code_interpreter_call",
        "id": added["id"],
        "status": "in_progress",
        "code": "",
        "container_id": "cntr_1",
        "outputs": None,
    }
    assert added["id"].startswith("ci_")
    assert [event["delta"] for event in events[4:7]] == ["1", "+", "1"]
    assert events[7]["code"] == "1+1"
    assert output(events)[0] == {**added, "status": "completed", "code": "1+1"}


def test_outputs_are_shown_to_who_asks() -> None:
    shown = output(play(PYTHON, "1", ToolResult("2", fields=LOGS), include=(OUTPUTS,)))
    assert shown[0]["outputs"] == LOGS["outputs"]
    silent = output(play(PYTHON, "1", ToolResult(""), include=(OUTPUTS,)))
    assert silent[0]["outputs"] == []


@pytest.mark.parametrize("hosted", [PYTHON, SEARCH])
def test_a_call_that_failed_is_not_completed(hosted: ToolDeclaration) -> None:
    events = play(hosted, "1", ToolResult("No.", failed=True))
    assert output(events)[0]["status"] == "failed"
    assert not any(".completed" in kind for kind in kinds(events))


@pytest.mark.parametrize("hosted", [PYTHON, SEARCH, REMOTE, APPROVED])
def test_a_refused_call_is_incomplete_and_did_not_run(hosted: ToolDeclaration) -> None:
    events = play(hosted, "{}", ToolResult("The limit.", failed=True), runs=False)
    (item,) = output(events)
    assert item["status"] == "incomplete"
    assert item.get("error") is None
    assert not {"interpreting", "searching"} & {kind.rpartition(".")[2] for kind in kinds(events)}
    usage = events[-1]["response"]["tool_usage"]
    assert usage[hosted.type]["num_requests"] == 0


def test_a_search_is_known_when_it_is_done() -> None:
    action = {"type": "search", "query": "q", "sources": [{"type": "url", "url": "http://a"}]}
    result = ToolResult("found", fields={"action": action, "results": [{"url": "http://a"}]})
    events = play(SEARCH, '{"query": "q"}', result)
    assert kinds(events)[2:-1] == [
        "output_item.added",
        "web_search_call.in_progress",
        "web_search_call.searching",
        "web_search_call.completed",
        "output_item.done",
    ]
    assert "action" not in events[2]["item"]
    (item,) = output(events)
    assert item["id"].startswith("ws_")
    assert item["action"] == {"type": "search", "query": "q"}
    assert "results" not in item
    include = ("web_search_call.action.sources", "web_search_call.results")
    (item,) = output(play(SEARCH, "{}", result, include=include))
    assert (item["action"], item["results"]) == (action, [{"url": "http://a"}])


def test_searches_are_counted_and_other_actions_are_not() -> None:
    opened = ToolResult("page", fields={"action": {"type": "open_page", "url": "http://a"}})
    for result, count in ((opened, 0), (ToolResult("found"), 1)):
        response = play(SEARCH, "{}", result)[-1]["response"]
        assert response["tool_usage"]["web_search"] == {"num_requests": count}
    assert play(PYTHON, "1", opened)[-1]["response"]["tool_usage"]["code_interpreter"] == {
        "num_requests": 1
    }


def test_an_answer_without_hosted_tools_has_no_tool_usage() -> None:
    out = ResponsesOutbound(CREATED, TurnPlan(Conversation(())))
    assert "tool_usage" not in push(out, TurnFinished("stop", Usage(1)))[-1]["response"]


def test_arguments_of_a_remote_tool_are_streamed() -> None:
    events = play(REMOTE, '{"a":1}', ToolResult("2"))
    assert [kind for kind in kinds(events)[2:-1] if kind != "mcp_call_arguments.delta"] == [
        "output_item.added",
        "mcp_call.in_progress",
        "mcp_call_arguments.done",
        "mcp_call.completed",
        "output_item.done",
    ]
    (item,) = output(events)
    assert item == {
        "type": "mcp_call",
        "id": item["id"],
        "status": "completed",
        "server_label": "srv",
        "name": "add",
        "arguments": '{"a":1}',
        "output": "2",
        "error": None,
        "approval_request_id": None,
    }


def test_the_error_of_a_remote_tool_is_shown() -> None:
    events = play(REMOTE, "{}", ToolResult("No.", failed=True))
    assert kinds(events)[-3:-1] == ["mcp_call.failed", "output_item.done"]
    content = [{"type": "text", "text": "No."}]
    (item,) = output(events)
    assert item["error"] == {"type": "mcp_tool_execution_error", "content": content}
    error = {"type": "http_error", "code": 500, "message": "m"}
    (item,) = output(play(REMOTE, "{}", ToolResult("No.", True, {"error": error})))
    assert (item["error"], item["output"]) == (error, None)


def test_a_call_to_approve_is_shown_as_request_only() -> None:
    out = outbound(APPROVED)
    events = [*out.start(), *push(out, *called("functions.srv__add", "{}"))]
    call = ToolCall(str(out.open_item_id), "functions.srv__add", Channel.ANALYSIS, "{}")
    events += push(out, CallStarted(call, declared(APPROVED)[0]), ApprovalRequested(REQUEST))
    events += push(out, TurnFinished("stop", Usage(1)))
    check(events)
    assert kinds(events)[2:] == ["output_item.added", "output_item.done", "completed"]
    assert output(events) == [REQUEST]
    assert out.messages_by_item_id["mcpr_1"].content == "{}"


def test_an_undeclared_request_for_approval_follows_the_call() -> None:
    out = outbound(REMOTE)
    events = [*out.start(), *push(out, *called("functions.srv__add", "{}"))]
    events += push(out, ApprovalRequested(REQUEST), TurnFinished("stop", Usage(1)))
    check(events)
    assert [(item["type"], item.get("status")) for item in output(events)] == [
        ("mcp_call", "incomplete"),
        ("mcp_approval_request", None),
    ]


def test_a_call_that_needs_no_approval_after_all_is_shown_from_its_first_event() -> None:
    events = play(APPROVED, "{}", ToolResult("2"))
    assert kinds(events) == kinds(play(REMOTE, "{}", ToolResult("2")))
    out = outbound(APPROVED)
    push(out, *called("functions.srv__add", "{}"))
    assert kinds(push(out, ToolProgress({})))[0] == "output_item.added"


def test_an_approved_call_of_an_earlier_answer_has_its_own_item() -> None:
    out = outbound(APPROVED)
    call = ToolCall("mcp_9", "functions.srv__add", Channel.COMMENTARY, "{}", "mcpr_1")
    (tool,) = declared(APPROVED)
    result = ToolResult("2")
    events = [*out.start(), *push(out, CallStarted(call, tool))]
    events += push(out, CallEnded(call, tool, result, result_message(call, "2")))
    events += push(out, TurnFinished("stop", Usage(1)))
    check(events)
    (item,) = output(events)
    assert (item["id"], item["arguments"], item["approval_request_id"]) == ("mcp_9", "{}", "mcpr_1")


def test_an_approved_call_that_a_limit_refuses_is_incomplete() -> None:
    out = outbound(APPROVED)
    call = ToolCall("mcp_9", "functions.srv__add", Channel.COMMENTARY, "{}", "mcpr_1")
    (tool,) = declared(APPROVED)
    limit = ToolResult("The limit.", failed=True)
    refused = CallEnded(call, tool, limit, result_message(call, limit.text), ran=False)
    events = [*out.start(), *push(out, refused, TurnFinished("stop", Usage(1)))]
    check(events)
    (item,) = output(events)
    assert (item["id"], item["status"], item["arguments"]) == ("mcp_9", "incomplete", "{}")


def test_items_that_are_known_before_come_first() -> None:
    tools = {"type": "mcp_list_tools", "id": "mcpl_1", "server_label": "srv"}
    good = declaration(
        "functions.a",
        "mcp",
        "mcp_call",
        opening=({**tools, "tools": [{"name": "a", "input_schema": {}}]},),
    )
    bad = declaration(
        "functions.b",
        "mcp",
        "mcp_call",
        opening=({**tools, "id": "mcpl_2", "tools": [], "error": "no"},),
    )
    opening = (*good.opening, *bad.opening)
    out = ResponsesOutbound(CREATED, plan(tools=declared(good, bad)), opening=opening)
    events = out.start()
    check(events)
    assert kinds(events)[2:] == [
        "output_item.added",
        "mcp_list_tools.in_progress",
        "mcp_list_tools.completed",
        "output_item.done",
        "output_item.added",
        "mcp_list_tools.in_progress",
        "mcp_list_tools.failed",
        "output_item.done",
    ]
    assert events[2]["item"] == {**good.opening[0], "tools": []}
    answer = [*events, *push(out, *message(FINAL, "x"), TurnFinished("stop", Usage(1)))]
    check(answer)
    assert output(answer)[:2] == [*opening]
    queued = ResponsesOutbound({**CREATED, "status": "queued"}, plan(), opening=good.opening)
    assert kinds(queued.start()) == ["created", "queued"]
    first = push(queued, TurnFinished("stop", Usage(1)))
    assert kinds(first)[:2] == ["in_progress", "output_item.added"]


def test_files_are_cited_where_the_answer_links_to_them() -> None:
    text = "See [it](sandbox:/mnt/data/a.csv)."
    other = CreatedFile("cntr_1", "cfile_2", "b.csv", "/mnt/data/b.csv")
    old = CreatedFile("cntr_1", "cfile_0", "b.csv", "/mnt/data/b.csv")
    preamble = message(Header(Channel.COMMENTARY), "Wait.")
    result = ToolResult("", files=(old, other, FILE))
    events = play(PYTHON, "1", result, *preamble, *message(FINAL, text))
    _, before, answer = output(events)
    assert before["content"][0]["annotations"] == []
    annotations = answer["content"][0]["annotations"]
    assert [each["file_id"] for each in annotations] == ["cfile_1", "cfile_2"]
    start, end = annotations[0]["start_index"], annotations[0]["end_index"]
    assert text[start:end] == "sandbox:/mnt/data/a.csv"
    assert (annotations[1]["start_index"], annotations[1]["end_index"]) == (len(text), len(text))
    added = [event for event in events if event["type"].endswith("annotation.added")]
    assert [event["annotation"] for event in added] == annotations
    assert [event["annotation_index"] for event in added] == [0, 1]
    last_delta = max(n for n, kind in enumerate(kinds(events)) if kind == "output_text.delta")
    assert last_delta < added[0]["sequence_number"]


@pytest.mark.parametrize("end", ["cancel", "fail"])
@pytest.mark.parametrize("started", [False, True])
@pytest.mark.parametrize("hosted", [PYTHON, SEARCH, REMOTE, APPROVED])
def test_an_open_call_ends_incomplete(hosted: ToolDeclaration, started: bool, end: str) -> None:
    out = outbound(hosted)
    (tool,) = declared(hosted)
    events = [*out.start(), *push(out, *called(tool.recipient, "{}"))]
    if started:
        events += push(out, *ran(out, hosted, ToolResult(""))[:1])
    events += out.cancel() if end == "cancel" else out.fail(ServerFailed("x"))
    if end == "cancel":
        check(events)
    assert [item["status"] for item in events[-1]["response"]["output"]] == ["incomplete"]


@pytest.mark.parametrize(
    ("hosted", "known"),
    [(PYTHON, LOGS), (SEARCH, {"action": {"type": "search", "query": "q"}})],
)
def test_an_open_call_ends_with_what_is_known_of_it(
    hosted: ToolDeclaration, known: dict[str, Any]
) -> None:
    out = outbound(hosted, include=(OUTPUTS,))
    (tool,) = declared(hosted)
    push(out, *called(tool.recipient, "{}"), ran(out, hosted, ToolResult(""))[0])
    assert push(out, ToolProgress(known)) == []
    (item,) = output(out.cancel())
    assert item["status"] == "incomplete"
    assert item.items() >= known.items()


def test_a_call_that_was_cut_off_is_incomplete() -> None:
    out = outbound(PYTHON)
    push(out, *called("python", "1+", complete=False))
    last = push(out, TurnFinished("length", Usage(1)))[-1]
    assert [item["status"] for item in last["response"]["output"]] == ["incomplete"]


def test_the_code_of_a_call_that_was_cut_off_is_not_shown_as_sampled() -> None:
    out = outbound(PYTHON)
    events = [*out.start(), *push(out, *called("python", "1", complete=False))]
    assert "code_interpreter_call.interpreting" not in kinds(events)
    assert kinds(events)[-1] == "output_item.done"
    assert out.open_item_id is None


def test_a_call_that_did_not_run_before_the_end_is_incomplete() -> None:
    out = outbound(PYTHON)
    events = [*out.start(), *push(out, *called("python", "1"), TurnFinished("stop", Usage(1)))]
    check(events)
    assert [item["status"] for item in output(events)] == ["incomplete"]


def test_a_call_before_another_message_is_incomplete() -> None:
    out = outbound(PYTHON)
    events = [*out.start(), *push(out, *called("python", "1"), *message(FINAL, "a"))]
    events += push(out, TurnFinished("stop", Usage(1)))
    check(events)
    assert [item["status"] for item in output(events)] == ["incomplete", "completed"]


@pytest.mark.parametrize("hosted", [PYTHON, SEARCH, REMOTE])
@pytest.mark.parametrize("after", [1, 2, 3, 4, 5])
def test_a_call_of_a_server_that_stopped_ends_incomplete(
    hosted: ToolDeclaration, after: int
) -> None:
    out = outbound(hosted)
    (tool,) = declared(hosted)
    started = out.start()
    events = push(out, *called(tool.recipient, "{}"))
    events += push(out, *ran(out, hosted, ToolResult(""))[:1])
    stored = [*started, *events[:after]]
    whole = end_interrupted(CREATED, stored)
    check(whole[:-2])
    assert whole[-1]["response"]["status"] == "failed"
    (item,) = whole[-1]["response"]["output"]
    assert item["status"] == "incomplete"
    done = [kind for kind in kinds(whole) if kind.endswith(("_code.done", "_arguments.done"))]
    assert len(done) == (hosted is not SEARCH)


def test_code_is_shown_where_reasoning_is_hidden() -> None:
    events = play(PYTHON, "1+1", ToolResult("2"))
    assert [redacted_event(event) for event in events] == events


def test_messages_and_results_are_known_by_their_item() -> None:
    out = outbound(PYTHON)
    push(out, *called("python", "1"))
    item_id = str(out.open_item_id)
    push(out, *ran(out, PYTHON, ToolResult("2")))
    assert out.messages_by_item_id[item_id].content == "1"
    result = out.results_by_item_id[item_id]
    assert (result.author, result.content) == (Author(Role.TOOL, "python"), "2")
    assert out.open_item_id is None
