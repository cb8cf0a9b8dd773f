"""Starting and stopping the hosted tools of a server."""

import asyncio

import pytest

from server.tools import toolbox
from server.tools.toolbox import Toolbox
from tests.server.tools.hosted import SEARCH, Tool, declaration


class Failing(Tool):
    async def start(self) -> None:
        raise ValueError("a defect")

    async def stop(self) -> None:
        raise ValueError("another defect")


class Slow(Tool):
    async def start(self) -> None:
        await asyncio.Event().wait()

    async def stop(self) -> None:
        await asyncio.Event().wait()


async def test_tools_are_started_and_stopped() -> None:
    tool = Tool()
    box = Toolbox([tool])
    async with box.running():
        assert (tool.started, tool.stopped) == (1, 0)
    assert (tool.started, tool.stopped) == (1, 1)


async def test_no_tools_need_no_time() -> None:
    async with Toolbox(()).running():
        assert Toolbox(()).problems == {}


async def test_tools_that_fail_are_off(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(toolbox, "START_SECONDS", 0.01)
    monkeypatch.setattr(toolbox, "STOP_SECONDS", 0.01)
    slow = declaration("slow", "slow")
    tools = [Failing(), Slow(slow), Tool(SEARCH, "no network"), Tool(declaration("on", "on"))]
    box = Toolbox(tools)
    async with box.running():
        assert box.problems == {
            "python": toolbox.NOT_STARTED,
            "slow": toolbox.STARTING,
            "browser.search": "no network",
            "on": None,
        }
    assert tools[-1].stopped == 1
    assert "the hosted tool python could not be started" in caplog.text
    assert "the hosted tool slow does not stop" in caplog.text
    assert "stopping python failed" in caplog.text


def test_the_first_tool_has_a_type() -> None:
    first, second = Tool(), Tool()
    assert Toolbox([first, second]).by_type == {"code_interpreter": first}
