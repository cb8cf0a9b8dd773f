"""Several answers to one request (`n`): one run for each, and one run that merges their events.

Each is admitted, sampled and cancelled like any other request. A single answer needs no merging.
"""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, aclosing
from functools import partial
from itertools import chain
from typing import NoReturn

from server.errors import APIError
from server.generation.answer import Reason, stopped
from server.generation.gateway import Gateway
from server.generation.loop import LastEvents
from server.generation.metering import PromptCount
from server.generation.outbound_protocol import Outbound
from server.generation.plan import RawPlan, TurnPlan
from server.generation.runs import Emit, Journal, Run, Runs, WireEvent
from server.generation.turn import SharedPrompt
from server.schemas.fields import invalid
from server.tools.base import ToolSession
from server.tools.closing import close_sessions

Followers = list[AsyncGenerator[Sequence[WireEvent], None]]


async def start(
    gateway: Gateway,
    plans: Sequence[TurnPlan | RawPlan],
    outbounds: Sequence[Outbound],
    request_id: str,
    last_events: LastEvents,
    *,
    param: str = "n",
    journal: Journal | None = None,
    sessions: Sequence[Sequence[ToolSession]] = (),
    per_prompt: int | None = None,
) -> Run:
    """Admit and start all choices: a plan and an outbound for each, at least one.

    The prompt of plans with a conversation is rendered once: the plans differ in their seeds, and
    in the declarations of their hosted tools.
    last_events: called when all choices have finished; its events are the last. The run fails with
    the first choice that fails. param: the request field with the number of choices. sessions: for
    each plan, those of its hosted tools, as in `Gateway.start`; empty for none. per_prompt: how
    many plans in a row have the same prompt, whose tokens count once; None for all. Raises APIError
    for errors that can be found before sampling.
    """
    opened = list(sessions) or [()] * len(plans)
    if len(plans) > gateway.admission.limit:
        await close_sessions([*chain.from_iterable(opened)], request_id)
        raise _too_many(param, gateway.admission.limit)
    if len(plans) == 1:
        return await gateway.start(
            plans[0],
            outbounds[0],
            request_id,
            journal=journal,
            last_events=last_events,
            sessions=opened[0],
        )
    runs: list[Run] = []
    prompt, count = SharedPrompt(), PromptCount()
    try:
        for index, (plan, outbound) in enumerate(zip(plans, outbounds, strict=True)):
            name = f"{request_id}-{index}"
            # Popped: a run closes its own sessions, whether it starts or not.
            mine = opened.pop(0)
            if index % (per_prompt or len(plans)) == 0:
                count = PromptCount()
            run = await gateway.start(
                plan, outbound, name, sessions=mine, prompt=prompt, prompt_count=count
            )
            runs.append(run)
        if journal is not None:
            await journal.begin()
    except BaseException:
        _cancel(runs)
        await close_sessions([*chain.from_iterable(opened)], request_id)
        raise
    merged = _Merged(runs, last_events, outbounds[0], partial(_reason, gateway.runs, request_id))
    return gateway.runs.start(merged, request_id, journal=journal)


def _too_many(param: str, limit: int) -> APIError:
    """The error for more choices than the queue has places. Not a 429: a retry would not help."""
    at_most = f"expected at most {limit} choices in all"
    return invalid(param, f"{at_most}, which is what the server can hold")


def _reason(runs: Runs, request_id: str) -> APIError | None:
    """The error to end a cancelled run with; None if no reader needs the rest."""
    return stopped() if runs.ending else runs.reason(request_id)


class _Merged:
    """The producer of the merged events: the first ones of each choice, then the rest as they come.

    outbound: makes the event of an error that no choice has emitted. reason: called when the
    producer is cancelled; the error to end with, None if no reader needs the rest.
    """

    def __init__(
        self,
        runs: Sequence[Run],
        last_events: LastEvents,
        outbound: Outbound,
        reason: Reason,
    ) -> None:
        self._runs = runs
        self._last_events = last_events
        self._outbound = outbound
        self._reason = reason
        self._turn = asyncio.Lock()
        self._failed = False

    async def __call__(self, emit: Emit) -> None:
        try:
            await self._merge(emit)
            await self._end(emit)
        except asyncio.CancelledError:
            if (reason := self._reason()) is None:
                raise
            await self._fail(emit, reason)
        finally:
            _cancel(self._runs)

    async def _fail(self, emit: Emit, error: APIError) -> NoReturn:
        await self._pass_on(self._outbound.fail(error), emit)
        raise error

    async def _merge(self, emit: Emit) -> None:
        async with AsyncExitStack() as stack:
            opened = [aclosing(run.follow(discard_taken=True)) for run in self._runs]
            followers = [await stack.enter_async_context(each) for each in opened]
            for follower in followers:
                # The SDK numbers choices in the order of their first events.
                await self._pass_on(await anext(follower, ()), emit)
                if self._failed:
                    break
            await self._forward_all(followers, emit)

    async def _pass_on(self, batch: Sequence[WireEvent], emit: Emit) -> None:
        """Emit the batch, unless an error was emitted before: it is the last event."""
        async with self._turn:
            if not self._failed:
                self._failed = any("error" in event for event in batch)
                await emit(batch)

    async def _end(self, emit: Emit) -> None:
        try:
            await emit(self._last_events())
        except APIError as error:
            await self._fail(emit, error)

    async def _forward_all(self, followers: Followers, emit: Emit) -> None:
        try:
            async with asyncio.TaskGroup() as tasks:
                for run, follower in zip(self._runs, followers, strict=True):
                    tasks.create_task(self._forward(run, follower, emit))
        except BaseExceptionGroup as group:
            raise group.exceptions[0] from None

    async def _forward(
        self, run: Run, follower: AsyncGenerator[Sequence[WireEvent], None], emit: Emit
    ) -> None:
        async for batch in follower:
            await self._pass_on(batch, emit)
        if run.error is not None:
            raise run.error


def _cancel(runs: Sequence[Run]) -> None:
    for run in runs:
        run.cancel()
