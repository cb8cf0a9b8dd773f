"""What comes of a server that hangs, dies, floods or lies."""

import asyncio
import json
import logging
import urllib.request
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from harmony.grammar import AnyObject
from server.tools.mcp import listing as listing_module
from server.tools.mcp import session as session_module
from server.tools.mcp.connection import within
from server.tools.mcp.failures import Failure
from server.tools.mcp.limits import CACHE_SECONDS, MAX_OUTPUT
from server.tools.mcp.servers import Server
from tests.server.tools.mcp.conftest import call, context, result

MakeTool = Callable[..., Any]
Hostile = Callable[..., Server]
ENTRY = {"type": "mcp", "server_label": "h", "require_approval": "never"}


def counted(server: Server) -> dict[str, int]:
    origin = server.origin
    assert origin is not None
    with urllib.request.urlopen(f"{origin}/count") as response:
        return dict(json.load(response))


HANGS = "took more than"
INVALID = "answer is not valid"
FAULTS = {
    "/wrong-id": ("mcp_protocol_error", HANGS),
    "/hang": ("mcp_protocol_error", HANGS),
    "/endless": ("mcp_protocol_error", HANGS),
    "/flood": ("mcp_protocol_error", "sent more than it may"),
    "/large": ("mcp_protocol_error", "sent more than it may"),
    "/large-event": ("mcp_protocol_error", "sent more than it may"),
    "/gzip": ("mcp_protocol_error", "Connection closed"),
    "/redirect": ("http_error", "HTTP 307"),
    "/not-json": ("mcp_protocol_error", INVALID),
    "/not-mcp": ("mcp_protocol_error", INVALID),
    "/html": ("mcp_protocol_error", "content type"),
    "/refuses": ("http_error", "HTTP 401"),
    "/fails": ("http_error", "HTTP 503"),
    "/explains": ("mcp_protocol_error", "Name the city"),
    "/values": ("mcp_protocol_error", "sent more than it may"),
    "/values-event": ("mcp_protocol_error", "sent more than it may"),
    "/strange": ("http_error", "HTTP 799 (unknown status)"),
    "/cut": ("mcp_protocol_error", "Connection closed"),
}


@pytest.mark.parametrize("path", FAULTS)
async def test_a_faulty_call_costs_only_itself(
    path: str, hostile: Hostile, make_tool: MakeTool
) -> None:
    kind, words = FAULTS[path]
    server = hostile(path)
    calls = counted(server).get(f"{path} tools/call ", 0)
    tool = await make_tool(server)
    timeout = 1.0 if words == HANGS else 30.0
    session = await tool.open(ENTRY, context(timeout=timeout))

    failed = await result(session, call("h__add"))

    assert failed.failed
    assert failed.fields["output"] is None
    assert failed.fields["error"]["type"] == kind
    assert words in failed.fields["error"]["message"]
    assert "169.254" not in failed.text
    assert counted(server)[f"{path} tools/call "] == calls + 1
    await session.close()


async def test_closing_a_call_ends_it(hostile: Hostile, make_tool: MakeTool) -> None:
    server = hostile("/endless")
    tool = await make_tool(server)
    session = await tool.open(ENTRY, context())
    running = session.run(call("h__add"))
    await anext(running)

    await running.aclose()

    with pytest.raises(StopAsyncIteration):
        await anext(running)
    async with asyncio.timeout(60):
        cancelled = "/endless notifications/cancelled "
        while cancelled not in counted(server):  # noqa: ASYNC110 - the SDK sends it by and by
            await asyncio.sleep(0.01)
    await session.close()


async def test_a_server_may_not_ask_the_client(hostile: Hostile, make_tool: MakeTool) -> None:
    tool = await make_tool(hostile("/asks"))
    session = await tool.open(ENTRY, context())

    assert (await result(session, call("h__add"))).text == "5"
    await session.close()


