"""Hosted tools by name: built in, of third parties, and those that cannot be made."""

import sys
from importlib.metadata import EntryPoint

import pytest

from server.errors import APIError
from server.store.responses.memory import MemoryStore
from server.tools import registry
from server.tools.base import HostedTool, ToolContext
from server.tools.registry import ToolSetup, UnknownTool
from tests.server.tools.hosted import Tool

CONTEXT = ToolContext("a", "resp_1", "tools.0", 1)


def make(setup: ToolSetup) -> HostedTool:
    return Tool(problem=setup.parts["problem"])


def broken(setup: ToolSetup) -> HostedTool:
    raise ValueError("a defect")


SETUP = ToolSetup(MemoryStore(), {"problem": "not here"})


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three tools of third parties, and one with the name of a built-in tool."""
    module = "tests.server.tools.test_registry"
    values = {"good": "make", "bad": "broken", "gone": "gone:make", "python": "make"}
    entries = [
        EntryPoint(name, value if ":" in value else f"{module}:{value}", registry.GROUP)
        for name, value in values.items()
    ]
    monkeypatch.setattr(registry, "entry_points", lambda group: entries)


@pytest.mark.usefixtures("installed")
def test_built_in_names_come_first_and_cannot_be_taken_over() -> None:
    assert registry.names() == ["python", "browser", "mcp", "bad", "gone", "good"]


@pytest.mark.usefixtures("installed")
def test_a_tool_is_made_by_its_factory() -> None:
    (tool,) = registry.create(("good",), SETUP)
    assert (tool.name, tool.problem) == ("python", "not here")


@pytest.mark.usefixtures("installed")
def test_without_names_all_tools_are_made() -> None:
    assert len(registry.create(None, SETUP)) == 6
    assert registry.create((), SETUP) == ()


@pytest.mark.usefixtures("installed")
async def test_a_tool_that_cannot_be_made_says_why(caplog: pytest.LogCaptureFixture) -> None:
    bad, gone = registry.create(("bad", "gone"), SETUP)
    assert bad.problem == "it cannot be made: ValueError"
    assert "No module named 'gone'" in str(gone.problem)
    assert "the hosted tool bad cannot be made" in caplog.text
    await bad.start()
    with pytest.raises(APIError) as refusal:
        await bad.open({}, CONTEXT)
    assert (refusal.value.code, refusal.value.param) == ("tool_unavailable", "tools.0")
    await bad.stop()


async def test_requests_name_a_built_in_tool_that_cannot_be_imported_by_its_types(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "server.tools.mcp.tool", None)
    (tool,) = registry.create(iter(("mcp",)), SETUP)
    assert (tool.name, tool.types) == ("mcp", frozenset({"mcp"}))
    with pytest.raises(APIError, match="The tool 'mcp' cannot be used on this server: it cannot"):
        await tool.open({"type": "mcp"}, CONTEXT)


def test_an_unknown_name_is_an_error() -> None:
    there = r"there are python \(code_interpreter\), browser \(web_search\), mcp$"
    with pytest.raises(UnknownTool, match=f"unknown hosted tool 'x'; {there}"):
        registry.create(("x",), SETUP)
