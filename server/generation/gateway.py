"""From a plan to a running answer: the one path that every request of either API takes.

`Gateway.start` refuses what can be refused (429, 400, 503 before anything was sent), then starts
a run whose producer samples and emits wire events; the caller follows the run.
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
from server.generation.outbound import Outbound
from server.generation.plan import RawPlan, TurnPlan
from server.generation.runs import Emit, Journal, Run, Runs, WireEvent
from server.generation.turn import Turn, prepare, prepare_raw
from server.generation.turn_events import TurnEvent, TurnFinished, Usage

logger = logging.getLogger(__name__)

Reason = Callable[[], APIError | None]
LastEvents = Callable[[], Sequence[WireEvent]]


class Gateway:
    """The engine, its queue and the runs in progress.

    max_tokens: of an answer whose plan names none; None is the room in the context. guard: whether
    reasoning that loops is closed, and loops elsewhere are logged. loops: how many were found since
    the start, by where: `analysis` (closed), `commentary`, `final`, `call`, `header` (all logged
    only).
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
        """Admit and start. Raises APIError for all that can be known before sampling.

        last_events: asked for when the turn has finished, and emitted with its last ones.
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
        """Start an answer that says nothing and costs nothing. Raises what the journal raises."""

        async def produce(emit: Emit) -> None:
            events = outbound.start()
            try:
                await emit([*events, *outbound.push(TurnFinished("stop", Usage(0)))])
            except Exception as error:
                failure = _told(error, request_id)
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
        """The plan as the engine is asked. Raises APIError for what it cannot do."""
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
    """What an answer fails with that the server ends, and not its client."""
    return Unavailable("The server stopped before it was finished.")


class _Answer:
    """The producer of one answer's events.

    ending: asked when it is cancelled; True where the server stops. reason: asked then too; the
    error to end with.
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
            failure = _told(error, self._turn.request.request_id)
            if not self._finished:
                await emit(self._outbound.fail(failure))
                raise failure from error

    async def _sample(self, emit: Emit) -> None:
        """All samplings of the turn: where it resumes, the next begins once the last is closed."""
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
                    # It is whole, whatever happens to the engine after it.
                    self._finished = True
                    return
                if turn.resumes:
                    return
        raise BackendFailed("the engine ended without a finish reason")

    async def _end_early(self, emit: Emit) -> None:
        """Emit the last events of a cancelled answer. Raises APIError where the server ends it.

        A foreground answer whose API knows cancelled ones is one of them even then.
        """
        if (reason := self._reason()) is not None:
            await emit(self._outbound.fail(reason))
            raise reason
        ending = self._ending()
        told = [] if ending and self._background else self._outbound.cancel()
        if told or not ending:
            await emit(told)
            return
        failure = stopped()
        await emit(self._outbound.fail(failure))
        raise failure

    def _wire_events(self, batch: Sequence[TurnEvent]) -> list[WireEvent]:
        events: list[WireEvent] = []
        for event in batch:
            events += self._outbound.push(event)
        return events


def _told(error: Exception, request_id: str) -> APIError:
    if not isinstance(error, APIError):
        logger.error("request %s failed", request_id, exc_info=error)
        return ServerFailed("The server had an error while processing the request.")
    if error.status >= 500:
        # Without the reason, which may quote the prompt; an engine logs what broke in it.
        logger.error("request %s failed with %s", request_id, error.code)
    return error
