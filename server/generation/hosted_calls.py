"""Runs the hosted calls of one answer, within its limits.

A tool's exception, its time limit and the limits of the answer all become results for the model.
"""

import asyncio
import logging
import math
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field

from server.generation.answer_spec import AnswerSpec
from server.generation.metering import CallMeasured, CallOutcome, Observer
from server.generation.plan import TurnPlan
from server.tools.base import (
    ApprovalRequested,
    ToolCall,
    ToolEvent,
    ToolResult,
    ToolSession,
)
from server.tools.closing import STOP_SECONDS, close_sessions

logger = logging.getLogger(__name__)

LAST_EVENTS = (ToolResult, ApprovalRequested)
"""The types of the event that ends a call."""

DEFAULT_TIMEOUT = 60.0
"""Seconds for one call of a tool without a time limit of its own."""

GRACE_SECONDS = 5.0
"""How much longer than its time limit a tool may take to return a result."""


@dataclass(frozen=True, slots=True)
class ToolLimits:
    """The server's limits on the hosted calls of one answer.

    rounds: the most calls that run, >= 1. timeouts: seconds for one call, as `call_timeout` reads
    them. answer: seconds after the start of the answer in which calls may run. grace: as
    `GRACE_SECONDS`.
    """

    rounds: int = 32
    timeouts: Mapping[str, float] = field(default_factory=dict)
    answer: float = math.inf
    grace: float = GRACE_SECONDS


def call_timeout(timeouts: Mapping[str, float], tool: str) -> float:
    """Seconds for one call of a declared tool. timeouts: by the names of tools.

    `mcp.LABEL` has the time limit of `mcp` unless `timeouts` has one for the label. A tool without
    an entry has `DEFAULT_TIMEOUT`.
    """
    general = timeouts.get(tool.partition(".")[0], DEFAULT_TIMEOUT)
    return timeouts.get(tool, general)


class HostedCalls:
    """The sessions of one answer, and how many calls may still run in them.

    observer: is told of each call that ended.
    """

    def __init__(self, spec: AnswerSpec, limits: ToolLimits, observer: Observer) -> None:
        plan = spec.plan
        most = plan.max_tool_calls if isinstance(plan, TurnPlan) else None
        self._sessions = spec.sessions
        # A server may have lost a tool that it had when the approval was requested.
        self._by_recipient: dict[str, ToolSession] = {
            each.call.recipient: each.session for each in spec.answered
        }
        self._by_recipient |= {
            each.recipient: session
            for session in spec.sessions
            for each in session.declaration.calls
        }
        self._answered = spec.answered
        self._limits = limits
        self._most = limits.rounds if most is None else min(most, limits.rounds)
        self._ran = 0
        self._deadline = asyncio.get_running_loop().time() + limits.answer
        self._request_id = spec.request_id
        self._observer = observer
        self._running: _RunningCall | None = None

    async def approved(self) -> tuple[ToolCall, ...]:
        """The calls to run before the first turn. Refusals are recorded.

        Raises InvalidRequest for a refusal of what another request has answered meanwhile.
        """
        for each in self._answered:
            if not each.approved:
                await each.session.refuse(each.call, each.param)
        return tuple(each.call for each in self._answered if each.approved)

    def runs(self, recipient: str | None) -> bool:
        """Whether a session runs calls of this recipient."""
        return recipient in self._by_recipient

    def refusal(self) -> str | None:
        """What the model is told where no further call may run; None where one may."""
        if self._ran >= self._most:
            limit = f"The limit of {self._most} tool calls is reached."
        elif asyncio.get_running_loop().time() >= self._deadline:
            limit = "The time for tool calls is used up."
        else:
            return None
        return f"{limit} This call did not run. Answer now, with what is known."

    def refuse(self, call: ToolCall, why: str) -> ToolResult:
        """The result of a call that does not run. why: as `refusal` says it."""
        name = self._by_recipient[call.recipient].declaration.name
        self._observer.call_ended(CallMeasured(name, "refused"))
        return ToolResult(why, failed=True)

    async def run(self, call: ToolCall) -> AsyncGenerator[ToolEvent, None]:
        """Run a call. The last event is a `ToolResult`, or the only one `ApprovalRequested`.

        Closing the generator cancels the call; `close` waits for its end.
        """
        session = self._by_recipient[call.recipient]
        name = session.declaration.name
        limit = call_timeout(self._limits.timeouts, name)
        began = asyncio.get_running_loop().time()
        deadline = began + limit + self._limits.grace
        outcome: CallOutcome = "cancelled"
        self._ran += 1
        self._running = running = _RunningCall(session, call)
        try:
            while True:
                async with asyncio.timeout_at(min(deadline, self._deadline)):
                    event = await running.events.get()
                if isinstance(event, Exception):
                    # Without its words, which may quote the call or what the tool read.
                    kind = type(event).__name__
                    logger.error("request %s: %s failed with %s", self._request_id, name, kind)
                    event = ToolResult(f"The tool failed: {kind}.", failed=True)
                if isinstance(event, LAST_EVENTS):
                    # Most tools end their calls themselves, before the deadline with its grace.
                    in_time = asyncio.get_running_loop().time() < began + limit
                    outcome = _outcome(event, in_time=in_time)
                yield event
                if isinstance(event, LAST_EVENTS):
                    return
        except TimeoutError:
            logger.warning("request %s: %s took too long", self._request_id, name)
            running.cancel()
            outcome = "timeout"
            yield ToolResult(f"The call was stopped: {self._overtime(limit)}.", failed=True)
        except BaseException:
            running.cancel()
            raise
        finally:
            seconds = asyncio.get_running_loop().time() - began
            self._observer.call_ended(CallMeasured(name, outcome, seconds))

    def _overtime(self, limit: float) -> str:
        if asyncio.get_running_loop().time() >= self._deadline:
            return "the time for tool calls is used up"
        return f"it took more than {limit:g} seconds"

    async def settled(self) -> None:
        """Return when the last call has ended; cancel it after `STOP_SECONDS`."""
        if self._running is not None:
            await self._running.settled(self._request_id)
            self._running = None

    async def close(self) -> None:
        """Wait for the end of the last call and close all sessions. Never raises a tool's error."""
        await self.settled()
        await close_sessions(self._sessions, self._request_id)


