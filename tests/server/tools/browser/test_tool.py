"""The tool as the server starts it."""

import json
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
    options = {
        "search": (f"files:{tmp_path}",),
        "fetch_allow_private": (),
        "fetch_allow_domain": (),
        "egress_proxy": None,
        "robots": True,
    }
    (tool,) = registry.create(("browser",), lambda name: ToolSetup(MemoryStore(), options))
    assert tool.problem == "it is not started"
    await tool.start()
    assert tool.problem is None
    await tool.stop()


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
