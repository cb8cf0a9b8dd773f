"""Several answers to one request (`n`): one run for each, and one run that merges their events.

Each is admitted, sampled and cancelled like any other request. A single answer needs no merging.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AsyncExitStack, aclosing
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import NoReturn

from server.errors import APIError
from server.generation.answer import stopped
from server.generation.answer_spec import AnswerSpec, LastEvents
from server.generation.gateway import Gateway
from server.generation.metering import PromptCount
from server.generation.runs import Emit, Journal, Run, Runs, WireEvent
from server.generation.turn import SharedPrompt
from server.schemas.fields import invalid
from server.tools.closing import close_sessions

Followers = list[AsyncGenerator[Sequence[WireEvent], None]]


async def start(
    gateway: Gateway,
    choices: Sequence[AnswerSpec],
    last_events: LastEvents,
    *,
    param: str = "n",
    journal: Journal | None = None,
    per_prompt: int | None = None,
) -> Run:
    """Admit and start all choices, at least one, each with the id of the request.

    The prompt of plans with a conversation is rendered once: the plans differ in their seeds, and
    in the declarations of their hosted tools.
    last_events: called when all choices have finished; its events are the last. The run fails with
    the first choice that fails. param: the request field with the number of choices. journal:
    stores the events of all choices. per_prompt: how many choices in a row have the same prompt,
    whose tokens count once; None for all. Raises APIError for errors that can be found before
    sampling.
    """
    request_id = choices[0].request_id
    if len(choices) > gateway.admission.limit:
        await _close(choices, request_id)
        raise _too_many(param, gateway.admission.limit)
    if len(choices) == 1:
        return await gateway.start(replace(choices[0], journal=journal, last_events=last_events))
    runs: list[Run] = []
    prompt, count = SharedPrompt(), PromptCount()
    try:
        for index, choice in enumerate(choices):
            name = f"{request_id}-{index}"
            if index % (per_prompt or len(choices)) == 0:
                count = PromptCount()
            run = await gateway.start(
                replace(choice, request_id=name, prompt=prompt, prompt_count=count)
            )
            runs.append(run)
        if journal is not None:
            await journal.begin()
    except BaseException:
        _cancel(runs)
        # A choice closes its own sessions, whether it starts or not.
        await _close(choices[len(runs) + 1 :], request_id)
        raise
    reason = partial(_reason, gateway.runs, request_id)
    merged = _Merged(runs, last_events, reason)
    return gateway.runs.start(merged, request_id, journal=journal)


async def _close(choices: Sequence[AnswerSpec], request_id: str) -> None:
    """Close the sessions of choices that are not going to run."""
    sessions = chain.from_iterable(choice.sessions for choice in choices)
    await close_sessions(sessions, request_id)


def _too_many(param: str, limit: int) -> APIError:
    """The error for more choices than the queue has places. Not a 429: a retry would not help."""
    at_most = f"expected at most {limit} choices in all"
    return invalid(param, f"{at_most}, which is what the server can hold")


def _reason(runs: Runs, request_id: str) -> APIError | None:
    """The error to end a cancelled run with; None if no reader needs the rest."""
    return stopped() if runs.ending else runs.reason(request_id)


class _Merged:
    """The producer of the merged events: the first ones of each choice, then the rest as they come.

    An error that no choice has emitted is an event of its own, in OpenAI's form.

    reason: called when the producer is cancelled; the error to end with, None if no reader needs
    the rest.
    """

    def __init__(
        self,
        runs: Sequence[Run],
        last_events: LastEvents,
        reason: Callable[[], APIError | None],
    ) -> None:
        self._runs = runs
        self._last_events = last_events
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
        await self._pass_on([error.body()], emit)
        raise error

    async def _merge(self, emit: Emit) -> None:
        async with AsyncExitStack() as stack:
            opened = [aclosing(run.follow()) for run in self._runs]
            followers = [await stack.enter_async_context(each) for each in opened]
            for follower in followers:
                # The SDK numbers choices in the order of their first events.
                await self._pass_on(await anext(follower, ()), emit)
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
