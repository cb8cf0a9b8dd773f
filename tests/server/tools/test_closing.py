import asyncio

import pytest

from server.tools import closing
from server.tools.base import ToolContext
from server.tools.closing import close_sessions
from tests.server.tools.sample_tools import Calculator, SampleSession

CONTEXT = ToolContext("owner", "resp_1", "tools.0", 1.0)


class Broken(SampleSession):
    async def close(self) -> None:
        raise ValueError("a secret")


class Stuck(SampleSession):
    """closed: how often closing it was cancelled."""

    async def close(self) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.closed += 1
            raise


def session(kind: type[SampleSession] = SampleSession) -> SampleSession:
    return kind(Calculator().declare({"container": {"type": "auto"}}, CONTEXT), CONTEXT)


async def test_all_sessions_are_closed_whatever_one_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(closing, "STOP_SECONDS", 0.01)
    good = session()
    await close_sessions([session(Broken), session(Stuck), good], "resp_1")
    assert good.closed == 1


async def test_an_error_is_logged_without_its_text(caplog: pytest.LogCaptureFixture) -> None:
    await close_sessions([session(Broken)], "resp_1")
    assert "request resp_1: closing python failed with ValueError" in caplog.text
    assert "secret" not in caplog.text


async def test_a_session_that_does_not_close_is_cancelled_and_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(closing, "STOP_SECONDS", 0.01)
    stuck = session(Stuck)
    await close_sessions([stuck], "resp_1")
    await asyncio.sleep(0)
    assert stuck.closed == 1
    assert "request resp_1: the session of python does not close" in caplog.text


async def test_no_sessions_need_no_closing() -> None:
    await close_sessions([], "resp_1")
