"""Sessions with servers of the SDK, over each transport."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import pytest_asyncio
from mcp.client.sse import sse_client

from harmony.grammar import SchemaJson
from server.errors import InvalidRequest
from server.inbound.hosted import AnswerContext, HostedEntry
from server.tools.base import ApprovalRequested, ToolCall, ToolProgress, ToolResult
from server.tools.mcp import connection, dialer, listing, runtime
from server.tools.mcp.connection import Connection
from server.tools.mcp.rules import ALWAYS, NEVER, ApprovalRule, ToolFilter
from server.tools.mcp.servers import Server
from server.tools.mcp.tool import McpTool
from tests.server.tools.mcp.conftest import (
    OWNER,
    SERVERS,
    call,
    context,
    events,
    guard,
    new_approvals,
    result,
)
from tests.waiting import until

MakeTool = Callable[..., Any]
shares_the_tool = pytest.mark.asyncio(loop_scope="module")
ASK = {"type": "mcp", "server_label": "t"}
NEVER_ASK = {**ASK, "require_approval": "never"}


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=["http", "sse", "stdio"])
async def tool(request: pytest.FixtureRequest) -> AsyncIterator[McpTool]:
    """The tool with the SDK's server, over each transport.

    Tests share it: the server takes more than a second of the processor to start.
    """
    if request.param == "stdio":
        command = request.getfixturevalue("program")
        server = Server("t", command=command, env={"TOKEN": "hunter2222"})
    else:
        url = request.getfixturevalue(f"{request.param}_url")
        server = Server("t", url=url, allow_private=True)
    tool = McpTool({"t": server}, guard, new_approvals())
    await tool.start()
    assert tool.problem is None
    yield tool
    await tool.stop()


@pytest.fixture
def over_http(http_url: str) -> Server:
    """The SDK's server, over streamable HTTP."""
    return Server("t", url=http_url, allow_private=True)


async def requested(session: Any, made: ToolCall) -> ApprovalRequested:
    """The request for approval that is all that the call becomes."""
    (event,) = await events(session, made)
    assert isinstance(event, ApprovalRequested)
    return event


@shares_the_tool
async def test_tools_become_functions(tool: McpTool) -> None:
    declaration = (await tool.open(NEVER_ASK, context())).declaration

    assert [each.name for each in declaration.functions][:2] == ["t__add", "t__count"]
    assert declaration.calls[0].recipient == "functions.t__add"
    assert declaration.call_fields["functions.t__add"] == {"name": "add"}
    assert declaration.fields == {"server_label": "t"}


@shares_the_tool
async def test_a_call_has_a_result(tool: McpTool) -> None:
    session = await tool.open(NEVER_ASK, context())

    added = await result(session, call("t__add", '{"a": 2, "b": 3}'))

    assert (added.text, added.failed) == ("5", False)
    assert added.fields == {"output": "5", "error": None}
    await session.close()


@shares_the_tool
async def test_a_tool_that_fails_has_an_execution_error(tool: McpTool) -> None:
    session = await tool.open(NEVER_ASK, context())

    failed = await result(session, call("t__fail"))

    error = failed.fields["error"]
    assert (failed.failed, failed.fields["output"]) == (True, None)
    assert error["type"] == "mcp_tool_execution_error"
    assert error["content"][0]["text"] in failed.text
    await session.close()


@shares_the_tool
async def test_progress_is_reported(tool: McpTool) -> None:
    session = await tool.open(NEVER_ASK, context())

    *steps, last = await events(session, call("t__slow", '{"steps": 5}'))

    assert {type(step) for step in steps} == {ToolProgress}
    assert isinstance(last, ToolResult)
    assert last.text == "done"
    await session.close()


async def test_a_call_goes_on_with_the_state_that_the_server_answers(
    over_http: Server, make_tool: MakeTool
) -> None:
    session = await (await make_tool(over_http)).open(NEVER_ASK, context())

    done = await result(session, call("t__prepare", '{"rounds": 3}'))

    assert (done.text, done.failed) == ("after 3", False)
    await session.close()


