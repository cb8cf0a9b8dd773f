"""Starts answers: every request of either API takes this path.

`Gateway.start` raises the errors that can be found before sampling (429, 400, 503). It then starts
a run whose producer samples and emits wire events; the caller reads the run.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import replace
from functools import partial

from adapters.base import Backend
from adapters.errors import BackendError, BackendFailed
from harmony.events import Repair
from harmony.messages import Channel
from server.errors import APIError, ServerFailed, Unavailable, engine_down
from server.generation.admission import Admission, Ticket
from server.generation.outbound_protocol import Outbound
from server.generation.plan import RawPlan, TurnPlan
from server.generation.runs import Emit, Journal, Run, Runs, WireEvent
from server.generation.turn import Turn, prepare, prepare_raw
from server.generation.turn_events import TurnEvent, TurnFinished, Usage

logger = logging.getLogger(__name__)

Reason = Callable[[], APIError | None]
LastEvents = Callable[[], Sequence[WireEvent]]


class Gateway:
    """The engine, its queue and the runs in progress.

    max_tokens: limit for plans without one; None is the rest of the context. guard: whether to
    close reasoning that loops and to log other loops. loops: the number of loops by place, since
    the start: `analysis` (closed), `commentary`, `final`, `call` and `header` (logged only).
    """

    def __init__(
        self,
        backend: Backend,
        admission: Admission,
        *,
        max_tokens: int | None = None,
        guard: bool = True,
    ) -> None:
        self.backend = backend
        self.admission = admission
        self.runs = Runs()
        self.loops = Counter[str]()
        self._max_tokens = max_tokens
        self._guard = guard

    async def start(
        self,
        plan: TurnPlan | RawPlan,
        outbound: Outbound,
        request_id: str,
        *,
        journal: Journal | None = None,
        background: bool = False,
        last_events: LastEvents = tuple,
    ) -> Run:
        """Admit the request and start its run. Raises APIError for errors before sampling.

        last_events: called when the turn has finished; its events follow those of the turn.
        """
        ticket = self.admission.enter(plan.priority)
        try:
            await self._check()
            turn = await self.prepare(plan, request_id)
            if journal is not None:
                await journal.begin()
        except BaseException:
            ticket.leave()
            raise
        answer = _Answer(
            turn,
            outbound,
            ticket,
            lambda: self.runs.ending,
            partial(self.runs.reason, request_id),
            last_events,
            background=background,
        )
        run = self.runs.start(answer, request_id, journal=journal, background=background)
        run.when_done(ticket.leave)
        return run

    async def start_empty(
        self, outbound: Outbound, request_id: str, *, journal: Journal | None = None
    ) -> Run:
        """Start an empty answer without sampling. Raises the errors of the journal."""

        async def produce(emit: Emit) -> None:
            events = outbound.start()
            try:
                await emit([*events, *outbound.push(TurnFinished("stop", Usage(0)))])
            except Exception as error:
                failure = _to_api_error(error, request_id)
                await emit(outbound.fail(failure))
                raise failure from error

        if journal is not None:
            await journal.begin()
        return self.runs.start(produce, request_id, journal=journal)

    async def _check(self) -> None:
        try:
            await self.backend.check()
        except BackendFailed as error:
            raise engine_down(error) from error

    async def prepare(self, plan: TurnPlan | RawPlan, request_id: str) -> Turn:
        """Prepare the plan for the engine. Raises APIError as `turn.prepare` does."""
        if plan.max_tokens is None:
            plan = replace(plan, max_tokens=self._max_tokens)
        if isinstance(plan, RawPlan):
            return await prepare_raw(plan, self.backend, request_id)
        report = partial(self._count_loop, request_id) if self._guard else None
        return await prepare(plan, self.backend, request_id, report)

    def _count_loop(self, request_id: str, place: str) -> None:
        self.loops[place] += 1
        result = "was closed" if place == Channel.ANALYSIS else "goes on"
        logger.warning(
            "request %s: %s: %s %s (%d so far)",
            *(request_id, Repair.REPETITION, place, result, self.loops[place]),
        )


def stopped() -> Unavailable:
    """The error of an answer that is cancelled because the server stops."""
    return Unavailable("The server stopped before it was finished.")


class _Answer:
    """The producer of one answer's events.

    Both functions are called when the producer is cancelled: ending returns whether the server
    stops, reason the error to end with.
    """

    def __init__(
        self,
        turn: Turn,
        outbound: Outbound,
        ticket: Ticket,
        ending: Callable[[], bool],
        reason: Reason,
        last_events: LastEvents,
        *,
        background: bool,
    ) -> None:
        self._turn = turn
        self._outbound = outbound
        self._ticket = ticket
        self._ending = ending
        self._reason = reason
        self._last_events = last_events
        self._background = background
        self._finished = False

    async def __call__(self, emit: Emit) -> None:
        try:
            await emit(self._outbound.start())
            async with self._ticket.slot():
                await self._sample(emit)
        except asyncio.CancelledError:
            if not self._finished:
                await self._end_early(emit)
            raise
        except Exception as error:
            failure = _to_api_error(error, self._turn.request.request_id)
            if not self._finished:
                await emit(self._outbound.fail(failure))
                raise failure from error

    async def _sample(self, emit: Emit) -> None:
        """All samplings of the turn, each after the one before is closed."""
        try:
            while not self._turn.ended:
                await self._sample_once(emit)
        except BackendError as error:
            raise self._turn.api_error(error) from error

    async def _sample_once(self, emit: Emit) -> None:
        turn = self._turn
        async with aclosing(turn.chunks()) as chunks:
            async for chunk in chunks:
                if events := self._wire_events(turn.read(chunk)):
                    await emit(events)
                if turn.ended:
                    await emit([*self._wire_events(turn.finish()), *self._last_events()])
                    # The answer is complete: later errors of the engine do not matter.
                    self._finished = True
                    return
                if turn.resumes:
                    return
        raise BackendFailed("the engine ended without a finish reason")

    async def _end_early(self, emit: Emit) -> None:
        """Emit the last events of a cancelled answer. Raises APIError if the server cancelled it.

        When the server stops, a foreground answer ends as cancelled if its API has that status.
        """
        if (reason := self._reason()) is not None:
            await emit(self._outbound.fail(reason))
            raise reason
        ending = self._ending()
        events = [] if ending and self._background else self._outbound.cancel()
        if events or not ending:
            await emit(events)
            return
        failure = stopped()
        await emit(self._outbound.fail(failure))
        raise failure

    def _wire_events(self, batch: Sequence[TurnEvent]) -> list[WireEvent]:
        events: list[WireEvent] = []
        for event in batch:
            events += self._outbound.push(event)
        return events


def _to_api_error(error: Exception, request_id: str) -> APIError:
    if not isinstance(error, APIError):
        logger.error("request %s failed", request_id, exc_info=error)
        return ServerFailed("The server had an error while processing the request.")
    if error.status >= 500:
        # Without the message, which may quote the prompt; the engine logs the cause.
        logger.error("request %s failed with %s", request_id, error.code)
    return error
