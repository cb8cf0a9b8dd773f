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


async def test_tools_are_stopped_where_the_wait_for_a_slow_one_is_cancelled() -> None:
    """As when a server ends before it accepts requests."""
    first, slow = Tool(), Late()
    opening = asyncio.create_task(Toolbox([first, slow]).running().__aenter__())
    await slow.has_begun.wait()
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    assert (first.stopped, slow.stopped) == (1, 1)


async def test_no_tools_need_no_time() -> None:
    async with Toolbox(()).running():
        assert Toolbox(()).problems == {}


async def test_tools_that_fail_are_off(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level("INFO")
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
    levels = {each.getMessage(): each.levelname for each in caplog.records}
    assert levels["the hosted tool browser.search is off: no network"] == "WARNING"
    assert levels["the hosted tool on is on"] == "INFO"
    assert "the hosted tool python could not be started" in caplog.text
    assert "the hosted tool slow does not stop" in caplog.text
    assert "stopping python failed" in caplog.text


class Late(Tool):
    """Starts when it is let go, and cannot be used then."""

    def __init__(self) -> None:
        super().__init__()
        self.has_begun = asyncio.Event()
        self.go = asyncio.Event()
        self.has_started = asyncio.Event()

    async def start(self) -> None:
        self.has_begun.set()
        await self.go.wait()
        self.problem = "no folder"
        asyncio.get_running_loop().call_soon(self.has_started.set)


async def test_a_tool_that_starts_slowly_is_logged_at_its_end(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(toolbox, "START_SECONDS", 0)
    tool = Late()
    async with Toolbox([tool]).running():
        assert "is off" not in caplog.text
        tool.go.set()
        await tool.has_started.wait()
    assert "the hosted tool python is off: no folder" in caplog.text


def test_the_first_tool_has_a_type() -> None:
    first, second = Tool(), Tool()
    assert Toolbox([first, second]).by_type == {"code_interpreter": first}