async def test_a_call_fails_for_which_the_server_asks_for_input(
    over_http: Server, make_tool: MakeTool
) -> None:
    session = await (await make_tool(over_http)).open(NEVER_ASK, context())

    failed = await result(session, call("t__ask"))

    assert failed.text == "Error: The tool asks for input, which nobody can give."
    await session.close()


async def test_states_without_an_end_take_the_time_of_one_call(
    over_http: Server, make_tool: MakeTool
) -> None:
    session = await (await make_tool(over_http)).open(NEVER_ASK, context(timeout=0.5))

    late = await result(session, call("t__prepare", '{"rounds": -1}'))

    assert late.text == "Error: The call took more than 0.5 seconds."
    await session.close()


async def test_a_server_over_sse_may_be_silent_for_all_the_time_of_a_call(
    sse_url: str, make_tool: MakeTool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The SDK would end the connection after five minutes; here sooner."""
    impatient = partial(sse_client, sse_read_timeout=0.1)
    monkeypatch.setattr(dialer, "sse_client", impatient)
    tool = await make_tool(Server("t", url=sse_url, allow_private=True))
    session = await tool.open(NEVER_ASK, context())

    frozen = await result(session, call("t__freeze", '{"seconds": 0.5}'))

    assert frozen.text == "done"
    await session.close()


@shares_the_tool
async def test_a_call_that_hangs_times_out_and_the_next_one_works(tool: McpTool) -> None:
    session = await tool.open(NEVER_ASK, context(timeout=0.5))

    hung = await result(session, call("t__hang"))
    session = await tool.open(NEVER_ASK, context())
    added = await result(session, call("t__add", '{"a": 1}'))

    assert hung.fields["error"]["code"] == -32001
    assert added.text == "2"
    await session.close()


@shares_the_tool
async def test_a_call_is_cancelled_when_it_is_closed(tool: McpTool) -> None:
    session = await tool.open(NEVER_ASK, context())
    running = session.run(call("t__slow", '{"steps": 100000}'))
    await anext(running)

    await running.aclose()

    assert (await result(session, call("t__add", '{"a": 1}'))).text == "2"
    await session.close()


async def test_arguments_are_repeated_in_headers_where_the_server_demands_it(
    over_http: Server, make_tool: MakeTool
) -> None:
    tool = await make_tool(over_http)
    session = await tool.open(NEVER_ASK, context())

    assert (await result(session, call("t__region", '{"name": "here"}'))).text == "in here"
    await session.close()


async def test_a_program_that_dies_is_started_again(
    program: tuple[str, ...], make_tool: MakeTool
) -> None:
    tool = await make_tool(Server("t", command=program))
    session = await tool.open(NEVER_ASK, context())

    died = await result(session, call("t__die"))
    added = await result(session, call("t__add", '{"a": 1}'))

    assert died.failed
    assert added.text == "2"


async def test_a_program_that_ends_between_calls_costs_none(
    program: tuple[str, ...], make_tool: MakeTool
) -> None:
    tool = await make_tool(Server("t", command=program))
    session = await tool.open(NEVER_ASK, context())
    first = (await result(session, call("t__process"))).text
    used = session._connection
    assert used is not None

    os.kill(int(first), signal.SIGKILL)
    await until(lambda: used.closed)
    second = await result(session, call("t__process"))

    assert not second.failed
    assert second.text != first


async def test_a_program_that_hangs_is_started_again(
    program: tuple[str, ...],
    make_tool: MakeTool,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    tool = await make_tool(Server("t", command=program))
    session = await tool.open(NEVER_ASK, context(timeout=0.1))
    monkeypatch.setattr(connection, "PING_SECONDS", 0.1)

    hung = await result(session, call("t__freeze"))
    await until(lambda: "hangs" in caplog.text)
    session = await tool.open(NEVER_ASK, context())
    added = await result(session, call("t__add", '{"a": 1}'))

    assert hung.failed
    assert added.text == "2"


async def test_a_program_that_answers_goes_on_after_a_call_that_took_too_long(
    program: tuple[str, ...], make_tool: MakeTool, caplog: pytest.LogCaptureFixture
) -> None:
    tool = await make_tool(Server("t", command=program))
    session = await tool.open(NEVER_ASK, context())
    assert (await result(session, call("t__add", '{"a": 1}'))).text == "2"
    hasty = await tool.open(NEVER_ASK, context(timeout=0.1))

    assert (await result(hasty, call("t__slow", '{"steps": 1000}'))).failed
    assert hasty._connection is not None
    await hasty._connection._suspicion

    assert (await result(session, call("t__count"))).text == "1"
    assert "hangs" not in caplog.text


async def test_a_call_within_its_time_is_not_ended_with_one_that_is_given_up(
    program: tuple[str, ...], make_tool: MakeTool, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = await make_tool(Server("t", command=program))
    session = await tool.open(NEVER_ASK, context())
    hasty = await tool.open(NEVER_ASK, context(timeout=0.05))
    monkeypatch.setattr(connection, "PING_SECONDS", 0.05)

    patient = asyncio.create_task(result(session, call("t__freeze", '{"seconds": 1}')))
    await until(lambda: bool(session._connection and session._connection._requests))
    assert (await result(hasty, call("t__add", '{"a": 1}'))).failed

    assert (await patient).text == "done"
    assert (await result(session, call("t__add", '{"a": 1}'))).text == "2"


async def test_a_program_is_shared_by_all_answers(
    program: tuple[str, ...], make_tool: MakeTool
) -> None:
    tool = await make_tool(Server("t", command=program))
    sessions = [await tool.open(NEVER_ASK, context(owner=name)) for name in ("a", "b", "c")]

    await asyncio.gather(*(result(each, call("t__add", '{"a": 1}')) for each in sessions))

    assert (await result(sessions[0], call("t__count"))).text == "3"


@pytest.mark.parametrize("program", ["growing.py", "announcing.py"])
async def test_a_list_is_fetched_again_when_the_server_says_that_it_has_changed(
    make_tool: MakeTool, program: str
) -> None:
    tool = await make_tool(Server("t", command=(sys.executable, str(SERVERS / program))))
    session = await tool.open(NEVER_ASK, context())
    before = [each.name for each in session.declaration.functions]

    await result(session, call("t__first"))
    session = await tool.open(NEVER_ASK, context())
    after = [each.name for each in session.declaration.functions]

    assert (before, after) == (["t__first"], ["t__first", "t__second"])


async def test_a_list_is_fetched_again_when_the_program_has_ended(make_tool: MakeTool) -> None:
    """Else the notices of the next one, which starts with its first tools, would not be heard."""
    tool = await make_tool(Server("t", command=(sys.executable, str(SERVERS / "growing.py"))))
    session = await tool.open(NEVER_ASK, context())
    await result(session, call("t__first"))
    session = await tool.open(NEVER_ASK, context())
    grown = [each.name for each in session.declaration.functions]

    await (await session._connected()).close()
    session = await tool.open(NEVER_ASK, context())
    after = [each.name for each in session.declaration.functions]

    assert (grown, after) == (["t__first", "t__second"], ["t__first"])


WAITING = """
import pathlib, runpy, sys, time
starts, ready, program = map(pathlib.Path, sys.argv[1:])
starts.open("a").write("started ")
while not ready.exists():
    time.sleep(0.01)
runpy.run_path(str(program))
"""


async def test_a_program_that_starts_slowly_is_there_for_a_later_request(
    make_tool: MakeTool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one that has to be downloaded first."""
    starts, ready = tmp_path / "starts", tmp_path / "ready"
    files = (str(starts), str(ready), str(SERVERS / "growing.py"))
    tool = await make_tool(Server("t", command=(sys.executable, "-c", WAITING, *files)))
    monkeypatch.setattr(listing, "LIST_SECONDS", 0.1)
    early = await tool.open(NEVER_ASK, context())
    await until(starts.exists)

    ready.touch()
    monkeypatch.setattr(listing, "LIST_SECONDS", 60.0)
    late = await tool.open(NEVER_ASK, context())

    assert "took more than" in early.declaration.opening[0]["error"]
    assert [each.name for each in late.declaration.functions] == ["t__first"]
    assert starts.read_text() == "started "


async def test_a_program_that_never_starts_is_given_up_and_started_again(
    make_tool: MakeTool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def counted_dial(*arguments: Any) -> Connection:
        dialled.append(arguments)
        return await dial(*arguments)

    dialled: list[Any] = []
    dial = dialer.Dialer.dial
    files = (str(tmp_path / "starts"), str(tmp_path / "never"), "")
    tool = await make_tool(Server("t", command=(sys.executable, "-c", WAITING, *files)))
    monkeypatch.setattr(runtime, "START_SECONDS", 0.1)
    monkeypatch.setattr(dialer.Dialer, "dial", counted_dial)

    sessions = [await tool.open(NEVER_ASK, context()) for _ in range(2)]

    errors = [session.declaration.opening[0]["error"] for session in sessions]
    assert errors == ["The start of the server's program took more than 0.1 seconds."] * 2
    assert len(dialled) == 2


async def test_a_program_that_starts_ends_with_the_tool(tmp_path: Path) -> None:
    starts = tmp_path / "starts"
    command = (sys.executable, "-c", WAITING, str(starts), str(tmp_path / "never"), "")
    before = asyncio.all_tasks()
    tool = McpTool({"t": Server("t", command=command)}, guard, new_approvals())
    await tool.start()
    opening = asyncio.create_task(tool.open(NEVER_ASK, context()))
    await until(starts.exists)

    await tool.stop()

    await asyncio.wait({opening})
    assert asyncio.all_tasks() == before


async def test_a_program_that_is_missing_gives_an_error(make_tool: MakeTool) -> None:
    tool = await make_tool(Server("t", command=("/nowhere/program",)))

    session = await tool.open(NEVER_ASK, context())

    assert session.declaration.opening[0]["error"] == "The server's program could not be started."


async def test_a_server_that_is_down_gives_an_error_each_time(make_tool: MakeTool) -> None:
    url = "http://127.0.0.1:9/mcp"
    tool = await make_tool(Server("t", url=url, allow_private=True))
    history: tuple[Mapping[str, Any], ...] = ()

    for _ in range(2):
        session = await tool.open(NEVER_ASK, context(history=history))
        history = session.declaration.opening

        assert history[0]["error"].startswith("The server could not be reached")


@shares_the_tool
@pytest.mark.parametrize("tool", ["stdio"], indirect=True)
async def test_the_environment_of_a_program_is_redacted(tool: McpTool) -> None:
    session = await tool.open(NEVER_ASK, context())

    assert (await result(session, call("t__secret"))).text == "the token is [redacted]"


async def test_an_image_becomes_a_note(over_http: Server, make_tool: MakeTool) -> None:
    tool = await make_tool(over_http)
    session = await tool.open(NEVER_ASK, context())

    text = (await result(session, call("t__picture"))).text

    assert text == "[image of type image/png, 42 bytes, left out]"
    await session.close()


async def test_the_list_is_an_item_at_the_beginning(over_http: Server, make_tool: MakeTool) -> None:
    tool = await make_tool(over_http)

    (item,) = (await tool.open(NEVER_ASK, context())).declaration.opening

    assert item["id"].startswith("mcpl_")
    assert (item["type"], item["server_label"]) == ("mcp_list_tools", "t")
    assert item["tools"][0]["name"] == "add"
    assert item["tools"][0]["annotations"] == {"readOnlyHint": True}
    assert "error" not in item


async def test_a_tool_of_a_list_has_no_null(over_http: Server, make_tool: MakeTool) -> None:
    session = await (await make_tool(over_http)).open(ASK, context())

    tools = session.declaration.opening[0]["tools"]
    assert tools
    assert all(None not in tool.values() for tool in tools)


async def test_a_list_is_repeated_unless_the_last_one_of_its_server_is_the_same(
    over_http: Server, make_tool: MakeTool
) -> None:
    tool = await make_tool(over_http)
    (item,) = (await tool.open(NEVER_ASK, context())).declaration.opening
    changed = {**item, "tools": []}
    of_another = {**changed, "server_label": "other"}

    histories = [(item,), (item, of_another), (changed, item), (changed,), (item, changed)]
    sessions = [await tool.open(NEVER_ASK, context(history=each)) for each in histories]

    assert [len(each.declaration.opening) for each in sessions] == [0, 0, 0, 1, 1]
    assert {len(each.declaration.functions) for each in sessions} == {len(item["tools"])}


@pytest.mark.parametrize("allowed", [["add", "no"], {"tool_names": ["add"]}, {"read_only": True}])
async def test_only_allowed_tools_are_declared_and_run(
    allowed: Any, over_http: Server, make_tool: MakeTool
) -> None:
    tool = await make_tool(over_http)

    session = await tool.open({**NEVER_ASK, "allowed_tools": allowed}, context())

    assert [each.name for each in session.declaration.functions] == ["t__add"]
    assert [each["name"] for each in session.declaration.opening[0]["tools"]] == ["add"]
    assert (await result(session, call("t__count"))).fields["error"]["code"] == -32601


async def test_the_grammar_constrains_arguments_by_the_flattened_schema(
    over_http: Server, make_tool: MakeTool
) -> None:
    tool = await make_tool(over_http)

    session = await tool.open(NEVER_ASK, context())

    bodies = {each.recipient: each.body for each in session.declaration.calls}
    body = bodies["functions.t__weather"]
    assert isinstance(body, SchemaJson)
    assert "$ref" not in json.dumps(body.schema)
    jsonschema.Draft202012Validator.check_schema(body.schema)


@pytest.mark.parametrize("content", ['{"a": "x"}', "{}", "[1]", "{", '{"a": 1, "b": {}}'])
async def test_arguments_that_do_not_fit_are_explained_to_the_model(
    content: str, over_http: Server, make_tool: MakeTool
) -> None:
    tool = await make_tool(over_http)
    session = await tool.open(NEVER_ASK, context())

    failed = await result(session, call("t__add", content))

    assert failed.fields["error"]["code"] == -32602
    assert "the arguments" in failed.text


async def test_the_description_of_a_server_stands_at_its_first_tool(
    over_http: Server, make_tool: MakeTool
) -> None:
    tool = await make_tool(over_http)

    session = await tool.open({**NEVER_ASK, "server_description": "Sums."}, context())

    first, second, *_ = session.declaration.functions
    assert first.description == "Add two numbers.\nAbout all tools t__*: Sums."
    assert second.description == "How many times `add` ran."


async def test_a_call_needs_approval_unless_the_request_says_otherwise(
    over_http: Server, make_tool: MakeTool
) -> None:
    tool = await make_tool(over_http)
    session = await tool.open(ASK, context())

    made = await events(session, call("t__add", '{"a": 1}'))

    (asked,) = made
    assert isinstance(asked, ApprovalRequested)
    assert asked.item["type"] == "mcp_approval_request"
    assert asked.item["id"].startswith("mcpr_")
    assert (asked.item["name"], asked.item["arguments"]) == ("add", '{"a": 1}')
    assert "functions.t__add" in session.declaration.approvals


async def test_arguments_are_checked_before_approval_is_requested(
    over_http: Server, make_tool: MakeTool
) -> None:
    tool = await make_tool(over_http)
    session = await tool.open(ASK, context())

    assert (await result(session, call("t__add", "{}"))).failed


async def test_an_operator_requires_approval_whatever_a_request_says(
    http_url: str, make_tool: MakeTool
) -> None:
    tool = await make_tool(Server("t", url=http_url, allow_private=True, approvals=(ALWAYS,)))

    session = await tool.open(NEVER_ASK, context())

    assert session.declaration.echo["require_approval"] == "always"
    assert isinstance((await events(session, call("t__count")))[-1], ApprovalRequested)


async def test_the_echo_has_what_the_rules_of_operator_and_request_ask_together(
    http_url: str, make_tool: MakeTool
) -> None:
    rules = (ApprovalRule(never=ToolFilter(read_only=True)),)
    tool = await make_tool(Server("t", url=http_url, allow_private=True, approvals=rules))
    rule = {"never": {"tool_names": ["count", "add"]}}

    declaration = (await tool.open({**ASK, "require_approval": rule}, context())).declaration

    # `count` is not annotated as one that only reads.
    assert "functions.t__add" not in declaration.approvals
    assert declaration.echo["require_approval"] == {"never": {"tool_names": ["add"]}}


async def test_an_operator_may_permit_calls_of_requests_that_say_nothing(
    http_url: str, make_tool: MakeTool
) -> None:
    tool = await make_tool(Server("t", url=http_url, allow_private=True, approvals=(NEVER,)))

    session = await tool.open(ASK, context())

    assert not session.declaration.approvals
    assert session.declaration.echo["require_approval"] == "never"
    assert not (await result(session, call("t__count"))).failed
    await session.close()


@pytest.mark.parametrize("stored", [True, False])
async def test_an_approved_call_runs_once(
    stored: bool, over_http: Server, make_tool: MakeTool
) -> None:
    tool = await make_tool(over_http)
    first = await tool.open(ASK, context(stored=stored))
    asked = await requested(first, call("t__add", '{"a": 1}'))
    assert (first.state is not None) == stored
    approved = call("t__add", '{"a": 1}', approval_request_id=asked.item["id"])

    second = await tool.open(ASK, context(stored=stored, state=first.state))
    await second.check(approved, "input.1")
    added = await result(second, approved)
    again = await result(second, approved)

    assert added.text == "2"
    assert again.failed
    assert "Another request" in again.text
    assert second.state == ({"approvals": {}} if stored else None)
    await second.close()


async def test_a_refused_call_does_not_run_later(over_http: Server, make_tool: MakeTool) -> None:
    tool = await make_tool(over_http)
    session = await tool.open(ASK, context())
    asked = await requested(session, call("t__count"))
    answered = call("t__count", approval_request_id=asked.item["id"])

    await session.refuse(answered, "input.1")
    with pytest.raises(InvalidRequest) as error:
        await session.refuse(answered, "input.1")
    ran = await result(session, answered)

    assert (error.value.code, error.value.param) == ("approval_request_answered", "input.1")
    assert ran.failed
    assert session.state is None


async def test_an_approval_is_checked_while_the_server_is_down(
    hostile: Callable[..., Server], make_tool: MakeTool
) -> None:
    tool = await make_tool(hostile("/list-fails", approvals=()))
    session = await tool.open({**ASK, "server_label": "h"}, context(stored=False))
    approvals = session._approvals
    request_id = approvals.request_id(session._proposed("add", "{}"), stored=False)
    approved = call("h__add", approval_request_id=request_id)

    await session.check(approved, "input.1")

    assert "no such tool" in (await result(session, approved)).text


@pytest.mark.parametrize("stored", [True, False])
async def test_an_approval_holds_for_the_same_call_only(
    stored: bool, over_http: Server, make_tool: MakeTool
) -> None:
    tool = await make_tool(over_http)
    session = await tool.open(ASK, context(stored=stored))
    asked = await requested(session, call("t__add", '{"a": 1}'))
    approved = asked.item["id"]

    with pytest.raises(InvalidRequest) as changed:
        await session.check(call("t__add", '{"a": 2}', approval_request_id=approved), "input.1")
    with pytest.raises(InvalidRequest) as other:
        await session.check(call("t__count", '{"a": 1}', approval_request_id=approved), "input.1")
    with pytest.raises(InvalidRequest) as made_up:
        await session.check(call("t__add", '{"a": 1}', approval_request_id="mcpr_1"), "input.1")

    assert (changed.value.code, changed.value.param) == ("approval_request_mismatch", "input.1")
    assert other.value.code == "approval_request_mismatch"
    assert made_up.value.code == "approval_request_not_found"


async def test_an_approval_of_another_owner_is_not_found(
    over_http: Server, make_tool: MakeTool
) -> None:
    tool = await make_tool(over_http)
    first = await tool.open(ASK, context(stored=False, owner="a"))
    asked = await requested(first, call("t__add", '{"a": 1}'))
    second = await tool.open(ASK, context(stored=False, owner="b"))

    approved = call("t__add", '{"a": 1}', approval_request_id=asked.item["id"])

    with pytest.raises(InvalidRequest) as error:
        await second.check(approved, "input.1")

    assert error.value.code == "approval_request_not_found"


async def test_requests_for_approval_without_an_answer_are_limited(
    over_http: Server, make_tool: MakeTool
) -> None:
    tool = await make_tool(over_http)
    session = await tool.open(ASK, context())

    asked = [(await requested(session, call("t__count"))).item["id"] for _ in range(70)]

    assert list(session.state["approvals"]) == asked[-64:]


async def test_an_operator_limits_the_time_of_calls(http_url: str, make_tool: MakeTool) -> None:
    server = Server("t", url=http_url, allow_private=True, timeout=0.2)
    tool = await make_tool(server)
    session = await tool.open(NEVER_ASK, context(timeout=1000.0))

    assert "more than 0.2 seconds" in (await result(session, call("t__hang"))).text
    await session.close()


@pytest.mark.parametrize(
    ("timeouts", "text"),
    [
        ({"mcp": 30.0, "mcp.t": 0.1}, "more than 0.1 seconds"),
        ({"mcp": 0.1, "mcp.t": 30.0}, "done"),
    ],
)
async def test_a_label_has_a_time_limit_of_its_own(
    timeouts: dict[str, float], text: str, over_http: Server, make_tool: MakeTool
) -> None:
    tool = await make_tool(over_http)
    answer = AnswerContext(owner=OWNER, answer_id="resp_1", timeouts=timeouts, states={})
    session = await tool.open(NEVER_ASK, answer.of(HostedEntry(tool, NEVER_ASK, "tools.0")))

    # It sleeps for more than a second.
    assert text in (await result(session, call("t__slow", '{"steps": 120}'))).text
    await session.close()


async def test_the_echo_has_no_secrets(http_url: str, make_tool: MakeTool) -> None:
    url = f"{http_url}?key=hunter2222"
    tool = await make_tool(Server("t", url=url, allow_private=True))
    entry = {**NEVER_ASK, "server_url": url, "authorization": "token22", "headers": {"x-a": "b"}}

    echo = (await tool.open(entry, context())).declaration.echo

    assert echo == {
        "type": "mcp",
        "server_label": "t",
        "server_url": http_url.removesuffix("/mcp"),
        "server_description": None,
        "allowed_tools": None,
        "require_approval": "never",
        "headers": None,
    }


async def test_nothing_is_cited(over_http: Server, make_tool: MakeTool) -> None:
    session = await (await make_tool(over_http)).open(ASK, context())

    assert session.cite(0) is None