async def test_a_call_that_takes_too_long_does_not_have_the_error_of_the_last_one(
    hostile: Hostile, make_tool: MakeTool, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = iter((30.0, 1.0))  # The first call connects, which may take a while.

    def limited(_: float, work: Awaitable[Any], failure: Failure) -> Awaitable[Any]:
        return within(next(limits), work, failure)

    monkeypatch.setattr(session_module, "within", limited)
    tool = await make_tool(hostile("/stops"))
    session = await tool.open(ENTRY, context())

    results = [await result(session, call("h__add")) for _ in range(2)]

    assert [each.fields["error"]["code"] for each in results] == [503, -32001]
    await session.close()


async def test_the_next_call_works_after_a_fault(hostile: Hostile, make_tool: MakeTool) -> None:
    tool = await make_tool(hostile("/flood"))
    session = await tool.open(ENTRY, context())

    first = await result(session, call("h__add"))
    second = await result(session, call("h__add"))

    assert first.text == second.text
    await session.close()


async def test_a_server_that_forgets_the_session_gets_the_call_in_another(
    hostile: Hostile, make_tool: MakeTool
) -> None:
    server = hostile("/forgets")
    tool = await make_tool(server)
    session = await tool.open(ENTRY, context())

    results = [await result(session, call("h__add")) for _ in range(3)]

    assert [each.text for each in results] == ["5"] * 3
    # The list of tools has a session of its own.
    assert counted(server)["/forgets initialize "] == 1 + 3
    await session.close()


async def test_a_call_is_repeated_once_only(hostile: Hostile, make_tool: MakeTool) -> None:
    server = hostile("/forgets-all")
    tool = await make_tool(server)
    session = await tool.open(ENTRY, context())

    failed = await result(session, call("h__add"))

    assert failed.fields["error"]["code"] == 404
    assert counted(server)["/forgets-all tools/call "] == 2
    await session.close()


async def test_a_private_address_is_not_connected_to(hostile: Hostile, make_tool: MakeTool) -> None:
    server = hostile("/private", allow_private=False)
    tool = await make_tool(server)

    session = await tool.open(ENTRY, context())

    (item,) = session.declaration.opening
    assert "not permitted" in item["error"]
    assert not [path for path in counted(server) if path.startswith("/private")]


LISTS = {
    "/list-hang": "took more than",
    "/list-fails": "HTTP 500",
    "/deaf": "took more than",
    "/version": "version of the protocol",
    "/pages": "64 pages",
    "/too-many": "4,096 tools",
    "/many": "128 tools",
    "/big": "more than it may",
    "/expanding": "1,048,576 bytes",
    "/deeper": "not valid",
    "/not-tools": "not valid",
}


@pytest.mark.parametrize("path", LISTS)
async def test_a_list_that_fails_gives_an_item_and_no_functions(
    path: str, hostile: Hostile, make_tool: MakeTool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if LISTS[path] == HANGS:
        monkeypatch.setattr(listing_module, "LIST_SECONDS", 0.5)
    tool = await make_tool(hostile(path))

    session = await tool.open(ENTRY, context())

    assert (session.declaration.functions, session.declaration.calls) == ((), ())
    (item,) = session.declaration.opening
    assert item["type"] == "mcp_list_tools"
    assert item["tools"] == []
    assert LISTS[path] in item["error"]
    assert "hunter2222" not in item["error"]


async def test_no_more_pages_of_a_list_are_fetched_than_their_bytes_permit(
    hostile: Hostile, make_tool: MakeTool
) -> None:
    server = hostile("/large-pages")
    tool = await make_tool(server)

    session = await tool.open(ENTRY, context())

    assert "4,194,304 bytes" in session.declaration.opening[0]["error"]
    assert counted(server)["/large-pages tools/list "] == 4


async def test_tools_of_several_pages_are_listed(hostile: Hostile, make_tool: MakeTool) -> None:
    tool = await make_tool(hostile("/two-pages"))

    session = await tool.open(ENTRY, context())

    assert [each.name for each in session.declaration.functions] == ["h__add", "h__second"]


async def test_a_list_ends_where_its_cursor_repeats(hostile: Hostile, make_tool: MakeTool) -> None:
    server = hostile("/same-cursor")
    tool = await make_tool(server)

    session = await tool.open(ENTRY, context())

    assert [each.name for each in session.declaration.functions] == ["h__add"]
    assert counted(server)["/same-cursor tools/list "] == 2


async def test_a_tool_that_is_listed_twice_counts_once(
    hostile: Hostile, make_tool: MakeTool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing_module, "MAX_LISTED", 1)
    tool = await make_tool(hostile("/same-cursor"))

    session = await tool.open(ENTRY, context())

    assert [each.name for each in session.declaration.functions] == ["h__add"]


async def test_names_that_no_header_can_have_are_left_out(
    hostile: Hostile, make_tool: MakeTool
) -> None:
    tool = await make_tool(hostile("/names"))

    session = await tool.open(ENTRY, context())

    assert [each.name for each in session.declaration.functions] == ["h__add"]
    assert [each["name"] for each in session.declaration.opening[0]["tools"]] == ["add"]


async def test_an_invalid_tool_costs_no_other(hostile: Hostile, make_tool: MakeTool) -> None:
    tool = await make_tool(hostile("/invalid"))

    declared = (await tool.open(ENTRY, context())).declaration

    assert [each.name for each in declared.functions] == ["h__bare", "h__add"]


async def test_tools_that_run_only_as_tasks_are_left_out(
    hostile: Hostile, make_tool: MakeTool
) -> None:
    """The server would refuse each call."""
    tool = await make_tool(hostile("/tasks"))

    session = await tool.open(ENTRY, context())

    assert [each["name"] for each in session.declaration.opening[0]["tools"]] == [
        "forbidden",
        "optional",
    ]


@pytest.mark.parametrize("path", ["/bomb", "/text-bomb"])
async def test_a_schema_bomb_permits_any_object(
    path: str, hostile: Hostile, make_tool: MakeTool
) -> None:
    tool = await make_tool(hostile(path))

    session = await tool.open(ENTRY, context())

    assert session.declaration.calls[0].body == AnyObject()
    assert session.declaration.functions[0].parameters == {"type": "object"}


async def test_schemas_that_become_too_large_together_permit_any_object(
    hostile: Hostile, make_tool: MakeTool
) -> None:
    tool = await make_tool(hostile("/all-expanding"))

    session = await tool.open({**ENTRY, "allowed_tools": ["t0", "t39"]}, context())

    first, last = session.declaration.functions
    assert len(first.parameters["properties"]) == 280
    assert last.parameters == {"type": "object"}


async def test_a_schema_nested_too_deep_is_left_out(hostile: Hostile, make_tool: MakeTool) -> None:
    tool = await make_tool(hostile("/deep"))

    session = await tool.open(ENTRY, context())

    assert [each.name for each in session.declaration.functions] == ["h__plain"]


@pytest.mark.parametrize("path", ["/odd", "/regex"])
async def test_a_hostile_schema_does_not_stop_a_call(
    path: str, hostile: Hostile, make_tool: MakeTool
) -> None:
    tool = await make_tool(hostile(path))
    session = await tool.open(ENTRY, context())

    arguments = json.dumps({"a": "a" * 40 + "!"})

    assert (await result(session, call("h__add", arguments))).text == "5"
    await session.close()


async def test_a_tool_that_is_gone_fails_and_the_list_is_made_anew(
    hostile: Hostile, make_tool: MakeTool
) -> None:
    tool = await make_tool(hostile("/changing"))
    first = await tool.open(ENTRY, context())

    failed = await result(first, call("h__add"))
    second = await tool.open(ENTRY, context())

    assert failed.fields["error"]["code"] == -32602
    assert [each.name for each in second.declaration.functions] == ["h__other"]
    await first.close()


async def test_a_list_of_a_server_that_cannot_be_reached_any_more_is_dropped(
    hostile: Hostile, make_tool: MakeTool
) -> None:
    tool = await make_tool(hostile("/moved"))
    first = await tool.open(ENTRY, context())

    failed = await result(first, call("h__add"))
    second = await tool.open(ENTRY, context())

    assert failed.fields["error"]["code"] == 502
    assert "HTTP 502" in second.declaration.opening[0]["error"]


@pytest.mark.parametrize(("named", "declared"), [(128, 128), (129, 0)])
async def test_a_request_may_name_as_many_tools_as_the_limit(
    named: int, declared: int, hostile: Hostile, make_tool: MakeTool
) -> None:
    tool = await make_tool(hostile("/many"))
    names = [f"t{number}" for number in range(named)]

    session = await tool.open({**ENTRY, "allowed_tools": names}, context())

    assert len(session.declaration.functions) == declared
    assert ("error" in session.declaration.opening[0]) == (declared == 0)


@pytest.mark.parametrize(("path", "times"), [("/explains", 2), ("/fails", 1)])
async def test_a_list_that_a_call_shows_to_be_old_is_dropped(
    path: str, times: int, hostile: Hostile, make_tool: MakeTool
) -> None:
    """A call with arguments that are not valid any more, and one that failed otherwise."""
    server = hostile(path)
    before = counted(server).get(f"{path} tools/list ", 0)
    tool = await make_tool(server)
    for _ in range(2):
        session = await tool.open(ENTRY, context())
        await result(session, call("h__add"))
        await session.close()

    assert counted(server)[f"{path} tools/list "] == before + times


async def test_a_list_is_fetched_once_for_each_owner(hostile: Hostile, make_tool: MakeTool) -> None:
    server = hostile("/cached")
    tool = await make_tool(server)

    for owner in ("a", "a", "b"):
        await tool.open(ENTRY, context(owner=owner))

    assert counted(server)["/cached tools/list "] == 2


async def test_a_list_that_is_too_old_is_fetched_again(
    hostile: Hostile, make_tool: MakeTool, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert CACHE_SECONDS == 300
    monkeypatch.setattr(listing_module, "CACHE_SECONDS", 0)
    server = hostile("/old")
    tool = await make_tool(server)

    for _ in range(2):
        await tool.open(ENTRY, context())

    assert counted(server)["/old tools/list "] == 2


async def test_a_list_is_fetched_again_with_other_headers(
    hostile: Hostile, make_tool: MakeTool
) -> None:
    server = hostile("/headers")
    tool = await make_tool(server)

    for token in ("one", "two"):
        await tool.open({**ENTRY, "authorization": token}, context())

    assert counted(server)["/headers tools/list Bearer one"] == 1
    assert counted(server)["/headers tools/list Bearer two"] == 1


async def test_a_long_result_is_truncated(hostile: Hostile, make_tool: MakeTool) -> None:
    tool = await make_tool(hostile("/long"))
    session = await tool.open(ENTRY, context())

    text = (await result(session, call("h__add"))).text

    assert len(text.encode()) <= MAX_OUTPUT
    assert text.endswith("[The rest of the result is left out.]")
    await session.close()


async def test_a_result_of_many_bytes_is_not_truncated_below_the_limit(
    hostile: Hostile, make_tool: MakeTool
) -> None:
    tool = await make_tool(hostile("/wide"))
    session = await tool.open(ENTRY, context())

    assert (await result(session, call("h__add"))).text == "é" * 300_000
    await session.close()


async def test_signs_in_a_text_are_no_values(hostile: Hostile, make_tool: MakeTool) -> None:
    tool = await make_tool(hostile("/table"))
    session = await tool.open(ENTRY, context())

    assert (await result(session, call("h__add"))).text == '"[{,' * 200_000
    await session.close()


async def test_secrets_that_a_server_repeats_are_redacted(
    hostile: Hostile, make_tool: MakeTool
) -> None:
    tool = await make_tool(hostile("/echo"))
    session = await tool.open({**ENTRY, "authorization": "secret-token"}, context())

    assert (await result(session, call("h__add"))).text == "got [redacted]"
    await session.close()


async def test_arguments_keep_names_and_values_that_are_secrets_too(
    hostile: Hostile, make_tool: MakeTool
) -> None:
    tool = await make_tool(hostile("/repeats"))
    session = await tool.open({**ENTRY, "headers": {"x-environment": "secret-token"}}, context())

    declaration = session.declaration
    called = await result(session, call("h__add", '{"secret-token": "secret-token"}'))

    assert declaration.functions[0].parameters == {
        "type": "object",
        "description": "For [redacted].",
        "properties": {"secret-token": {"enum": ["secret-token"]}},
    }
    assert "secret-token" not in json.dumps(declaration.opening)
    assert called.text == "5"
    await session.close()


@pytest.mark.parametrize("path", ["/not-json", "/not-progress"])
async def test_the_sdk_logs_nothing_of_a_server(
    path: str, hostile: Hostile, make_tool: MakeTool, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    tool = await make_tool(hostile(f"{path}?key=hunter2222"))
    session = await tool.open({**ENTRY, "authorization": "secret-token"}, context())

    await result(session, call("h__add", '{"text": "private words"}'))
    await session.close()

    for word in ("hunter2222", "secret-token", "private words", "{]"):
        assert word not in caplog.text


KINDS = {
    "/kinds": "5\n[audio of type audio/wav, 3 bytes, left out]\n[resource: f at file:///f]\n"
    "[resource: file:///t]\ninside\n[resource of type binary, 3 bytes, left out]",
    "/structured": '{"sum":5}',
    "/own-kind": "[content of an unknown kind left out]\n5",
    "/only-structured": '{"sum":5}',
    "/list": "[5]",
    "/empty": "[The tool returned nothing.]",
}


@pytest.mark.parametrize("path", KINDS)
async def test_content_that_is_no_text_becomes_a_note(
    path: str, hostile: Hostile, make_tool: MakeTool
) -> None:
    tool = await make_tool(hostile(path))
    session = await tool.open(ENTRY, context())

    assert (await result(session, call("h__add"))).text == KINDS[path]
    await session.close()


async def test_a_large_picture_in_an_event_becomes_a_note(
    hostile: Hostile, make_tool: MakeTool
) -> None:
    """Servers answer in events by default, and pictures of whole pages have megabytes."""
    tool = await make_tool(hostile("/picture-event"))
    session = await tool.open(ENTRY, context())

    text = (await result(session, call("h__add"))).text

    assert text == "[image of type image/png, 2,359,296 bytes, left out]"
    await session.close()
