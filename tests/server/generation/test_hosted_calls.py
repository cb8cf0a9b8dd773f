"""How hosted calls end, as it is counted."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

import pytest

from harmony.messages import Channel
from server.generation.answer_spec import AnswerSpec
from server.generation.hosted_calls import HostedCalls, ToolLimits, call_timeout
from server.generation.metering import CallMeasured, Observer
from server.tools.base import ToolCall, ToolEvent, ToolProgress, ToolResult
from tests.server.generation.recorder import Recorder
from tests.server.tools.hosted import Session, plan

LIMIT = 0.02


class Limited(Session):
    """Its calls end themselves at the time limit: they fail, or `done` is their result."""

    async def run(self, call: ToolCall) -> AsyncGenerator[ToolEvent, None]:
        try:
            async with asyncio.timeout(LIMIT):
                await asyncio.Event().wait()
        except TimeoutError:
            yield ToolResult(call.content, failed=call.content != "done")


class Counts(Observer):
    def __init__(self) -> None:
        self.ended: list[CallMeasured] = []

    def call_ended(self, call: CallMeasured) -> None:
        self.ended.append(call)


async def outcome(session: Session, text: str, limits: ToolLimits) -> str:
    counts = Counts()
    spec = AnswerSpec(plan(), Recorder(), "r", sessions=[session])
    calls = HostedCalls(spec, limits, counts)
    made = ToolCall("ci_1", "python", Channel.ANALYSIS, text)
    _ = [event async for event in calls.run(made)]
    await calls.close()
    (ended,) = counts.ended
    return ended.outcome


@pytest.mark.parametrize(
    ("text", "expected"),
    [("1", "completed"), ("fail", "failed"), ("crash", "failed"), ("ask", "approval")],
)
async def test_a_call_within_its_time_is_counted_as_it_ended(text: str, expected: str) -> None:
    assert await outcome(Session(), text, ToolLimits()) == expected


@pytest.mark.parametrize(("text", "expected"), [("late", "timeout"), ("done", "completed")])
async def test_a_call_that_fails_at_its_time_limit_is_counted_as_one_that_took_too_long(
    text: str, expected: str
) -> None:
    limits = ToolLimits(timeouts={"python": LIMIT})
    assert await outcome(Limited(), text, limits) == expected


@pytest.mark.parametrize(
    "limits", [ToolLimits(timeouts={"python": LIMIT}, grace=0), ToolLimits(answer=LIMIT)]
)
async def test_a_call_that_is_stopped_took_too_long(limits: ToolLimits) -> None:
    assert await outcome(Session(), "wait", limits) == "timeout"


async def test_a_call_that_awaits_what_was_cancelled_has_failed() -> None:
    class Awaiting(Session):
        async def run(self, call: ToolCall) -> AsyncGenerator[ToolEvent, None]:
            work = asyncio.get_running_loop().create_future()
            work.cancel()
            yield await work

    assert await outcome(Awaiting(), "", ToolLimits(answer=5)) == "failed"


async def test_a_stopped_call_that_raises_has_ended(caplog: pytest.LogCaptureFixture) -> None:
    class Eager(Session):
        async def run(self, call: ToolCall) -> AsyncGenerator[ToolEvent, None]:
            try:
                while True:
                    self.running.set()
                    yield ToolProgress()
            finally:
                raise ValueError

    session = Eager()
    spec = AnswerSpec(plan(), Recorder(), "r", sessions=[session])
    calls = HostedCalls(spec, ToolLimits(), Observer())
    async with aclosing(calls.run(ToolCall("ci_1", "python", Channel.ANALYSIS, ""))) as events:
        await anext(events)
        # Once more, the event after this one waits to be read.
        session.running.clear()
        await session.running.wait()
        await asyncio.sleep(0)
    await calls.close()
    assert caplog.records == []


@pytest.mark.parametrize(("tool", "seconds"), [("mcp.a", 9.0), ("mcp.b", 5.0), ("browser", 60.0)])
def test_a_label_may_have_a_time_limit_of_its_own(tool: str, seconds: float) -> None:
    assert call_timeout({"mcp": 5.0, "mcp.a": 9.0}, tool) == seconds
