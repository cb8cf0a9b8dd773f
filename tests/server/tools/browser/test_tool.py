"""The tool as the server starts it."""

import asyncio
import json
import os
import re
from pathlib import Path

import pytest

from harmony.messages import Channel
from server.store.responses.memory import MemoryStore
from server.tools import registry
from server.tools.base import HostedTool, ToolCall, ToolContext, ToolResult
from server.tools.browser.tool import BrowserOptions, BrowserTool
from server.tools.registry import ToolSetup

CONTEXT = ToolContext("a", "resp_1", "tools.0", 20.0)


async def test_the_documentation_is_searched_opened_and_cited(tmp_path: Path) -> None:
    tool = BrowserTool(BrowserOptions(cache=str(tmp_path)), {})
    hosted: HostedTool = tool
    await hosted.start()
    assert tool.problem is None
    session = await tool.open({"type": "web_search", "external_web_access": False}, CONTEXT)
    texts = []
    for name, arguments in (
        ("search", {"query": "Which options limit open connections?", "topn": 3}),
        ("open", {"id": 0}),
        ("find", {"pattern": "connections"}),
    ):
        call = ToolCall("ws_1", f"browser.{name}", Channel.ANALYSIS, json.dumps(arguments))
        *_, result = [event async for event in session.run(call)]
        assert isinstance(result, ToolResult)
        assert not result.failed
        texts.append(result.text)
    assert [text[:4] for text in texts] == ["[0] ", "[1] ", "[2] "]
    source = session.cite(2)
    assert source is not None
    assert source.url.startswith("file-search://gpt-oss-server/")
    await session.close()
    await tool.stop()
    await tool.stop()


async def test_a_tool_without_a_provider_has_a_problem() -> None:
    tool = BrowserTool(BrowserOptions(search=("brave",)), {})
    await tool.start()
    assert tool.problem == "brave needs a key in BRAVE_SEARCH_API_KEY"
    await tool.stop()


async def test_the_server_makes_the_tool_from_its_options(tmp_path: Path) -> None:
    tool = made_by_the_server(tmp_path)
    assert tool.problem == "it is not started"
    await tool.start()
    assert tool.problem is None
    await tool.stop()


async def test_a_restart_of_the_server_indexes_only_what_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "same.md").write_text("# First\n\nharbour")
    (folder / "changed.md").write_text("# Second\n\nharbour")
    times = os.stat(folder / "same.md")
    assert await titles(folder) == {"First", "Second"}
    # Neither the time nor the size tells of this change, so the index still has the old title.
    (folder / "same.md").write_text("# Third\n\nharbour")
    os.utime(folder / "same.md", ns=(times.st_atime_ns, times.st_mtime_ns))
    (folder / "changed.md").write_text("# Another title\n\nharbour")
    assert await titles(folder, expected="Another title") == {"First", "Another title"}
    assert len(list((tmp_path / "data" / "gpt-oss-server" / "search").glob("*.sqlite3"))) == 1


def made_by_the_server(folder: Path) -> HostedTool:
    options = {
        "search": (f"files:{folder}",),
        "fetch_allow_private": (),
        "fetch_allow_domain": (),
        "egress_proxy": None,
        "robots": True,
    }
    setup = ToolSetup(MemoryStore(), {"web_options": options})
    (tool,) = registry.create(("browser",), setup)
    return tool


async def titles(folder: Path, expected: str = "") -> set[str]:
    """The titles that searches of a new tool find, once the expected one is among them."""
    tool = made_by_the_server(folder)
    await tool.start()
    session = await tool.open({"type": "web_search"}, CONTEXT)
    call = ToolCall("ws_1", "browser.search", Channel.ANALYSIS, json.dumps({"query": "harbour"}))
    found: set[str] = set()
    async with asyncio.timeout(60):
        while not found or (expected and expected not in found):
            *_, result = [event async for event in session.run(call)]
            assert isinstance(result, ToolResult)
            found = set(re.findall(r"【\d+†([^†]+)†", result.text))
    await tool.stop()
    return found


async def test_a_tool_that_was_not_started_can_be_stopped() -> None:
    await BrowserTool(BrowserOptions(search=("brave",)), {}).stop()


@pytest.mark.parametrize(
    "options",
    [
        BrowserOptions(search=("searxng",)),
        BrowserOptions(search=("unknown",)),
        BrowserOptions(allow_private=("intranet",)),
        BrowserOptions(allow_domain=("a:b",)),
    ],
)
def test_invalid_options_are_refused(options: BrowserOptions) -> None:
    with pytest.raises(ValueError, match=r"."):
        BrowserTool(options, {})