def _outcome(event: ToolResult | ApprovalRequested, *, in_time: bool) -> CallOutcome:
    """How a call ended with `event`. in_time: whether that was within its time limit."""
    if isinstance(event, ApprovalRequested):
        return "approval"
    if not event.failed:
        return "completed"
    return "failed" if in_time else "timeout"


class Interrupted(Exception):
    """Something that the tool awaited was cancelled, and the tool was not."""


class _RunningCall:
    """A call in a task of its own, so that a tool that ignores its cancellation blocks no answer.

    events: those of the tool, or the exception that it ended with. It has room for one, so that a
    tool waits for slow readers.
    """

    def __init__(self, session: ToolSession, call: ToolCall) -> None:
        self.events: asyncio.Queue[ToolEvent | Exception] = asyncio.Queue(1)
        self._name = session.declaration.name
        self._task = asyncio.create_task(self._run(session, call))

    async def _run(self, session: ToolSession, call: ToolCall) -> None:
        try:
            async with aclosing(session.run(call)) as events:
                async for event in events:
                    await self.events.put(event)
                    if isinstance(event, LAST_EVENTS):
                        return
            ended: Exception = RuntimeError("the tool ended without a result")
        except Exception as error:
            ended = error
        except asyncio.CancelledError:
            if self._task.cancelling():
                raise
            ended = Interrupted()
        if not self._task.cancelling():
            await self.events.put(ended)

    def cancel(self) -> None:
        """Close the tool's generator soon. Safe to call twice.

        Only the first call cancels: a second cancellation would cut off what the generator does
        when it is closed.
        """
        if not self._task.cancelling():
            self._task.cancel()

    async def settled(self, request_id: str) -> None:
        """Wait for the end of the call; cancel it after `STOP_SECONDS`."""
        done, _ = await asyncio.wait({self._task}, timeout=STOP_SECONDS)
        if not done:
            self._task.cancel()
            logger.error("request %s: a call of %s does not end", request_id, self._name)
