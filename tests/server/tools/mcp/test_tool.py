"""The tool: its start and stop, and many answers at once."""

import asyncio
import importlib
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from server.errors import InvalidRequest
from server.store.responses.memory import MemoryStore
from server.tools.base import HostedTool, ToolResult
from server.tools.mcp.approvals import Approvals
from server.tools.mcp.failures import REQUEST_TIMEOUT
from server.tools.mcp.rules import NEVER
from server.tools.mcp.servers import Server
from server.tools.mcp.tool import McpTool, open_mcp
from server.tools.registry import ToolSetup
from tests.server.tools.mcp.conftest import call, context, guard, result

MakeTool = Callable[..., Any]
ROOT = Path(__file__).parents[4]
ENTRY = {"type": "mcp", "require_approval": "never"}


async def test_it_is_a_hosted_tool(approvals: Approvals) -> None:
    tool: HostedTool = McpTool({}, guard, approvals)

    await tool.start()

    assert (tool.name, {*tool.types}, tool.problem) == ("mcp", {"mcp"}, None)
    await tool.stop()
    await tool.stop()


@pytest.mark.parametrize("package", ["mcp", "mcp_types", "httpx2"])
async def test_without_the_extra_it_has_a_problem(
    package: str, approvals: Approvals, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    tool = McpTool({}, guard, approvals)

    await tool.start()

    assert "gpt-oss-server[mcp]" in (tool.problem or "")
    with pytest.raises(InvalidRequest, match="cannot be used"):
        await tool.open({**ENTRY, "server_label": "a", "server_url": "https://a.b"}, context())


async def test_an_sdk_that_cannot_be_imported_is_a_problem_from_then_on(
    approvals: Approvals, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(name: str) -> Any:
        raise TypeError(f"{name} does not match")

    monkeypatch.setattr(importlib, "import_module", broken)
    tool = McpTool({}, guard, approvals)
    await tool.start()
    assert tool.problem is None

    for _ in range(2):
        with pytest.raises(InvalidRequest, match="cannot be imported: TypeError"):
            await tool.open({**ENTRY, "server_label": "a", "server_url": "https://a.b"}, context())

    assert tool.problem == "its SDK cannot be imported: TypeError"
    assert [each.levelname for each in caplog.records] == ["ERROR"]


STARTS = """
import asyncio, sys
from server.tools.mcp.servers import Server
from server.tools.mcp.tool import McpTool

servers = {"t": Server("t", url="https://a.b")} if sys.argv[1:] else {}
asyncio.run(McpTool(servers, None, None).start())
print(sorted({"mcp", "httpx2"} & sys.modules.keys()))
"""


@pytest.mark.parametrize(("operators", "imported"), [((), "[]"), (("t",), "['httpx2', 'mcp']")])
def test_only_servers_of_the_operator_import_the_sdk_at_the_start(
    operators: tuple[str, ...], imported: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", STARTS, *operators],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout.strip() == imported


@pytest.fixture
def go_on(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Imports by `import_module` wait for it."""
    event, import_module = threading.Event(), importlib.import_module

    def slow(name: str) -> Any:
        event.wait(60)
        return import_module(name)

    monkeypatch.setattr(importlib, "import_module", slow)
    return event


async def test_a_tool_that_stops_while_the_sdk_is_imported_opens_nothing(
    approvals: Approvals, go_on: threading.Event
) -> None:
    tool = McpTool({}, guard, approvals)
    await tool.start()
    entry = {**ENTRY, "server_label": "a", "server_url": "https://a.b"}
    opening = asyncio.create_task(tool.open(entry, context()))
    await asyncio.sleep(0)
    await tool.stop()
    go_on.set()

    with pytest.raises(InvalidRequest, match="not running"):
        await opening


async def test_a_request_waits_for_a_tool_that_starts(
    hostile: Callable[..., Server], approvals: Approvals, go_on: threading.Event
) -> None:
    tool = McpTool({"h": hostile("/slow")}, guard, approvals)
    starting = asyncio.create_task(tool.start())
    await asyncio.sleep(0)
    opening = asyncio.create_task(tool.open({**ENTRY, "server_label": "h"}, context()))
    await asyncio.sleep(0)
    assert not opening.done()
    go_on.set()
    session = await opening
    assert [each.name for each in session.declaration.functions] == ["h__add"]
    await starting
    await tool.stop()


async def test_a_tool_that_was_stopped_opens_nothing(approvals: Approvals) -> None:
    tool = McpTool({}, guard, approvals)

    with pytest.raises(InvalidRequest) as error:
        await tool.open({**ENTRY, "server_label": "a", "server_url": "https://a.b"}, context())

    assert (error.value.param, error.value.code) == ("tools.0", "tool_unavailable")


async def test_stopping_ends_calls_of_programs(
    program: tuple[str, ...], approvals: Approvals
) -> None:
    tool = McpTool({"t": Server("t", command=program)}, guard, approvals)
    await tool.start()
    session = await tool.open({**ENTRY, "server_label": "t"}, context())
    running = session.run(call("t__slow", '{"steps": 100000}'))
    await anext(running)

    await tool.stop()

    *_, last = [event async for event in running]
    assert isinstance(last, ToolResult)
    assert last.failed
    assert "stopping" in (await result(session, call("t__count"))).text


@pytest.mark.parametrize("transport", ["http", "sse", "stdio"])
async def test_nothing_is_left_after_a_stop(
    transport: str, approvals: Approvals, request: pytest.FixtureRequest
) -> None:
    if transport == "stdio":
        server = Server("t", command=request.getfixturevalue("program"))
    else:
        url = request.getfixturevalue(f"{transport}_url")
        server = Server("t", url=url, allow_private=True)
    before = asyncio.all_tasks()
    tool = McpTool({"t": server}, guard, approvals)
    await tool.start()
    session = await tool.open({**ENTRY, "server_label": "t"}, context())
    added = await result(session, call("t__add", '{"a": 1}'))
    # The connection is open, so that the small limit is the call's alone.
    session._context = context(timeout=0.3)
    hung = await result(session, call("t__hang"))

    await session.close()
    await session.close()
    await tool.stop()

    assert (added.text, hung.fields["error"]["code"]) == ("2", REQUEST_TIMEOUT)
    assert asyncio.all_tasks() == before


async def test_stopping_ends_the_threads_that_resolve_names(approvals: Approvals) -> None:
    setup = ToolSetup(MemoryStore(), parts={"mcp_file": None, "approvals": approvals})
    tool = open_mcp(setup)
    await tool.start()
    others = set(threading.enumerate())
    assert tool._resolver is not None
    await tool._resolver("localhost")
    threads = [
        each
        for each in threading.enumerate()
        if each not in others and each.name.startswith("resolve")
    ]
    assert threads

    await tool.stop()
    await tool.stop()

    for each in threads:
        await asyncio.to_thread(each.join, 60)
    assert not any(each.is_alive() for each in threads)


async def test_a_server_that_hangs_delays_no_other(
    hostile: Callable[..., Server], make_tool: MakeTool
) -> None:
    """100 answers over four servers: all calls of three of them end while the fourth hangs."""
    paths = {"one": "/one", "two": "/two", "three": "/three", "hung": "/hang"}
    servers = {
        label: Server(label, url=hostile(path).url, allow_private=True, approvals=(NEVER,))
        for label, path in paths.items()
    }
    tool = await make_tool(*servers.values())

    async def answer(label: str) -> ToolResult:
        session = await tool.open({**ENTRY, "server_label": label}, context(timeout=600.0))
        try:
            return await result(session, call(f"{label}__add"))
        finally:
            await session.close()

    tasks = {label: [asyncio.create_task(answer(label)) for _ in range(25)] for label in servers}
    others = [task for label in ("one", "two", "three") for task in tasks[label]]

    texts = {made.text for made in await asyncio.gather(*others)}

    assert texts == {"5"}
    assert not any(task.done() for task in tasks["hung"])
    for task in tasks["hung"]:
        task.cancel()
    await asyncio.gather(*tasks["hung"], return_exceptions=True)


async def test_a_server_that_does_not_list_delays_no_other(
    hostile: Callable[..., Server], make_tool: MakeTool
) -> None:
    tool = await make_tool(hostile("/list-hang"))
    other = await make_tool(hostile("/fine"))
    entry = {**ENTRY, "server_label": "h"}
    hung = [asyncio.create_task(tool.open(entry, context(owner=f"{n}"))) for n in range(25)]

    opened = await asyncio.gather(*(other.open(entry, context(owner=f"{n}")) for n in range(25)))

    assert {len(session.declaration.functions) for session in opened} == {1}
    assert not any(task.done() for task in hung)
    for task in hung:
        task.cancel()
    await asyncio.gather(*hung, return_exceptions=True)
